import CLinux
import HubProtocol
import Journal
import Model
import Reconcile
import Volume

// What a device believes may be false, because a hub has lied, or has lost what it had. Some of it
// contradicts the hub's later answers to what the device sends.

extension CommitAnswer {
    /// The items of these operations that the hub does not have. A device sends changes only of
    /// items that the hub has, or that it creates with them.
    fileprivate func unknownItems(of entries: [OperationEntry]) -> [Identifier] {
        // What was refused may have created the item or its directory.
        guard results.allSatisfy({ $0.refusal == nil }) else { return [] }
        let withdrawn = Set(entries.filter(\.changesNothing).map(\.item))
        return zip(entries, results).compactMap { entry, result in
            result.verdict == .overruled(.unknownItem) && !withdrawn.contains(entry.item)
                ? entry.item : nil
        }
    }
}

extension OperationEntry {
    /// Whether it only uses up its number (`OutboxSender.withdraw`).
    fileprivate var changesNothing: Bool {
        if case .resolve(let settled, nil) = change { settled.isEmpty } else { false }
    }
}

/// Why everything must be compared with the hub again although the hub has not asked for it. It is
/// done at once, but then not again for some time: a hub that always lies must not cause one
/// comparison after another.
struct Doubt {
    private var reason: String?
    /// When the next comparison may begin (monotonic nanoseconds).
    private var next: Int64 = 0

    /// When a comparison is due; nil if there is no reason for one.
    var due: Int64? { reason == nil ? nil : next }

    /// Notes the items of operations that the hub does not have. The device believed that it has
    /// them.
    mutating func note(
        _ answer: CommitAnswer, to entries: [OperationEntry], _ journal: Journal,
        _ state: Shared<SyncEngine.State>
    ) throws(VolumeError) {
        for id in answer.unknownItems(of: entries) {
            let path = try journal.read { reader in
                try reader.key(of: id).flatMap { try reader.path(of: $0)?.shown }
            }
            let words = "The hub does not know \(path ?? "item \(id)"), which it had sent before."
            state.withLock { $0.problems[path ?? "\(id)"] = words }
            reason = words
        }
    }

    /// Returns the reason if it is time for the comparison.
    mutating func take(pause seconds: Double, _ state: Shared<SyncEngine.State>) -> String? {
        let now = cl_clock_monotonic_ns()
        guard let reason, now >= next else { return nil }
        self.reason = nil
        next = now + Timestamp.span(seconds: seconds)
        state.withLock { $0.problems = $0.problems.filter { $0.value != reason } }
        return reason
    }
}

/// How often documents' versions got another id because the hub had refused their own, by the keys
/// of the items. A hub may refuse each of them.
struct Renewals {
    private var counts: [Int64: Int] = [:]
    private static let most = 3

    func isLast(_ key: Int64) -> Bool { counts[key] ?? 0 >= Renewals.most }

    mutating func add(_ key: Int64) { counts[key, default: 0] += 1 }
}

extension Reader {
    /// The objections to states that are valid by themselves, by their items: a state is from the
    /// part of the hub's journal that its page is of, and a version belongs to one item.
    func objections(to page: ChangesAnswer) throws(VolumeError) -> [Identifier: String] {
        var objections: [Identifier: String] = [:]
        var owners: [Identifier: Identifier] = [:]
        var unified: Set<Identifier> = []
        for case .alias(let id, _) in page.changes { unified.insert(id) }
        for case .item(let state) in page.changes {
            if state.sequence > page.next {
                objections[state.id] = "Its position in the hub's journal is after the page's end."
            }
            for version in state.live {
                var owner = owners[version.id]
                if owner == nil { owner = try otherItem(with: version.id, than: state) }
                owners[version.id] = owners[version.id] ?? state.id
                guard let owner, owner != state.id, !unified.contains(owner) else { continue }
                objections[state.id] = "Version \(version.id) belongs to another item."
            }
        }
        return objections
    }

    /// The other item of the tree that has the version. An item that has the state's name, or that
    /// this hub was not told about, is not another one (`SyncPlanner.recognize`), and one about
    /// which more was sent or received may be about to become this one.
    private func otherItem(with version: Identifier, than state: ItemState) throws(VolumeError)
        -> Identifier?
    {
        guard let key = try item(ofVersion: version), let item = try item(key), item.id != state.id,
            item.deleted == nil, let mirror = try hub.mirror(item.id), mirror.remote == nil,
            let base = mirror.base.flatMap({ Agreement(encoded: $0) }),
            let session = try Session(self), base.isOf(session), try !hub.isInOutbox(item.id)
        else { return nil }
        let parent = item.parent == Item.root ? .root : try id(of: item.parent)
        return item.name == Name(state.name) && parent == state.placement.parent ? nil : item.id
    }
}

extension Transaction {
    /// Makes the versions of a state free for its item: the journal may have one of them in the
    /// history of a deleted item, which was that item under another id.
    func free(versionsOf state: ItemState) throws(VolumeError) {
        for version in state.live {
            guard let owner = try item(ofVersion: version.id), let item = try item(owner),
                item.deleted != nil, item.id != state.id
            else { continue }
            try free(version: version.id)
        }
    }

    /// Gives the version of an operation another id if it is one of the item's.
    func renew(_ operation: Operation, ofItem key: Int64) throws(VolumeError) -> Bool {
        guard let id = operation.change.revision?.id, try version(id: id)?.item == key else {
            return false
        }
        return try renew(version: id) != nil
    }
}
