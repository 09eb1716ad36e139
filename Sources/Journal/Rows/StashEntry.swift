import Model

/// A file that was moved to the stash and will be cut into chunks.
package struct StashEntry: Hashable, Sendable {
    /// The file's name in the stash.
    package var name: String
    package var inode: UInt64
    /// The item whose content it was; nil when the item is not known yet.
    package var item: Int64?
    /// The recorder's own code for what it will do with the bytes.
    package var kind: UInt8
    /// When the content was saved, nanoseconds since 1970; nil when unknown.
    package var saved: Int64?
    /// The program whose request moved the file to the stash.
    package var actor: Actor
    /// When the row was written, nanoseconds since 1970.
    package var recorded: Int64

    package init(
        name: String, inode: UInt64, item: Int64? = nil, kind: UInt8, saved: Int64? = nil,
        actor: Actor, recorded: Int64
    ) {
        self.name = name
        self.inode = inode
        self.item = item
        self.kind = kind
        self.saved = saved
        self.actor = actor
        self.recorded = recorded
    }
}

extension StashEntry {
    static let columns = "name, inode, item, kind, saved, process, uid, program, recorded"

    init(columns: Columns) throws(VolumeError) {
        self.init(
            name: columns.text(0), inode: columns.bits(1),
            item: columns.isNull(2) ? nil : columns.integer(2),
            kind: UInt8(truncatingIfNeeded: columns.integer(3)),
            saved: columns.isNull(4) ? nil : columns.integer(4),
            actor: Actor(
                process: Int32(truncatingIfNeeded: columns.integer(5)),
                uid: UInt32(truncatingIfNeeded: columns.integer(6)), signature: columns.text(7)),
            recorded: columns.integer(8))
    }

    var values: [Value] {
        [
            .text(name), .bits(inode), .integer(item), .code(kind), .integer(saved),
            .integer(Int64(actor.process)), .integer(Int64(actor.uid)), .text(actor.signature),
            .integer(recorded),
        ]
    }
}
