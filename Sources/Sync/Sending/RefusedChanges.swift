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
}

/// The changes that the hub has recently refused, and how often it refused a version because it has
/// the version elsewhere. Only the engine's thread uses it.
final class RefusedChanges: EnginePart {
    let parts: EngineParts
    /// By the item's key in the journal.
    private var refusals: [Int64: Refusal] = [:]
    private var renewals = Renewals()

    init(_ parts: EngineParts) { self.parts = parts }

    func forgetAll() { refusals = [:] }

    /// When a change is sent again of those that waited when the changes were last examined.
    func nextTime(after examined: Int64) -> Int64 {
        refusals.values.lazy.map(\.until).filter { $0 > examined }.min() ?? .max
    }

    /// Returns whether the hub has recently refused the same change.
    func isRefused(_ keyed: KeyedDraft, now: Int64) -> Bool {
        guard let refusal = refusals[keyed.key] else { return false }
        let draft = refusal.draft ?? keyed.draft
        refusals[keyed.key]?.draft = draft
        guard draft.tells(sameAs: keyed.draft) else {
            refusals[keyed.key] = nil
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
        let isTaken = refusal.takenVersion != nil
        let (planner, renewals) = (journal.planner, renewals)
        let (key, path, isRenewed) = try journal.perform { table in
            guard let (row, operation) = try planner.takeBack(entry.number, in: &table) else {
                return (Int64(0), String?.none, false)
            }
            let key = try table.journal.key(of: row.item) ?? 0
            let path = try table.journal.path(of: key)?.shown
            guard isTaken, !renewals.isLast(key) else { return (key, path, false) }
            return (key, path, try table.journal.renew(operation, ofItem: key))
        }
        if isRenewed {
            self.renewals.add(key)
            let name = path ?? "\(entry.item)"
            return log.warning(
                "sending \(name) with another version: the hub has the version already elsewhere")
        }
        guard isReason else { return }
        let times = (refusals[key]?.times ?? 0) + 1
        let pause = min(600, 15 * Double(1 << min(times, 10)))
        refusals[key] = Refusal(
            draft: nil, until: cl_clock_monotonic_ns() + Timestamp.span(seconds: pause),
            times: times)
        state.withLock {
            $0.problems[path ?? "\(entry.item)"] = "blocked: \(refusal.code): \(refusal.message)"
        }
    }
}
