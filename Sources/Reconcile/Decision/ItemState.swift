import Model

/// Where an item is.
package struct Placement: Hashable, Sendable {
    package var parent: Identifier
    package var name: String
    package var key: NameKey
    /// The name that the item gets when another item has `name`: `name (device date).ext`.
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

/// A recorded content of a document, as the hub knows it. The hub compares ids and `content`, and
/// never reads the contents.
package struct Revision: Hashable, Sendable {
    package var id: Identifier
    /// The revisions it was based on: two after a merge, none for the first revision.
    package var parents: [Identifier]
    /// Equal for equal contents within one volume.
    package var content: Digest
    /// The size in bytes.
    package var size: UInt64
    /// When it was saved. It only decides which of two concurrent revisions is current.
    package var moment: Moment
    /// Its position in the volume's journal; 0 before it is there.
    package var sequence: UInt64
    /// The operation that brought it there; nil before.
    package var recordedBy: OperationID?
    /// The ids of other revisions with the same contents, which this one represents. A device that
    /// has seen one of them has seen this one, and edits may still name them as parents.
    package var equals: [Identifier]
    package var note: Note

    /// What people want to know about a revision.
    package struct Note: Hashable, Sendable {
        package var deviceName: String
        package var person: String
        package var program: String
        /// The document's name at that time.
        package var name: String
        /// Nanoseconds since 1970: when the contents were modified, and when they were saved.
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

    /// Whether `other` is its id, or the id of a revision that it represents.
    package func isNamed(_ other: Identifier) -> Bool { id == other || equals.contains(other) }
}

/// The value of one attribute. The newest value wins, and the other is dropped.
package struct Register: Hashable, Sendable {
    /// Nil when the attribute was removed.
    package var value: [UInt8]?
    package var moment: Moment
    /// Its position in the volume's journal. A device that has seen the value may replace it,
    /// whatever the clocks say.
    package var sequence: UInt64

    package init(value: [UInt8]?, moment: Moment, sequence: UInt64) {
        self.value = value
        self.moment = moment
        self.sequence = sequence
    }
}

package enum Life: Hashable, Sendable {
    case alive
    /// In the trash since `sequence`. Everything with the same batch was deleted by the same
    /// operation.
    case trashed(batch: OperationID, sequence: UInt64)

    package var isAlive: Bool { self == .alive }
}

/// Everything that the hub knows about an item: its life, placement, contents and attributes are
/// independent registers.
package struct ItemState: Hashable, Sendable {
    package var id: Identifier
    package var kind: ItemKind
    /// The target of a symlink. It never changes.
    package var target: String?

    package var placement: Placement
    /// The operation that placed the item, when it did, and its position in the journal.
    package var placedBy: OperationID
    package var placedAt: Moment
    package var placedSequence: UInt64
    /// The item has its spare name because another item has its name.
    package var isBounced: Bool

    /// The current revision; nil for directories and symlinks.
    package var current: Revision?
    /// Revisions that are concurrent with `current` and with each other, until a resolution settles
    /// them.
    package var conflicts: [Revision]

    /// The attributes by name: `mode` (two bytes, big-endian permission bits), `modified` (eight
    /// bytes, big-endian nanoseconds since 1970), `owner` (a user name), and `x:NAME` for extended
    /// attributes.
    package var attributes: [String: Register]

    package var life: Life
    /// The position of the last change to any of these.
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

    /// The name that the item has in its directory.
    package var name: String { isBounced ? placement.spare : placement.name }
    package var nameKey: NameKey { isBounced ? placement.spareKey : placement.key }
}
