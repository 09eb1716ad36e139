import CLinux
import HubProtocol
import Journal
import Model
import Reconcile
import Volume

// Taking changes from the hub into the tree.
extension SyncEngine {
    /// Reads new changes from the hub into the mirrors. Returns false if there are none.
    func pull() throws -> Bool {
        let session = try session()
        // A request shows whether the hub can be reached again, so it is sent if the connection is
        // not up.
        let (head, mustAskHub) = state.withLock { state in
            defer { state.mustAskHub = false }
            return (state.head, state.mustAskHub || state.connection != .up)
        }
        let now = cl_clock_monotonic_ns()
        let isAcknowledged =
            try volume.journal.read { try $0.hub.outboxCount() } == 0 || lastSent == 0
        guard
            session.cursor < head || now >= nextPoll || session.isFresh || !isAcknowledged
                || mustAskHub
        else { return false }
        var isMore = true
        var count = 0
        while isMore, !isEnding {
            let session = try self.session()
            let sent = cl_clock_realtime_ns()
            let told = state.withLock { $0.head }
            let (answer, standing) = try client.changes(
                account.volume, after: session.cursor, run: session.run,
                limit: HubLimits.changes, epoch: session.volumeEpoch,
                withTrash: session.needsTrash)
            clock.learn(
                sent: sent, received: answer.time, answered: answer.time,
                came: cl_clock_realtime_ns())
            volume.retention.hear(hubTime: answer.time)
            if try standings.learn(standing) { (lastSent, refusals) = (0, [:]) }
            guard answer.deviceEpoch == session.epoch else { throw copied }
            count += answer.changes.count
            let due = try take(answer, after: session.cursor, told: told)
            if session.isFresh { try install(due: due) }
            isMore = answer.next < answer.head
        }
        signal.change { state.withLock { $0.connection = .up } }
        nextPoll = cl_clock_monotonic_ns() + Timestamp.span(seconds: settings.pollSeconds)
        if try self.session().isFresh { try join() }
        return try !self.session().isFresh && takeRefusedStates() || count > 0
    }

    /// - Parameter told: The highest head that the hub had told before this was requested.
    private func take(_ answer: ChangesAnswer, after: UInt64, told: UInt64) throws -> [Identifier] {
        let place = RefusedStates.Place(after: after, next: answer.next)
        let objections = try volume.journal.read { try $0.objections(to: answer) }
        let page = Page(
            entries: try answer.changes.compactMap { change in
                switch change {
                case .item(let state):
                    try refusedStates.refuses(
                        state, in: place, objections[state.id], volume.journal)
                        ? nil : .item(state.withSharedAttributes)
                case .alias(let id, let target): .alias(id, of: target)
                }
            }, next: answer.next, run: answer.run, head: answer.head,
            acknowledged: answer.acknowledged)
        guard let due = try take(page) else { throw copied }
        state.withLock { state in
            // What was told before cannot be later than the answer, unless it was a lie.
            state.head = state.head == told ? answer.head : max(state.head, answer.head)
            state.cursor = answer.next
        }
        return due
    }

    /// Takes a page, and stores with it which states were refused. Returns the items that are due.
    func take(_ page: Page) throws(VolumeError) -> [Identifier]? {
        let (sent, refused) = (lastSent, refusedStates.news)
        let due = try perform { [planner] table in
            if let refused { try RefusedStates.store(refused, table.journal) }
            for case .item(let state) in page.entries { try table.journal.free(versionsOf: state) }
            return try planner.take(page, answered: sent, in: &table)
        }
        refusedStates.stored()
        if due?.isEmpty == false { dueCursor = nil }
        return due
    }

    private var copied: HubFault {
        .refused(Failure(.copied, "The hub has more operations of this device than its journal."))
    }

    func session() throws(VolumeError) -> Session {
        guard let session = try volume.journal.read({ try Session($0) }) else {
            throw VolumeError(.damaged, "The journal has no position in the hub's journal.")
        }
        return session
    }

    // MARK: Joining

    /// Completes joining after all of the hub's state was mirrored: existing local items are
    /// matched, the others are created, and from then on local changes may be sent.
    private func join() throws {
        // An earlier process may have mirrored items that it did not create.
        joining = [:]
        try install(due: volume.journal.read { try $0.hub.mirrors(.due, limit: .max).map(\.id) })
        joining = [:]
        while try take(limit: 4096), !isEnding {}
        guard !isEnding else { return }
        try perform { table in
            var session = try table.session()
            session.isFresh = false
            table.set(session)
            // All local items are compared again with what is known of the hub.
            if session.hasEarlierAgreements { try table.journal.markAllUnsent() }
        }
        log.info("joined \(account.volumeName) at \(account.address)")
    }

    /// Begins again with a complete comparison, after the hub was restored or this device's journal
    /// was copied or rolled back.
    func restart(_ failure: Failure) {
        do {
            var epoch = try session().epoch
            if failure.code != .volumeEpoch {
                epoch = try failure.deviceEpoch ?? client.newEpoch()
            }
            let volumeEpoch = try failure.epoch ?? session().volumeEpoch
            try perform { [planner, epoch] table in
                try planner.restart(epoch: epoch, volumeEpoch: volumeEpoch, in: &table)
                try table.journal.revokeConfirmations()
                try table.journal.resendHoldings()
                try table.journal.forgetRebuilding()
            }
            lastSent = 0
            refusedStates.forgetAll()
            isReconfirmed = false
            ready = []
            dueCursor = nil
            nextPoll = 0
            state.withLock { $0.head = 0 }
            log.warning("comparing everything with the hub again: \(failure.message)")
        } catch {
            state.withLock { $0.connection = .down("\(error)") }
            signalPause()
        }
    }

    /// The working tree was missing and was restored from the history. What it lacks must not count
    /// as deleted.
    func restartAfterRebuild() throws -> Bool {
        guard try volume.journal.read({ try $0.isTreeRebuilt }) else { return false }
        restart(Failure(.copied, "The working tree was restored from the history."))
        return true
    }

    private func signalPause() {
        _ = signal.wait(until: cl_clock_monotonic_ns() + 1_000_000_000) { isStopping }
    }

    // MARK: Applying changes to the tree

    /// Brings a number of due items into the tree. Returns false if none can be done now.
    func take(limit: Int = 512) throws -> Bool {
        let isDueAgain = state.withLock { state in
            defer { state.isDueAgain = false }
            return state.isDueAgain
        }
        if isDueAgain { dueCursor = nil }
        let wasAtStart = dueCursor == nil
        let tasks = try nextTasks(limit: limit)
        guard !tasks.isEmpty else {
            // Items before the cursor may have become possible.
            guard !wasAtStart else { return false }
            dueCursor = nil
            return try take(limit: limit)
        }
        try carryOut(tasks)
        return true
    }

    /// The work for one item, and the item's present state in the tree.
    struct Task: Sendable {
        var adjustment: Adjustment
        /// The local item; nil if there is none.
        var item: Item?
        var path: [Name]
        var directory: UInt64
        /// The item's new path.
        var targetPath: [Name]
        var targetDirectory: UInt64
        /// The item that has the new name now, if the two must be swapped.
        var holder: Item?
        var isAbsent = false
        var isPinned = false

        /// The weak package whose changes must become visible together with this one.
        var weakPackage: [Name]? { Volume.weakPackage(of: targetPath) }
    }

    private func nextTasks(limit: Int) throws -> [Task] {
        var cursor = dueCursor
        let now = cl_clock_monotonic_ns()
        let waiting = transfers.waiting.union(
            postponed.lazy.filter { $0.value.until ?? 0 > now }.map(\.key))
        let again = postponed.filter { $0.value.until ?? .max <= now }.map(\.key)
        if !again.isEmpty { cursor = nil }
        let packages = Set(waiting.lazy.compactMap { self.postponed[$0]?.weakPackage })
        let prepared = transfers.waitingForPlace
        let (tasks, next, superseded) = try perform { [planner, cursor] table in
            var superseded: [Identifier] = []
            for (revision, item) in prepared
            where try table.mirror(item)?.remote?.current?.id != revision {
                superseded.append(revision)
            }
            var tasks: [Task] = []
            var cursor = cursor
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
                    guard let adjustment = try planner.adjustment(position.id, in: &table) else {
                        continue
                    }
                    let task = try Task(adjustment, table)
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
            if let name = transfers.takePrepared(revision) { volume.arrivals.discard(name) }
        }
        dueCursor = next
        return tasks
    }

    private func carryOut(_ tasks: [Task]) throws {
        var outcomes = [Outcome](repeating: .later, count: tasks.count)
        var fault: (any Error)?
        do {
            let (now, later) = try deferLargeDownloads(tasks)
            let contents = try fetch(now)
            let done = try apply(now, contents, waiting: later)
            let byItem = Dictionary(
                uniqueKeysWithValues: zip(now.map(\.adjustment.item), done)
                    .map { ($0, $1) })
            outcomes = tasks.map { byItem[$0.adjustment.item] ?? .later }
            if !later.isEmpty { log.trace("\(later.count) wait for their contents") }
        } catch {
            fault = error
        }
        let settled = outcomes
        try perform { [planner] table in
            for (task, outcome) in zip(tasks, settled) {
                if outcome == .done { try task.finish(&table) }
                try planner.adjusted(
                    task.adjustment, isDone: outcome == .done, isStuck: outcome.isStuck,
                    in: &table)
            }
        }
        for (task, outcome) in zip(tasks, outcomes) { note(task, outcome) }
        if let fault { throw fault }
    }

    enum Outcome: Equatable {
        case done
        /// A local change was faster or prevents it. The item is examined again later.
        case later
        /// The same as `later`, with a sentence for the status.
        case waits(String)
        case stuck(String)

        /// The sentence for the status; nil if there is none.
        var reason: String? {
            switch self {
            case .done, .later: nil
            case .waits(let reason), .stuck(let reason): reason
            }
        }

        var isStuck: Bool { if case .stuck = self { true } else { false } }
    }

    private func note(_ task: Task, _ outcome: Outcome) {
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
        let path = task.targetPath.shown
        state.withLock { state in
            state.problems[path] = outcome.reason
        }
    }
}

extension SyncEngine.Task {
    init(_ adjustment: Adjustment, _ table: JournalTable) throws(VolumeError) {
        let journal = table.journal
        let state = adjustment.remote
        let key = try table.key(of: state.placement.parent) ?? 0
        let directory = try journal.item(key)
        self.init(
            adjustment: adjustment, path: [], directory: 0,
            targetPath: (try journal.path(of: key) ?? []) + [Name(state.name)],
            targetDirectory: directory?.inode ?? 0)
        if let key = try journal.key(of: adjustment.item), let item = try journal.item(key),
            item.deleted == nil
        {
            self.item = item
            path = try journal.path(of: key) ?? []
            self.directory = try journal.item(item.parent)?.inode ?? 0
            isAbsent = try journal.absentVersion(of: key) != nil
            isPinned = try journal.isPinned(key)
        }
        if item == nil { isPinned = try journal.isPinned(key) }
        if let id = adjustment.holder, let key = try journal.key(of: id) {
            holder = try journal.item(key)
        }
    }

    /// Makes the changes that concern only the journal, in the transaction that marks the item as
    /// done.
    func finish(_ table: inout JournalTable) throws(VolumeError) {
        let journal = table.journal
        for case .attributes(let changes) in adjustment.steps where !adjustment.replaces {
            guard let key = try journal.key(of: adjustment.item), var item = try journal.item(key)
            else { continue }
            let list = AttributeList(encoded: item.attributes) ?? AttributeList()
            item.attributes = list.agreed(changes).encoded
            try journal.update(item)
        }
        for case .conflicts(let added, let settled) in adjustment.steps {
            var ended: [Identifier] = []
            for id in settled where try journal.version(id: id)?.version.kind == .conflict {
                ended.append(id)
            }
            guard let key = try journal.key(of: adjustment.item) else { continue }
            let now = try journal.item(key)?.current
            try journal.settle(
                ended, of: key, before: item?.current, after: now == item?.current ? nil : now,
                at: cl_clock_realtime_ns())
            try table.note(conflicts: added, of: adjustment.item)
        }
    }
}

extension JournalTable {
    mutating func note(conflicts: [Revision], of id: Identifier) throws(VolumeError) {
        guard let key = try journal.key(of: id) else { return }
        for revision in conflicts {
            if try journal.version(id: revision.id) != nil {
                try journal.setKind(revision.id, .conflict)
            } else {
                try insert(revision, of: key, kind: .conflict)
            }
        }
    }

    mutating func makeHistory(_ revision: Identifier, of id: Identifier) throws(VolumeError) {
        guard try journal.version(id: revision)?.version.kind == .conflict else { return }
        try journal.setKind(revision, .history)
    }

    /// Inserts a version whose contents are only at the hub so far.
    func insert(_ revision: Revision, of key: Int64, kind: Version.Kind) throws(VolumeError) {
        guard var item = try journal.item(key) else { return }
        let content = Digest.keyed(revision.content)
        var version = Version(revision, content: content, kind: kind)
        item.latest += 1
        version.number = item.latest
        // The version gets the permissions that the document has here.
        version.protection = try item.current.flatMap { (id) throws(VolumeError) in
            try journal.version(id: id)?.version.protection
        }
        try journal.insert(version, of: key, manifest: [])
        try journal.update(item)
    }
}

extension Digest {
    /// Returns the keyed form of a content's id, in which the journal stores the hub's ids.
    static func keyed(_ content: Digest) -> Digest {
        content.bytes.withUnsafeBytes {
            Digest(.keyed, hash: UnsafeRawBufferPointer(rebasing: $0[1...]))
        }
    }
}
