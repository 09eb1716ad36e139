import Model

/// What an item is on a device: as its tree shows it, or as it was agreed on with the hub.
package struct Image: Hashable, Sendable {
    package var kind: ItemKind
    package var target: String?
    package var parent: Identifier
    package var name: String
    /// Of a document that has been saved.
    package var revision: Identifier?
    /// Equal for equal contents of one volume.
    package var content: Digest?
    /// When those contents were modified, as the version says that has them here; of a file in the
    /// tree alone, and no part of what is agreed on.
    package var modified: Int64?
    /// Unsettled, in the order of their ids.
    package var conflicts: [Identifier]
    package var attributes: [String: [UInt8]]
    package var isAlive: Bool

    package init(
        kind: ItemKind, target: String? = nil, parent: Identifier, name: String,
        revision: Identifier? = nil, content: Digest? = nil, conflicts: [Identifier] = [],
        attributes: [String: [UInt8]] = [:], isAlive: Bool = true
    ) {
        self.kind = kind
        self.target = target
        self.parent = parent
        self.name = name
        self.revision = revision
        self.content = content
        self.conflicts = conflicts
        self.attributes = attributes
        self.isAlive = isAlive
    }

    /// What a tree that is in step with the hub shows.
    package init(_ state: ItemState) {
        self.init(
            kind: state.kind, target: state.target, parent: state.placement.parent,
            name: state.name, revision: state.current?.id, content: state.current?.content,
            conflicts: state.conflicts.map(\.id).sorted { ($0.high, $0.low) < ($1.high, $1.low) },
            attributes: state.attributes.compactMapValues(\.value),
            isAlive: state.life.isAlive)
        // What its contents say is said once.
        if let time = state.current?.note.modified,
            attributes[Image.modifiedName] == Image.bytes(ofTime: time)
        {
            attributes[Image.modifiedName] = nil
        }
    }

    /// The time of a file that is not that of its contents.
    static let modifiedName = "modified"

    private static func bytes(ofTime time: Int64) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: time >> (56 - 8 * $0)) }
    }

    /// The time of the hub's contents, where the tree has those contents and another time for them:
    /// they were made twice, or came with a time of their own. What the hub heard of first counts.
    func newTime(in state: ItemState) -> Int64? {
        guard let modified, let time = state.current?.note.modified, modified != time,
            hasContents(of: Image(state))
        else { return nil }
        return time
    }

    func isAt(_ other: Image) -> Bool { parent == other.parent && name == other.name }

    func hasContents(of other: Image) -> Bool {
        revision == other.revision || content != nil && content == other.content
    }
}

/// The last image of an item that device and hub agreed on, or that was put in the outbox.
package struct Agreement: Hashable, Sendable {
    package var image: Image
    /// The operation that put it where it is; nil where that is not known.
    package var placedBy: OperationID?
    package var placedAt: Moment?
    /// The hub's journal, and the part of its life, that this was learnt from.
    package var sequence: UInt64
    package var volumeEpoch: Identifier
    /// Of the device's own: `Session.generation`.
    package var generation: UInt64

    package init(
        image: Image, placedBy: OperationID? = nil, placedAt: Moment? = nil, sequence: UInt64,
        volumeEpoch: Identifier, generation: UInt64
    ) {
        self.image = image
        self.image.modified = nil
        self.placedBy = placedBy
        self.placedAt = placedAt
        self.sequence = sequence
        self.volumeEpoch = volumeEpoch
        self.generation = generation
    }

    /// Whether it was learnt in this life of the hub and of the device's journal.
    func isOf(_ session: Session) -> Bool {
        generation == session.generation && volumeEpoch == session.volumeEpoch
    }
}

/// What a device knows of an item at the hub.
package struct Mirror: Hashable, Sendable {
    package var base: Agreement?
    /// What the hub said last, where that is not `base`.
    package var remote: ItemState?
    package var state: State
    /// The lowest of the hub's sequences that `remote` has and the tree has not shown; 0 without
    /// `remote`. Who deletes something has seen less than that.
    package var since: UInt64

    package enum State: UInt8, Hashable, Sendable {
        case settled = 0
        /// `remote` is to be brought into the tree.
        case due = 1
        /// It is being brought there: what the tree shows is not to be taken for an edit.
        case underway = 2
        /// Something here is in its way, which only a change here can end.
        case stuck = 3
        /// The hub refused what was sent.
        case refused = 4
    }

    package init(
        base: Agreement? = nil, remote: ItemState? = nil, state: State = .settled,
        since: UInt64 = 0
    ) {
        self.base = base
        self.remote = remote
        self.state = state
        self.since = since
    }
}

/// How far a device is with the hub.
package struct Session: Hashable, Sendable {
    package var device: Identifier
    /// The device's epoch at the hub: numbers count within it.
    package var epoch: UInt32
    /// The hub's: another one after it was restored from a backup.
    package var volumeEpoch: Identifier
    /// Grows with each beginning from scratch; what was agreed on before is stale.
    package var generation: UInt64
    /// The hub's journal is mirrored up to there.
    package var cursor: UInt64
    /// The run of the hub that wrote its journal at `cursor`; nil where the hub did not say.
    package var run: Identifier?
    /// Of the next operation.
    package var nextNumber: UInt64
    /// The last operation of this epoch that may have gone out: `Exchange.willSend`.
    package var sentUpTo: UInt64
    /// Nothing is sent before all that the hub has was mirrored once and matched with the tree.
    package var isFresh: Bool
    /// Only a part of what the hub had to say has come.
    package var isBehind: Bool

    package init(
        device: Identifier, epoch: UInt32, volumeEpoch: Identifier, generation: UInt64 = 1,
        cursor: UInt64 = 0, run: Identifier? = nil, nextNumber: UInt64 = 1, sentUpTo: UInt64 = 0,
        isFresh: Bool = true, isBehind: Bool = false
    ) {
        self.device = device
        self.epoch = epoch
        self.volumeEpoch = volumeEpoch
        self.generation = generation
        self.cursor = cursor
        self.run = run
        self.nextNumber = nextNumber
        self.sentUpTo = sentUpTo
        self.isFresh = isFresh
        self.isBehind = isBehind
    }
}
