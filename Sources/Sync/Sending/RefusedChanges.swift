import CLinux
import HubProtocol
import Journal
import Logging
import Model
import Reconcile

/// A refused change. The same change is sent again after a pause; another change of the item at
/// once.
struct Refusal {
    /// Nil until the item is examined again.
    var draft: ItemDraft?
    /// Monotonic nanoseconds.
    var until: Int64
    var times: Int
    /// What the status says, and of which path.
    var problem: String
    var path: String

    func concerns(_ other: ItemDraft) -> Bool { draft?.tells(sameAs: other) ?? true }
}

/// What was done so that a refused change can be sent in another way.
private enum Repair {
    case none, version, item
    /// It was done for another operation of the item.
    case before

    var words: String? {
        switch self {
        case .none, .before: nil
        case .version: "with another version: the hub has the version already elsewhere"
        case .item: "as a new document: the folder does not have it any more"
        }
    }
}

/// The changes that the hub has recently refused, and how often it refused a version because it has
/// the version elsewhere. Only the engine's thread uses it.
final class RefusedChanges: EnginePart {
    let parts: EngineParts
    /// By the item's key in the journal.
    private var refusals: [Int64: Refusal] = [:]
    private var renewals = Renewals()

    init(_ parts: EngineParts) { self.parts = parts }

    func forgetAll() { for key in refusals.keys { end(key) } }

    /// Forgets the refusals of items that have nothing to send, and nothing that the hub has not
    /// answered.
    ///
    /// - Parameter drafted: The items that have something to send.
    func keep(_ drafted: Set<Int64>) throws(VolumeError) {
        for key in refusals.keys where !drafted.contains(key) {
            let isSending = try journal.read { reader in
                try reader.id(of: key).map { try reader.hub.isInOutbox($0) } ?? false
            }
            if !isSending { end(key) }
        }
    }

    private func end(_ key: Int64) {
        guard let refusal = refusals.removeValue(forKey: key) else { return }
        state.withLock { state in
            if state.problems[refusal.path] == refusal.problem {
                state.problems[refusal.path] = nil
            }
        }
    }

    /// When a change is sent again of those that waited when the changes were last examined.
    func nextTime(after examined: Int64) -> Int64 {
        refusals.values.lazy.map(\.until).filter { $0 > examined }.min() ?? .max
    }

    /// The refusals of the changes that are not sent again yet, by the item's key.
    func waiting(at now: Int64) -> [Int64: Refusal] { refusals.filter { $0.value.until > now } }

    /// Returns whether the hub has recently refused the same change.
    func isRefused(_ keyed: KeyedDraft, now: Int64) -> Bool {
        guard let refusal = refusals[keyed.key] else { return false }
        let draft = refusal.draft ?? keyed.draft
        refusals[keyed.key]?.draft = draft
        guard draft.tells(sameAs: keyed.draft) else {
            end(keyed.key)
            return false
        }
        return refusal.until > now
    }

    /// Takes the operation out of the outbox; its change is sent again later.
    ///
    /// - Parameter isReason: False if it was refused because of another operation of its item.
    func add(
        _ entry: OperationEntry, _ refusal: OperationResult.Refusal, isReason: Bool
    ) throws {
        let (planner, renewals) = (journal.planner, renewals)
        let (key, path, repair) = try journal.perform { table in
            guard let (row, operation) = try planner.takeBack(entry.number, in: &table) else {
                return (Int64(0), String?.none, Repair.none)
            }
            let key = try table.journal.key(of: row.item) ?? 0
            let path = try table.journal.path(of: key)?.shown
            guard !renewals.isLast(key) else { return (key, path, .none) }
            if refusal.takenItem != nil {
                let isNew = try planner.separate(row.item, operation, in: &table)
                return (key, path, isNew ? .item : .before)
            }
            guard refusal.takenVersion != nil else { return (key, path, .none) }
            let isRenewed = try table.journal.renew(operation, ofItem: key)
            return (key, path, isRenewed ? .version : .none)
        }
        if repair != .none {
            guard let words = repair.words else { return }
            self.renewals.add(key)
            return log.warning("sending \(path ?? "\(entry.item)") \(words)")
        }
        guard isReason else { return }
        let times = (refusals[key]?.times ?? 0) + 1
        end(key)
        let pause = min(600, 15 * Double(1 << min(times, 10)))
        let new = Refusal(
            draft: nil, until: cl_clock_monotonic_ns() + Timestamp.span(seconds: pause),
            times: times, problem: "blocked: \(refusal.code): \(refusal.message)",
            path: path ?? "\(entry.item)")
        refusals[key] = new
        state.withLock { $0.problems[new.path] = new.problem }
    }
}

extension SyncPlanner {
    /// Makes what the tree has a new item, because the folder that is shared with this account does
    /// not have the item any more: it was moved out of it. What the tree does not have either is
    /// forgotten.
    ///
    /// - Returns: False if the item has another id already.
    fileprivate func separate(
        _ id: Identifier, _ operation: Operation, in table: inout JournalTable
    ) throws(VolumeError) -> Bool {
        guard id == operation.item else { return false }
        try table.setMirror(id, nil)
        guard try table.local(id)?.isAlive == true else {
            try table.removeUnsent(id)
            return true
        }
        let new = Identifier.random()
        try table.reidentify(id, as: new)
        try table.addUnsent(new)
        return true
    }
}
