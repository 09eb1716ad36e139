import CLinux
import Journal
import Model
import Reconcile
import Volume

/// Sends changes from the tree to the hub: it decides which are sent now, has their contents
/// uploaded, and puts them into the outbox. Only the engine's thread uses it.
final class ChangeSender: EnginePart {
    let parts: EngineParts
    private let held: HeldChanges
    private let uploads: ContentUploads
    private let outbox: OutboxSender

    init(
        _ parts: EngineParts, held: HeldChanges, uploads: ContentUploads, outbox: OutboxSender
    ) {
        self.parts = parts
        (self.held, self.uploads, self.outbox) = (held, uploads, outbox)
    }

    /// Sends local changes to the hub. Returns false if there is nothing to send now.
    func send() throws -> Bool {
        guard try !journal.session().isFresh else { return false }
        let drafts = try settledDrafts()
        // A reader's changes stay here; examining them has shown which there are.
        guard state.withLock({ $0.standing.maySend }) else { return false }
        var isBusy = false
        if !drafts.isEmpty {
            let uploaded = try uploads.withContents(drafts, examined: held.lastExamined)
            if !uploaded.isEmpty {
                let enqueued = try outbox.enqueue(uploaded)
                held.enqueued(enqueued)
                isBusy = !enqueued.isEmpty
            }
        }
        return try outbox.commit() || isBusy
    }

    private static let batch = 1000

    /// Returns drafts whose delay is over; directories come before their contents.
    private func settledDrafts() throws -> [KeyedDraft] {
        let now = cl_clock_monotonic_ns()
        uploads.holdBackWhatIsTooLarge(at: now)
        let (waiting, staying) = held.examine(now)
        let writes = held.lastWrites()
        let examined = try examine(waiting, staying, now: now)
        let found = examined.found.filter { !outbox.refusals.isRefused($0, now: now) }
        // A full batch did not examine all of the delayed items, and the brake must still count the
        // deletions among them.
        let isFull = examined.isFull
        if !isFull {
            held.keep(waiting.union(found.lazy.map(\.key)))
            try outbox.refusals.keep(waiting.union(examined.found.lazy.map(\.key)))
            if waiting.isEmpty { uploads.keep(examined.found, examined: now) }
        }
        for keyed in examined.leaving { held.noteLeaving(keyed) }
        let isNew = held.hold(found + examined.leaving.filter(\.draft.isDeletion), now: now)
        // A full batch may have left items that have not been examined.
        if isNew, isFull { threads.poke() }
        let settled = found.filter { held.isDue($0, now) }
        held.watch(found)
        let drafts = try held.braked(held.inOrder(settled, now: now))
        // A weak package waits as a whole if the hub has not answered a version of one of its files
        // yet.
        let open = Set(drafts.lazy.filter(\.draft.isWaiting).compactMap(\.weakPackage))
        let ready = drafts.filter { keyed in
            !keyed.draft.isWaiting && keyed.weakPackage.map { !open.contains($0) } ?? true
        }
        return held.whole(ready, writes: writes, unrecorded: examined.unrecorded, now: now)
    }

    /// What an examination of the journal's unsent items has found.
    private struct Examination: Sendable {
        /// The changes that no longer wait for related ones: at most a batch, and those among them
        /// that cannot be sent yet.
        var found: [KeyedDraft] = []
        /// How many of them can be sent.
        var sendable = 0
        var isFull: Bool { sendable >= ChangeSender.batch }
        /// The changes that wait and free a name.
        var leaving: [KeyedDraft] = []
        /// The weak packages that have changes which are not in the journal.
        var unrecorded: Set<[Name]> = []
    }

    private func examine(_ waiting: Set<Int64>, _ staying: Set<Int64>, now: Int64) throws
        -> Examination
    {
        let brake = held.brake
        // What waits for its contents or for another attempt fills no batch, or a thousand such
        // changes would hold up all later ones, such as a deletion that frees the quota.
        let (uploads, refusals) = (uploads.waiting(at: now), outbox.refusals.waiting(at: now))
        return try journal.perform { [planner = journal.planner, volume] table in
            var result = Examination()
            var packages: Set<[Name]> = []
            var cursor: Int64 = 0
            // The rest of a weak package is added even if the batch is full.
            while !result.isFull || !packages.isEmpty {
                let keys = try table.journal.hub.unsent(after: cursor, limit: 1024)
                guard let last = keys.last else { break }
                cursor = last
                for key in keys where waiting.contains(key) && staying.contains(key) {
                    let draft = try table.draft(key, planner, volume, brake)
                    if let draft, draft.vacates != nil { result.leaving.append(draft) }
                }
                for key in keys where !waiting.contains(key) {
                    if result.isFull {
                        let package = try table.journal.path(of: key).flatMap(Volume.weakPackage)
                        guard let package, packages.contains(package) else { continue }
                    }
                    guard let draft = try table.draft(key, planner, volume, brake) else {
                        continue
                    }
                    result.found.append(draft)
                    if uploads.isDisjoint(with: draft.draft.revisions),
                        refusals[key]?.concerns(draft.draft) != true
                    {
                        result.sendable += 1
                    }
                    if let package = draft.weakPackage { packages.insert(package) }
                }
            }
            guard !packages.isEmpty else { return result }
            let unrecorded = try volume.safety.unrecorded(below: [], limit: .max, table.journal)
            result.unrecorded = Set(unrecorded.compactMap { Volume.weakPackage(of: $0.path) })
            return result
        }
    }
}
