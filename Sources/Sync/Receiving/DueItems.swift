import CLinux
import Journal
import Logging
import Model
import Reconcile
import Volume

/// The items whose state at the hub is not in the tree yet: which of them wait because of a local
/// change or condition, and where the next search for the others begins. Only the engine's thread
/// uses it.
final class DueItems: EnginePart {
    let parts: EngineParts
    private let transfers: TransferQueue
    private let contents: ContentFetch
    private let applier: AdjustmentApplier
    private var postponed: [Identifier: Postponement] = [:]
    /// The position from which the next search begins; nil for the first one.
    private var cursor: HubTables.Position?
    /// False while items may have the state `underway` in the journal although nobody is applying
    /// them: after the last process ended, or when their outcome could not be recorded.
    private var isRecovered = false

    init(
        _ parts: EngineParts, _ transfers: TransferQueue, contents: ContentFetch,
        applier: AdjustmentApplier
    ) {
        self.parts = parts
        (self.transfers, self.contents, self.applier) = (transfers, contents, applier)
    }

    /// Begins the next search with the first item again, because others may have become due.
    func searchAgain() { cursor = nil }

    /// When a postponed item is to be examined again.
    var nextTime: Int64 {
        min(transfers.nextAttempt, postponed.values.lazy.compactMap(\.until).min() ?? .max)
    }

    /// Compares with the tree what was being applied when the process ended or the journal could
    /// not be written. Must come before newer states are taken from the hub and before a restart,
    /// because both presume that nothing is underway.
    func recover() throws(VolumeError) {
        guard !isRecovered else { return }
        try journal.perform { [planner = journal.planner] table in
            for id in try table.journal.hub.mirrors(.underway, limit: .max).map(\.id) {
                try planner.recover(id, in: &table)
            }
        }
        isRecovered = true
        searchAgain()
    }

    /// Brings a number of due items into the tree. Returns false if none can be done now.
    func apply(limit: Int = 512) throws -> Bool {
        let isDueAgain = state.withLock { state in
            defer { state.isDueAgain = false }
            return state.isDueAgain
        }
        if isDueAgain { cursor = nil }
        let wasAtStart = cursor == nil
        let tasks = try nextTasks(limit: limit)
        guard !tasks.isEmpty else {
            // Items before the cursor may have become possible.
            guard !wasAtStart else { return false }
            cursor = nil
            return try apply(limit: limit)
        }
        try carryOut(tasks)
        return true
    }

    private func nextTasks(limit: Int) throws -> [AdjustmentTask] {
        var start = cursor
        let now = cl_clock_monotonic_ns()
        let failed = transfers.waitingForAttempt
        let waiting = transfers.beingDownloaded.union(
            postponed.lazy.filter { $0.value.until ?? 0 > now }.map(\.key))
        let again = postponed.filter { $0.value.until ?? .max <= now }.map(\.key)
        if !again.isEmpty { start = nil }
        let packages = Set(waiting.lazy.compactMap { self.postponed[$0]?.weakPackage })
        let prepared = transfers.waitingForPlace
        isRecovered = false
        let (tasks, next, superseded) = try journal.perform {
            [planner = journal.planner, start] table in
            var superseded: [Identifier] = []
            for (revision, content) in prepared
            where try table.mirror(content.item)?.remote.map(content.fits) != true {
                superseded.append(revision)
            }
            var tasks: [AdjustmentTask] = []
            var cursor = start
            for id in again {
                guard var mirror = try table.mirror(id), mirror.state == .stuck else { continue }
                mirror.state = .due
                try table.setMirror(id, mirror)
            }
            while tasks.count < limit || tasks.last?.weakPackage != nil {
                let due = try table.journal.hub.mirrors(.due, after: cursor, limit: 512)
                guard !due.isEmpty else {
                    cursor = nil
                    break
                }
                for position in due {
                    cursor = position
                    if waiting.contains(position.id) { continue }
                    if let revision = failed[position.id],
                        try table.mirror(position.id)?.remote?.shows(revision) == true
                    {
                        continue
                    }
                    guard let adjustment = try planner.adjustment(position.id, in: &table) else {
                        continue
                    }
                    let task = try AdjustmentTask(adjustment, table)
                    if let package = task.weakPackage, packages.contains(package) {
                        try planner.adjusted(adjustment, isDone: false, in: &table)
                        continue
                    }
                    tasks.append(task)
                    if tasks.count >= limit, task.weakPackage == nil { break }
                }
            }
            return (tasks, cursor, superseded)
        }
        // Not before the transaction: if it fails, they are examined again.
        for id in again { postponed[id]?.end() }
        for revision in superseded {
            if let past = transfers.takePrepared(revision) { volume.arrivals.discard(past.name) }
        }
        cursor = next
        isRecovered = tasks.isEmpty
        return tasks
    }

    private func carryOut(_ tasks: [AdjustmentTask]) throws {
        var outcomes = [AdjustmentOutcome](repeating: .later, count: tasks.count)
        var deferred: Set<Identifier> = []
        var fault: (any Error)?
        do {
            let (now, later) = try contents.deferLargeDownloads(tasks)
            deferred = Set(later.map(\.adjustment.item))
            let fetched = try contents.fetch(now)
            let done = try applier.apply(now, fetched, waiting: later)
            let byItem = Dictionary(
                uniqueKeysWithValues: zip(now.map(\.adjustment.item), done)
                    .map { ($0, $1) })
            outcomes = tasks.map { byItem[$0.adjustment.item] ?? .later }
            if !later.isEmpty { log.trace("\(later.count) wait for their contents") }
        } catch {
            fault = error
        }
        let settled = outcomes
        try journal.perform { [planner = journal.planner] table in
            for (task, outcome) in zip(tasks, settled) {
                if outcome == .done { try task.finish(&table) }
                try planner.adjusted(
                    task.adjustment, isDone: outcome == .done, isStuck: outcome.isStuck,
                    in: &table)
            }
        }
        isRecovered = true
        for (task, outcome) in zip(tasks, outcomes) {
            note(task, outcome)
            // Of a deferred one, the transfer queue knows the problem.
            guard !deferred.contains(task.adjustment.item) else { continue }
            state.withLock { $0.problems[task.targetPath.shown] = outcome.reason }
        }
        if let fault { throw fault }
    }

    private func note(_ task: AdjustmentTask, _ outcome: AdjustmentOutcome) {
        let item = task.adjustment.item
        if outcome == .done {
            postponed[item] = nil
        } else {
            var postponement = postponed[item] ?? Postponement()
            postponement.add(isStuck: outcome.isStuck, weakPackage: task.weakPackage)
            postponed[item] = postponement
            // The tree may contain a change that the journal has not seen.
            if postponement.isRepeated, !task.path.isEmpty { volume.scan.recheck(task.path) }
        }
        if outcome == .done {
            for case .conflicts(let added, let settled) in task.adjustment.steps {
                volume.conflicts.tell(.gained, added.map(\.id), task.targetPath)
                volume.conflicts.tell(.resolved, settled, task.targetPath)
            }
        }
    }
}

extension ItemState {
    fileprivate func shows(_ revision: Identifier) -> Bool {
        life.isAlive && current?.id == revision
    }
}
