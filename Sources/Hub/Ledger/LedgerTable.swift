import HubProtocol
import Model
import Reconcile

/// The items of a volume within one transaction, as `Reconcile`'s decision needs them. It caches
/// what it read and wrote, so it must not be used after the transaction, or after a part of the
/// transaction was rolled back.
struct LedgerTable: ItemTable {
    let transaction: any LedgerTransaction
    let volume: Identifier
    /// The sequence number of the operation that is being applied.
    var sequence: UInt64 = 0
    /// The contents of the operation's revision.
    var content: RevisionContent?
    let time: Int64
    /// Whether the operation may make an item's state larger. Then a state of more than
    /// `HubLimits.stateBytes` is refused.
    var isBounded = false
    /// An estimate of the work that was done, where a written row counts as ten units.
    private(set) var work = 0
    private(set) var recorded: [Revision] = []
    private var items: [Identifier: ItemState?] = [:]

    init(_ transaction: any LedgerTransaction, volume: Identifier, time: Int64) {
        self.transaction = transaction
        self.volume = volume
        self.time = time
    }

    /// Creates a table without cached items, after a part of the transaction was rolled back.
    init(_ other: LedgerTable) {
        self.init(other.transaction, volume: other.volume, time: other.time)
        work = other.work
    }

    mutating func item(_ id: Identifier) throws -> ItemState? {
        work += 1
        if let known = items[id] { return known }
        let found = try transaction.item(id, in: volume) ?? (id == .root ? .root : nil)
        items[id] = .some(found)
        return found
    }

    func alias(of id: Identifier) throws -> Identifier? {
        try transaction.alias(of: id, in: volume)
    }

    func holder(of key: NameKey, in parent: Identifier) throws -> Identifier? {
        try transaction.holder(of: key, in: parent, volume: volume)
    }

    mutating func children(of parent: Identifier) throws -> [Identifier] {
        let children = try transaction.children(of: parent, in: volume)
        work += children.count
        return children
    }

    func revision(_ id: Identifier) throws -> Revision? {
        try transaction.revision(id, in: volume)
    }

    mutating func put(_ item: ItemState) throws {
        work += 10
        let encoded = item.encoded
        if isBounded, encoded.count > HubLimits.stateBytes,
            encoded.count > items[item.id]??.encoded.count ?? 0
        {
            throw OversizedItem()
        }
        try transaction.put(item, encoded: encoded, in: volume)
        items[item.id] = .some(item)
    }

    /// The ledger updates all rows in one statement, because there may be many and only their
    /// sequence numbers change.
    mutating func resendAll(_ item: ItemState, _ sequence: UInt64) throws {
        guard try self.item(item.id)?.life.isAlive == true else { return }
        work += 2 * (try transaction.resendAll(item.id, in: volume, sequence: sequence))
        items = [:]
    }

    func setAlias(of id: Identifier, to target: Identifier) throws {
        try transaction.setAlias(of: id, to: target, in: volume, sequence: sequence)
    }

    mutating func record(_ revision: Revision, of item: Identifier) throws {
        try transaction.addRevision(
            revision, of: item, content: content ?? RevisionContent(manifest: [], chunks: []),
            in: volume, at: time)
        work += 10 + 10 * (content?.chunks.ids.count ?? 0)
        recorded.append(revision)
    }
}

/// The operation would make the item's state larger than `HubLimits.stateBytes`.
struct OversizedItem: Error {}

extension ItemState {
    /// The root exists in each volume, and no operation changes it.
    fileprivate static var root: ItemState {
        let nobody = OperationID.unknown
        let placement = Placement(
            parent: .root, name: "", key: NameKey([]), spare: "", spareKey: NameKey([]))
        return ItemState(
            id: .root, kind: .directory, placement: placement, placedBy: nobody,
            placedAt: Moment(time: 0, device: .root), placedSequence: 0, sequence: 0)
    }
}
