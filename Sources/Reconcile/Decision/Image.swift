import Model

/// The state of an item on a device: what its tree shows, or what was agreed on with the hub.
package struct Image: Hashable, Sendable {
    package var kind: ItemKind
    package var target: String?
    package var parent: Identifier
    package var name: String
    /// The current version of a document; nil before the first save.
    package var revision: Identifier?
    /// Equal for equal contents within one volume.
    package var content: Digest?
    /// When the contents were modified, according to this device's version of them. Only set for a
    /// file of the tree; it is not part of an agreement.
    package var modified: Int64?
    /// Conflict versions that are not settled, in the order of their ids.
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

    /// The image that the tree has when it shows the hub's state.
    package init(_ state: ItemState) {
        self.init(
            kind: state.kind, target: state.target, parent: state.placement.parent,
            name: state.name, revision: state.current?.id, content: state.current?.content,
            conflicts: state.conflicts.map(\.id).sorted { ($0.high, $0.low) < ($1.high, $1.low) },
            attributes: state.attributes.compactMapValues(\.value),
            isAlive: state.life.isAlive)
        // The time is left out where it is that of the contents.
        if let time = state.current?.note.modified,
            attributes[Image.modifiedName] == Image.bytes(ofTime: time)
        {
            attributes[Image.modifiedName] = nil
        }
    }

    /// The attribute for a file's time that differs from the time of its contents.
    static let modifiedName = "modified"

    /// Whether an attribute belongs to the contents that it was given to: the mode, the owner or
    /// the time. Extended attributes belong to the item.
    static func isOfContents(_ attribute: String) -> Bool { !attribute.hasPrefix("x:") }

    private static func bytes(ofTime time: Int64) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: time >> (56 - 8 * $0)) }
    }

    /// The hub's modification time of the contents, when the tree has the same contents with
    /// another time: two devices made the same contents, or the file arrived with a time of its
    /// own. The time that the hub received first counts.
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

    /// Takes the revision with the same contents that the hub knows, unless its own is sent. The
    /// hub could not compare the next revision with a parent that it has never received.
    mutating func keepRevision(of mirror: Mirror, unless sent: [Identifier]) {
        guard let id = revision, !sent.contains(id) else { return }
        let known = [mirror.base?.image, mirror.remote.map { Image($0) }].compactMap(\.self)
        revision = known.first { $0.hasContents(of: self) }?.revision ?? id
    }
}

/// The last image of an item that device and hub agreed on, or that this device put into the
/// outbox.
package struct Agreement: Hashable, Sendable {
    package var image: Image
    /// The operation that placed the item where it is; nil when unknown.
    package var placedBy: OperationID?
    package var placedAt: Moment?
    /// When the attributes were set, by name.
    package var attributedAt: [String: Moment]
    /// The position in the hub's journal that the image was learnt from. The hub's journal is
    /// identified by `volumeEpoch`.
    package var sequence: UInt64
    package var volumeEpoch: Identifier
    /// The `Session.generation` in which the image was learnt.
    package var generation: UInt64

    package init(
        image: Image, placedBy: OperationID? = nil, placedAt: Moment? = nil,
        attributedAt: [String: Moment] = [:], sequence: UInt64, volumeEpoch: Identifier,
        generation: UInt64
    ) {
        self.image = image
        self.image.modified = nil
        self.placedBy = placedBy
        self.placedAt = placedAt
        self.attributedAt = attributedAt
        self.sequence = sequence
        self.volumeEpoch = volumeEpoch
        self.generation = generation
    }

    /// The volume was signed out, and is signed in again. An agreement with another volume gets an
    /// epoch that no volume has.
    package mutating func outlive(isSameVolume: Bool) {
        generation = 0
        if !isSameVolume { volumeEpoch = .root }
    }

    /// Whether the image was agreed on with another volume.
    var isForeign: Bool { volumeEpoch == .root }

    /// Whether the image was learnt since the last restart, from the present hub.
    package func isOf(_ session: Session) -> Bool {
        generation == session.generation && volumeEpoch == session.volumeEpoch
    }
}

/// What a device knows about an item at the hub.
package struct Mirror: Hashable, Sendable {
    package var base: Agreement?
    /// The last state that the hub sent, if it differs from `base`.
    package var remote: ItemState?
    package var state: State
    /// The lowest sequence number that `remote` contains and the tree does not show yet; 0 without
    /// `remote`. An operation of this device has only seen what is below it.
    package var since: UInt64

    package enum State: UInt8, Hashable, Sendable {
        case settled = 0
        /// `remote` has still to be applied to the tree.
        case due = 1
        /// `remote` is being applied. What the tree shows in the meantime is not an edit.
        case underway = 2
        /// `remote` cannot be applied until something changes on this device.
        case stuck = 3
        /// The hub refused the operation that this device sent.
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

    /// The parts of the hub's state on which names depend: the state that device and hub agreed on,
    /// or what the hub sent if they have not agreed on any since the last restart.
    package func imageAtHub(in session: Session) -> Image? {
        if let base, base.isOf(session) { return base.image }
        return remote.map { Image($0) } ?? base.flatMap { $0.isForeign ? nil : $0.image }
    }
}

/// The state of a device's synchronization with the hub.
package struct Session: Hashable, Sendable {
    package var device: Identifier
    /// The device's epoch at the hub. Numbers of operations count within it.
    package var epoch: UInt32
    /// The hub's epoch. It changes when the hub is restored from a backup.
    package var volumeEpoch: Identifier
    /// Increases with each restart. Agreements of an earlier generation are stale. The first
    /// session with a hub has generation 1, and there are no earlier agreements.
    package var generation: UInt64
    /// The position in the hub's journal up to which the device has received it.
    package var cursor: UInt64
    /// The process run of the hub that wrote its journal at `cursor`; nil when the hub did not say.
    package var run: Identifier?
    /// The number of the next operation.
    package var nextNumber: UInt64
    /// The highest number of this epoch that may have been sent; see `SyncPlanner.willSend`.
    package var sentUpTo: UInt64
    /// True until the device has received everything from the hub once and matched it with the
    /// tree. Nothing is sent before.
    package var isFresh: Bool
    /// True while the device has received only a part of the pages that the hub has.
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

    /// Whether the device may have agreements with the hub from before this session.
    package var hasEarlierAgreements: Bool { generation > 1 }

    /// Whether the hub must also send the items in its trash. A device that begins from scratch
    /// does not need them. One with agreements must learn what was deleted since then: an item
    /// about which the hub says nothing was lost there, and is created again.
    package var needsTrash: Bool { hasEarlierAgreements || !isFresh }

    /// Makes this the session of a device that was signed out of the hub and has kept what was
    /// agreed on with it. The agreements must count as those of generation 0.
    package mutating func continueEarlierOne() { generation += 1 }
}
