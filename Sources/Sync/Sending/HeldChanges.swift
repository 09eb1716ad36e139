import CLinux
import Journal
import Model
import Reconcile
import Volume

/// A change that waits for related changes.
struct Held {
    var since: Int64
    var until: Int64
    var isDeletion: Bool
    /// Whether it deletes a document that had not been saved for a long time.
    var isLongStanding = false
    /// The name that the change frees.
    var vacates: HubName?
    var weakPackage: [Name]?
}

/// The changes that wait for related changes, for a slower pace, or because they are a mass
/// deletion. Only the engine's thread uses it.
final class HeldChanges: EnginePart {
    let parts: EngineParts
    /// When an item's change may be sent, by the item's key in the journal.
    var held: [Int64: Held] = [:]
    /// When the changes were last examined (monotonic nanoseconds).
    private(set) var lastExamined: Int64 = 0
    /// Weak packages that have changes to send.
    var watched: Set<[Name]> = []
    private var editPace: EditPace
    private(set) var brake: DeletionBrake

    init(_ parts: EngineParts) {
        self.parts = parts
        editPace = EditPace(burst: parts.settings.editBurst, seconds: parts.settings.editSeconds)
        brake = DeletionBrake(parts.settings)
    }

    /// When a change is due. What was due at the last examination and is still here waits for
    /// something else.
    var nextTime: Int64 {
        held.values.lazy.map(\.until).filter { $0 > self.lastExamined }.min() ?? .max
    }

    /// The changes are examined now. Returns the keys of those that still wait, and of those that
    /// did not free a name when they were last examined; by now another item may have taken that
    /// name.
    func examine(_ now: Int64) -> (waiting: Set<Int64>, staying: Set<Int64>) {
        lastExamined = now
        if state.withLock({ $0.isBrakeReleased }) {
            for (key, one) in held where one.isDeletion { held[key]?.until = now }
        }
        return (
            Set(held.lazy.filter { $0.value.until > now }.map(\.key)),
            Set(held.lazy.filter { $0.value.vacates == nil }.map(\.key))
        )
    }

    /// Items that have nothing to send any more are no longer delayed.
    func keep(_ keys: Set<Int64>) { held = held.filter { keys.contains($0.key) } }

    func isDue(_ keyed: KeyedDraft, _ now: Int64) -> Bool { held[keyed.key]?.until ?? now <= now }

    func noteLeaving(_ keyed: KeyedDraft) { held[keyed.key]?.vacates = keyed.vacates }

    /// The changes are in the outbox now.
    func enqueued(_ drafts: [KeyedDraft]) {
        let now = cl_clock_monotonic_ns()
        for keyed in drafts {
            held[keyed.key] = nil
            if keyed.isLongStanding { brake.told(keyed.key, at: now) }
            if keyed.draft.changes.contains(where: { $0.revision != nil }) {
                editPace.sent(keyed.draft.item, now: now)
            }
        }
    }

    /// Leaves out drafts that take a name which another delayed item is about to free. That item
    /// must be sent first, and is no longer delayed.
    func inOrder(_ drafts: [KeyedDraft], now: Int64) -> [KeyedDraft] {
        var leaving: [HubName: Int64] = [:]
        for (key, held) in held where held.until > now {
            if let name = held.vacates { leaving[name] = key }
        }
        guard !leaving.isEmpty else { return drafts }
        return drafts.filter { keyed in
            guard let name = keyed.takes, let key = leaving[name], key != keyed.key else {
                return true
            }
            held[key]?.until = now
            threads.poke()
            return false
        }
    }

    /// Delays changes for a moment so that related changes are sent together: the second half of a
    /// save by renaming, or the rest of a directory that is being removed, however slowly.
    ///
    /// - Returns: Whether one of the changes is new.
    func hold(_ found: [KeyedDraft], now: Int64) -> Bool {
        var (isNew, isRemoving) = (false, false)
        for keyed in found where held[keyed.key]?.isDeletion != keyed.draft.isDeletion {
            let seconds = pause(for: keyed.draft, now: now)
            held[keyed.key] = Held(
                since: now, until: now + Timestamp.span(seconds: seconds),
                isDeletion: keyed.draft.isDeletion, isLongStanding: keyed.isLongStanding,
                vacates: keyed.vacates, weakPackage: keyed.weakPackage)
            isNew = true
            if keyed.draft.isDeletion { isRemoving = true }
        }
        guard isRemoving else { return isNew }
        // Deletions wait for each other, so that the brake can count them before the first ones are
        // sent.
        let still = now + Timestamp.span(seconds: settings.deletionSeconds)
        let longest = Timestamp.span(seconds: settings.removalSeconds)
        for (key, one) in held where one.isDeletion {
            held[key]?.until = max(one.until, min(still, one.since + longest))
        }
        return true
    }

    private func pause(for draft: ItemDraft, now: Int64) -> Double {
        if draft.isDeletion { return settings.deletionSeconds }
        var seconds = 0.0
        for change in draft.changes {
            switch change {
            // A settled conflict is sent at once, because other people are shown it.
            case .resolve: return 0
            case .create: seconds = max(seconds, settings.creationSeconds)
            case .edit:
                seconds = max(seconds, Double(editPace.pause(for: draft.item, now: now)) / 1e9)
            default: seconds = max(seconds, settings.moveSeconds)
            }
        }
        return seconds
    }

    /// Holds back a mass deletion until a person confirms it (decision table, row 30).
    func braked(_ drafts: [KeyedDraft]) throws -> [KeyedDraft] {
        let deletions = held.values.count(where: \.isDeletion)
        let isReleased = state.withLock { $0.isBrakeReleased }
        if isReleased { brake.release() }
        guard deletions > 0 else {
            state.withLock { ($0.brake, $0.isBrakeReleased) = (nil, false) }
            return drafts
        }
        let items = try volume.journal.read { try $0.hub.mirrorCount() }
        let verdict = brake.judge(
            waiting: deletions,
            longStanding: held.values.count { $0.isDeletion && $0.isLongStanding }, of: items,
            at: cl_clock_monotonic_ns())
        let isHolding = verdict != .none && !isReleased
        state.withLock {
            $0.brake = isHolding ? SyncEngine.Brake(count: deletions, items: items) : nil
        }
        guard isHolding else { return drafts }
        func isHeld(_ keyed: KeyedDraft) -> Bool {
            keyed.draft.isDeletion && (verdict == .all || keyed.isLongStanding)
        }
        // Held deletions are examined again later, so that they do not fill each batch; a release
        // ends this.
        let again = cl_clock_monotonic_ns() + Timestamp.span(seconds: settings.brakeSeconds)
        for keyed in drafts where isHeld(keyed) { held[keyed.key]?.until = again }
        return drafts.filter { !isHeld($0) }
    }
}
