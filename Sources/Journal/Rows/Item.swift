import Model

/// An item of the volume, as this device knows it.
package struct Item: Hashable, Sendable {
    package enum Kind: UInt8, Sendable, CaseIterable {
        case file = 1
        case directory = 2
        case package = 3
        case symlink = 4
        case special = 5
    }

    /// The key of the root directory. Its parent is 0.
    package static let root: Int64 = 1

    /// The row id, local to this journal. It is never used twice.
    package var key: Int64
    /// Random and permanent.
    package var id: Identifier
    /// The key of the directory that the item is in.
    package var parent: Int64
    package var name: Name
    package var kind: Kind
    /// The inode of the working tree's file; 0 unknown.
    package var inode: UInt64
    /// The birth time from statx(2), in nanoseconds. It distinguishes two files that have had the
    /// same inode number. 0 unknown.
    package var birth: Int64
    /// The size in bytes as last seen. With `modified` and `changed` it reveals edits that were
    /// made while the daemon was not running.
    package var size: UInt64
    /// Nanoseconds since 1970, as last seen.
    package var modified: Int64
    /// Nanoseconds since 1970, as last seen.
    package var changed: Int64
    /// When the item was deleted, nanoseconds since 1970; nil while it is alive. A deleted item
    /// keeps its row and its versions.
    package var deleted: Int64?
    /// The highest version number that was ever used; 0 none.
    package var latest: Int
    /// The version that the item's name shows.
    package var current: Identifier?
    /// How often the file was rewritten in place while it was large.
    package var inPlace: Int
    /// Permission bits as last recorded; 0 unknown.
    package var mode: UInt16
    /// Extended attributes as last recorded, in the encoded form of `AttributeList`; nil none.
    package var attributes: [UInt8]?

    package init(
        key: Int64 = 0, id: Identifier = .random(), parent: Int64, name: Name, kind: Kind,
        inode: UInt64 = 0, birth: Int64 = 0, size: UInt64 = 0, modified: Int64 = 0,
        changed: Int64 = 0, deleted: Int64? = nil, latest: Int = 0, current: Identifier? = nil,
        inPlace: Int = 0, mode: UInt16 = 0, attributes: [UInt8]? = nil
    ) {
        self.key = key
        self.id = id
        self.parent = parent
        self.name = name
        self.kind = kind
        self.inode = inode
        self.birth = birth
        self.size = size
        self.modified = modified
        self.changed = changed
        self.deleted = deleted
        self.latest = latest
        self.current = current
        self.inPlace = inPlace
        self.mode = mode
        self.attributes = attributes
    }
}

extension Item {
    /// In the order of `init(columns:)`. Without the key it is the order of `values`.
    static let columns = """
        key, id, parent, name, inode, deleted, kind, birth, size, modified, changed, latest,
        current, in_place, mode, attributes
        """
    static let columnCount: Int32 = 16

    init(columns: Columns) throws(VolumeError) {
        self.init(
            key: columns.integer(0), id: try columns.identifier(1), parent: columns.integer(2),
            name: Name(bytes: columns.bytes(3)), kind: try columns.code(6),
            inode: columns.bits(4), birth: columns.integer(7), size: columns.bits(8),
            modified: columns.integer(9), changed: columns.integer(10),
            deleted: columns.isNull(5) ? nil : columns.integer(5),
            latest: Int(columns.integer(11)),
            current: columns.isNull(12) ? nil : try columns.identifier(12),
            inPlace: Int(columns.integer(13)),
            mode: UInt16(truncatingIfNeeded: columns.integer(14)),
            attributes: columns.isNull(15) ? nil : columns.bytes(15))
    }

    var values: [Value] { indexedValues + plainValues }

    /// The values of the columns that have indexes.
    var indexedValues: [Value] {
        [
            .identifier(id), .integer(parent), .bytes(name.bytes), .bits(inode),
            .integer(deleted),
        ]
    }

    var plainValues: [Value] {
        [
            .code(kind.rawValue), .integer(birth), .bits(size), .integer(modified),
            .integer(changed), .integer(Int64(latest)), .identifier(current),
            .integer(Int64(inPlace)), .integer(Int64(mode)),
            attributes.map { .bytes($0) } ?? .null,
        ]
    }
}
