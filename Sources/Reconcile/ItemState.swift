import Model

/// Where an item is.
package struct Placement: Hashable, Sendable {
    package var parent: Identifier
    package var name: String
    package var key: NameKey
    /// The name it takes where `name` is somebody else's: `name (device date).ext`.
    package var spare: String
    package var spareKey: NameKey

    package init(
        parent: Identifier, name: String, key: NameKey, spare: String, spareKey: NameKey
    ) {
        self.parent = parent
        self.name = name
        self.key = key
        self.spare = spare
        self.spareKey = spareKey
    }
}

/// A recorded content of a document, as the hub knows it: it compares ids and `content`, and never
/// looks inside.
package struct Revision: Hashable, Sendable {
    package var id: Identifier
    /// What it was based on; two after a merge, none for the first.
    package var parents: [Identifier]
    /// Equal for equal contents of one volume.
    package var content: Digest
    /// Bytes.
    package var size: UInt64
    /// When it was saved: decides which of two concurrent ones is current, nothing else.
    package var moment: Moment
    /// Where it is in the volume's journal; 0 before it is there.
    package var sequence: UInt64
    /// What brought it there; nil before.
    package var recordedBy: OperationID?
    /// Other revisions with these contents, of which this one stands for all: who has seen one of
    /// them has seen it, and edits still name them as parents.
    package var equals: [Identifier]
    package var note: Note

    /// What people want to know of a revision.
    package struct Note: Hashable, Sendable {
        package var deviceName: String
        package var person: String
        package var program: String
        /// The document's name at the time.
        package var name: String
        /// Nanoseconds since 1970: of the contents, and of the save.
        package var modified: Int64
        package var saved: Int64

        package init(
            deviceName: String = "", person: String = "", program: String = "", name: String = "",
            modified: Int64 = 0, saved: Int64 = 0
        ) {
            self.deviceName = deviceName
            self.person = person
            self.program = program
            self.name = name
            self.modified = modified
            self.saved = saved
        }
    }

    package init(
        id: Identifier, parents: [Identifier], content: Digest, size: UInt64, moment: Moment,
        sequence: UInt64 = 0, recordedBy: OperationID? = nil, equals: [Identifier] = [],
        note: Note = Note()
    ) {
        self.id = id
        self.parents = parents
        self.content = content
        self.size = size
        self.moment = moment
        self.sequence = sequence
        self.recordedBy = recordedBy
        self.equals = equals
        self.note = note
    }

    /// Whether that is its id, or the id of an equal one.
    package func isNamed(_ other: Identifier) -> Bool { id == other || equals.contains(other) }
}

/// One attribute: the newest value wins, and nobody hears of the other.
package struct Register: Hashable, Sendable {
    /// Nil: removed.
    package var value: [UInt8]?
    package var moment: Moment
    /// Where it is in the volume's journal: who has seen it may replace it, whatever the clocks
    /// say.
    package var sequence: UInt64

    package init(value: [UInt8]?, moment: Moment, sequence: UInt64) {
        self.value = value
        self.moment = moment
        self.sequence = sequence
    }
}

package enum Life: Hashable, Sendable {
    case alive
    /// In the trash since `sequence`, together with all that has the same batch.
    case trashed(batch: OperationID, sequence: UInt64)

    package var isAlive: Bool { self == .alive }
}

/// All that the hub knows of an item: four independent registers.
package struct ItemState: Hashable, Sendable {
    package var id: Identifier
    package var kind: ItemKind
    /// Of a symlink; part of what it is.
    package var target: String?

    package var placement: Placement
    /// The operation that put it there, when, and where that is in the journal.
    package var placedBy: OperationID
    package var placedAt: Moment
    package var placedSequence: UInt64
    /// It stands under its spare name because another item has its own.
    package var isBounced: Bool

    /// Nil for directories and symlinks.
    package var current: Revision?
    /// Concurrent with `current` and with one another, until a resolution names them.
    package var conflicts: [Revision]

    /// By name: `mode` (two bytes, big-endian permission bits), `modified` (eight bytes, big-endian
    /// nanoseconds since 1970), and `x:NAME` for extended attributes.
    package var attributes: [String: Register]

    package var life: Life
    /// Of the last change to any of this.
    package var sequence: UInt64

    package init(
        id: Identifier, kind: ItemKind, target: String? = nil, placement: Placement,
        placedBy: OperationID, placedAt: Moment, placedSequence: UInt64, isBounced: Bool = false,
        current: Revision? = nil, conflicts: [Revision] = [],
        attributes: [String: Register] = [:], life: Life = .alive, sequence: UInt64
    ) {
        self.id = id
        self.kind = kind
        self.target = target
        self.placement = placement
        self.placedBy = placedBy
        self.placedAt = placedAt
        self.placedSequence = placedSequence
        self.isBounced = isBounced
        self.current = current
        self.conflicts = conflicts
        self.attributes = attributes
        self.life = life
        self.sequence = sequence
    }

    /// The name it stands under.
    package var name: String { isBounced ? placement.spare : placement.name }
    package var nameKey: NameKey { isBounced ? placement.spareKey : placement.key }
}
