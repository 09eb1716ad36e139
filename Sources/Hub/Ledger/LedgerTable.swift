import HubProtocol
import Model
import Reconcile

/// The items of a volume within one transaction, as the decision wants them. It remembers what it
/// read and wrote: one after a transaction, or after a part of one was taken back, is of no use.
struct LedgerTable: ItemTable {
    let transaction: any LedgerTransaction
    let volume: Identifier
    /// Of the operation that is being applied.
    var sequence: UInt64 = 0
    /// What the operation's revision consists of.
    var content: RevisionContent?
    let time: Int64
    /// The operation brings something that is kept with an item: more than `HubLimits.stateBytes`
    /// of it are not taken.
    var isBounded = false
    /// About how much was done: what may become much is counted, and a row that is written as ten.
    private(set) var work = 0
    private(set) var recorded: [Revision] = []
    private var items: [Identifier: ItemState?] = [:]

    init(_ transaction: any LedgerTransaction, volume: Identifier, time: Int64) {
        self.transaction = transaction
        self.volume = volume
        self.time = time
    }

    /// Another one, after a part of the transaction was taken back.
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

    /// By the ledger itself: there may be many, and nothing else about them changes.
    mutating func tellAllAgain(_ item: ItemState, _ sequence: UInt64) throws {
        guard try self.item(item.id)?.life.isAlive == true else { return }
        work += 2 * (try transaction.tellAllAgain(item.id, in: volume, sequence: sequence))
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

/// What an operation brings is too much for one item.
struct OversizedItem: Error {}

extension ItemState {
    /// Every volume has it, and no operation changes it.
    fileprivate static var root: ItemState {
        let nobody = OperationID.unknown
        let placement = Placement(
            parent: .root, name: "", key: NameKey([]), spare: "", spareKey: NameKey([]))
        return ItemState(
            id: .root, kind: .directory, placement: placement, placedBy: nobody,
            placedAt: Moment(time: 0, device: .root), placedSequence: 0, sequence: 0)
    }
}
