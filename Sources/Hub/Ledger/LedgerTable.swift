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
    /// The account that sends the operations, in a volume of several accounts: versions show it
    /// instead of what the device calls the person. Nil in a volume of one account.
    var sender: String?
    /// Whether the operation may make an item's state larger. Then a state that is too large is
    /// refused.
    var isBounded = false
    var versionLimits = VersionLimits()
    var steps = StepLimits()
    /// What the sender sees, if it is a member of a folder; nil for a member of the whole volume.
    var scope: FolderScope?
    /// The volume's shared folders, once they were asked for.
    var folders: [SharedFolder]?
    /// The documents that have more versions than `versionLimits.most`.
    private(set) var crowded: Set<Identifier> = []
    /// The bytes of a row that count as one unit of work.
    static let bytesPerUnit = 512
    /// An estimate of the work that was done, where a written row counts as ten units.
    var work = 0
    /// The work after which operations are refused, because they cannot be done in several
    /// transactions.
    var workLimit = Int.max
    /// The work after which directories are revived later (`Revivals`).
    var revivalLimit = Int.max
    /// How many bytes the states of items and versions have gained.
    private var growth: Int64 = 0
    private(set) var recorded: [Revision] = []
    private var items: [Identifier: ItemState?] = [:]
    /// The bytes of the stored states of these items.
    private var sizes: [Identifier: Int] = [:]
    /// What the operations have added to the usage of the volume's account. It is written once,
    /// because all volumes of an account wait for each other from then on.
    var charged: Int64 = 0

    init(_ transaction: any LedgerTransaction, volume: Identifier, time: Int64) {
        self.transaction = transaction
        self.volume = volume
        self.time = time
    }

    /// Creates a table without cached items, after a part of the transaction was rolled back.
    init(_ other: LedgerTable) {
        self.init(other.transaction, volume: other.volume, time: other.time)
        work = other.work
        sender = other.sender
        (versionLimits, steps) = (other.versionLimits, other.steps)
        crowded = other.crowded
        scope = other.scope
        scope?.forgetPlaces()
    }

    var directories: DirectoryTable { DirectoryTable(transaction: transaction, volume: volume) }

    /// Returns the growth since the last call.
    mutating func takeGrowth() -> Int64 {
        defer { growth = 0 }
        return growth
    }

    private func checkWork() throws {
        guard work > workLimit else { return }
        throw OperationBound(
            revivalLimit < .max
                ? "This change concerns too many items at once: change parts of the directory."
                : "The operations of this group cause too much work at once: send them without a "
                    + "group.")
    }

    mutating func item(_ id: Identifier) throws -> ItemState? {
        guard scope != nil else { return try stored(id) }
        if id == .root { return .root }
        guard try sees(id), let found = try stored(id) else { return nil }
        return scope?.shown(found)
    }

    /// The item as the ledger has it.
    private mutating func stored(_ id: Identifier) throws -> ItemState? {
        work += 1
        try checkWork()
        if let known = items[id] { return known }
        let (stored, size) = try transaction.sizedItem(id, in: volume)
        let found = stored ?? (id == .root ? .root : nil)
        sizes[id] = size
        let bytes = found?.attributes.values.reduce(0) { $0 + ($1.value?.count ?? 0) } ?? 0
        work += bytes / LedgerTable.bytesPerUnit
        items[id] = .some(found)
        return found
    }

    mutating func alias(of id: Identifier) throws -> Identifier? {
        guard scope != nil else { return try transaction.alias(of: id, in: volume) }
        guard let target = try target(ofAlias: id), try sees(target) else { return nil }
        return target
    }

    func holder(of key: NameKey, in parent: Identifier) throws -> Identifier? {
        try transaction.holder(of: key, in: scope?.stored(parent) ?? parent, volume: volume)
    }

    mutating func children(of parent: Identifier) throws -> [Identifier] {
        let parent = scope?.stored(parent) ?? parent
        let children = try transaction.children(of: parent, in: volume)
        work += children.count
        try checkWork()
        return children
    }

    /// The alive items in a directory whose name keys are after this one, in the order of the keys.
    mutating func aliveChildren(of parent: Identifier, after key: NameKey, limit: Int) throws
        -> [(id: Identifier, key: NameKey)]
    {
        let parent = scope?.stored(parent) ?? parent
        let children = try directories.aliveChildren(of: parent, after: key, limit: limit)
        work += 1 + children.count
        return children
    }

    /// Whether there are more than `limit` alive items below a directory.
    mutating func hasMore(than limit: Int, in directory: Identifier) throws -> Bool {
        var (open, count) = ([directory], 0)
        while let next = open.popLast() {
            let children = try aliveChildren(
                of: next, after: NameKey([]), limit: limit + 1 - count)
            count += children.count
            guard count <= limit else { return true }
            open += children.map(\.id)
        }
        return false
    }

    mutating func revision(_ id: Identifier) throws -> Revision? {
        guard try sees(version: id) else { return nil }
        return try transaction.revision(id, in: volume)
    }

    mutating func put(_ shown: ItemState) throws {
        var item = shown
        if let scope {
            try claim(item.id)
            item.placement.parent = scope.stored(item.placement.parent)
        }
        let encoded = item.encoded
        work += 10 + encoded.count / LedgerTable.bytesPerUnit
        try checkWork()
        let before = try sizes[item.id] ?? transaction.stateBytes(of: item.id, in: volume)
        if isBounded, encoded.count > before, let objection = item.objection(toBytes: encoded.count)
        {
            throw OperationBound(objection)
        }
        growth += Int64(encoded.count - before)
        let former = try items[item.id] ?? transaction.item(item.id, in: volume)
        if let former { try noteThePast(former, before: item) }
        try transaction.put(item, encoded: encoded, replacing: former, in: volume)
        items[item.id] = .some(item)
        sizes[item.id] = encoded.count
        if let former, former.placement.parent != item.placement.parent {
            try noteMove(of: item, from: former)
        }
    }

    /// Announces an item again without a change of its state.
    mutating func resendRow(_ id: Identifier) throws {
        try transaction.execute(
            "UPDATE items SET sequence = $3 WHERE volume = $1 AND id = $2",
            [.id(volume), .id(id), .count(sequence)])
        items[id] = nil
    }

    private mutating func noteThePast(_ old: ItemState, before item: ItemState) throws {
        let past = PastTable(transaction, volume: volume)
        growth += try past.note(old, before: item, at: sequence)
        // A version that was not received with this operation is current although it is older.
        guard let current = item.current, current.sequence != sequence,
            current.id != old.current?.id || recorded.last?.sequence == sequence
        else { return }
        try past.setCurrent(current.id, of: item.id, at: sequence)
    }

    /// The ledger updates all rows in one statement, because there may be many and only their
    /// sequence numbers change.
    mutating func resendAll(_ item: ItemState, _ sequence: UInt64) throws {
        guard try self.item(item.id)?.life.isAlive == true else { return }
        work += 2 * (try transaction.resendAll(item.id, in: volume, sequence: sequence))
        items = [:]
        try checkWork()
    }

    mutating func revivesLater(_ directory: Identifier, _ batch: OperationID) throws -> Bool {
        guard revivalLimit < .max else { return false }
        let limit = steps.revived + 1
        if work < revivalLimit,
            try directories.trashedCount(in: directory, upTo: limit) < limit
        {
            return false
        }
        work += 10
        try directories.set(Revival(directory: directory, batch: batch))
        return true
    }

    mutating func setAlias(of id: Identifier, to target: Identifier) throws {
        try claim(id)
        try transaction.setAlias(of: id, to: target, in: volume, sequence: sequence)
    }

    mutating func record(_ revision: Revision, of item: Identifier) throws {
        let content = content ?? RevisionContent(manifest: [], chunks: [])
        // `VersionIDs` has refused such a version before, and the table does, too.
        guard
            try transaction.addRevision(
                revision, of: item, content: content, in: volume, at: time,
                countedUpTo: versionLimits.refused + 1)
        else {
            throw OperationBound(
                "Another version has this version's id.", takenVersion: revision.id)
        }
        // The uses of many chunks were counted before.
        let bytes = content.manifest.bytes.count + content.chunks.bytes.count
        work += 10 + bytes / LedgerTable.bytesPerUnit
        if !content.isLarge { work += 10 * content.chunks.ids.count }
        try checkCount(of: item)
        growth += Int64(revision.encoded.count)
        recorded.append(revision)
    }
}

extension LedgerTable {
    /// - Throws: `.busy` if the document has so many versions that some must be removed first.
    private mutating func checkCount(of item: Identifier) throws {
        let limit = versionLimits.refused
        let count = try transaction.versions(in: volume).count(of: item, upTo: limit + 1)
        work += count / 50
        guard count > versionLimits.most else { return }
        crowded.insert(item)
        guard count <= limit else {
            throw HubProtocol.Failure(
                .busy,
                "A document has \(limit) versions, and the hub is removing some of the old ones. "
                    + "The device tries again later.")
        }
    }
}

/// An operation is refused because it, or its group, exceeds a limit. The message is a sentence.
struct OperationBound: Error {
    let message: String
    /// As `OperationResult.Refusal.takenVersion`.
    let takenVersion: Identifier?
    /// As `OperationResult.Refusal.takenItem`.
    let takenItem: Identifier?

    init(_ message: String, takenVersion: Identifier? = nil, takenItem: Identifier? = nil) {
        self.message = message
        self.takenVersion = takenVersion
        self.takenItem = takenItem
    }
}

extension ItemState {
    /// The objection to a state that has grown to this number of bytes.
    fileprivate func objection(toBytes bytes: Int) -> String? {
        if bytes > HubLimits.stateBytes {
            return "What is known of an item, with its attributes and conflict versions, has at "
                + "most \(HubLimits.stateBytes) bytes."
        }
        if attributes.values.count(where: { $0.value != nil }) > HubLimits.attributes {
            return "An item has at most \(HubLimits.attributes) attributes."
        }
        return conflicts.count > HubLimits.conflicts
            ? "An item has at most \(HubLimits.conflicts) conflict versions: resolve some of them."
            : nil
    }

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
