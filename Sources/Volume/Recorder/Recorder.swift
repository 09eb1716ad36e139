import CLinux
import ChunkStore
import Journal
import Logging
import Model
import Synchronization
import SystemCalls

/// Turns the changes that programs make into documents and versions. It is one thread with low
/// priority, which processes all events and records all versions.
///
/// It waits until the volume has been quiet for a moment, processes all events in the order in
/// which they happened (`EventProcessor`), commits that, and then records the documents that were
/// saved (`VersionRecorder`). In between it compares the tree with the journal (`Scanner`) and
/// thins old versions (`VersionThinning`).
package final class Recorder: @unchecked Sendable {
    // The following properties are used by the recorder's thread alone, except `signal` and what it
    // guards.
    let tree: Int32
    let packs: PackStore
    let events: EventQueue
    let settings: Settings
    /// The contents of the stash when the volume was opened.
    var leftovers: [Stash.Entry]
    /// Entries of `incoming/` with packages that the applier had put aside when it was killed.
    let displaced: [Name]
    let powerLoss: PowerLoss?
    let writer: JournalWriter
    let reports: RecorderReports
    let closing = ClosingTime()
    let pauses: WorkPauses
    let reserve: Reserve
    let room: Room
    let freeable = Freeable()
    let retention: RetentionParts
    let roles: DirectoryRoles
    let index: DocumentIndex
    let adopter: ArrivalAdopter
    let attributes: ItemAttributes
    let processor: EventProcessor
    let scanner: Scanner
    let queue: RecordingQueue
    let chunks: ChunkKeeper
    let contents: ContentReader
    let placeholders: PlaceholderFetching
    let versionMaker: VersionMaker
    let versionRecorder: VersionRecorder
    private let isReadySlot = CallbackSlot<@Sendable (Int64) -> Void>()
    /// Called with the key of a document whose file has lost its contents or its end.
    let notShown = CallbackSlot<@Sendable (Int64) -> Void>()

    let packageCuts = PackageCuts()
    var isPerforming = false

    let debounce: Debounce
    let signal = Signal()
    let journalChanged: CallbackSlot<@Sendable () -> Void>
    let versionsHeard = CallbackSlot<@Sendable (VersionChange, [Identifier], [Name]) -> Void>()

    // The following properties are guarded by `signal`.
    private var isStopping = false
    private var isEnding = false
    private static let closingEventsMax = 1_000
    private var isAbandoned = false
    private var isStarted = false
    private var hasStopped = false
    private var hasNews = false
    private var isSweepDue = false
    private var ticketsGiven: UInt64 = 0
    private var ticketsDone: UInt64 = 0
    private var focus: [RecorderFocus] = []
    var tasks: [(Recorder) -> Void] = []

    init(
        tree: Int32, stash: Stash, journal: Journal, packs: PackStore, hydration: Hydration,
        events: EventQueue, settings: Settings, device: RecordingDevice, kept: KeptContents,
        unrecorded: UnrecordedContents, powerLoss: PowerLoss?, log: Logger,
        ignoreFile: IgnoreFile, leftovers: [Stash.Entry], incoming: Incoming,
        displaced: [Name], reserve: Reserve, room: Room
    ) {
        self.reserve = reserve
        self.room = room
        journalChanged = hydration.journalChanged
        self.tree = tree
        self.packs = packs
        self.events = events
        self.settings = settings
        debounce = Debounce(settings)
        self.powerLoss = powerLoss
        self.leftovers = leftovers
        self.displaced = displaced
        let owners = TreeOwners(tree: tree)
        writer = JournalWriter(
            journal: journal, stash: stash, settings: settings, debounce: debounce)
        reports = RecorderReports(log: log)
        pauses = WorkPauses(takeRetry: journal.takeRetry)
        retention = RetentionParts(
            writer: writer, packs: packs, tree: tree, stash: stash, kept: kept, room: room,
            reserve: reserve, settings: settings, measured: freeable, pauses: pauses,
            closing: closing, reports: reports, log: log)
        roles = DirectoryRoles(writer: writer, tree: tree, ignoreFile: ignoreFile)
        versionMaker = VersionMaker(device: device)
        placeholders = PlaceholderFetching(
            hydration: hydration, reports: reports, isReady: isReadySlot)
        chunks = ChunkKeeper(
            writer: writer, packs: packs, stash: stash, tree: tree, room: room,
            settings: settings, closing: closing)
        contents = ContentReader(
            writer: writer, roles: roles, stash: stash, tree: tree, powerLoss: powerLoss,
            closing: closing, cuts: packageCuts, settings: settings, chunks: chunks,
            notShown: notShown, isReady: isReadySlot)
        let packages = PackageRecorder(
            writer: writer, tree: tree, roles: roles, contents: contents, chunks: chunks,
            placeholders: placeholders, versions: versionMaker, space: retention.space,
            cuts: packageCuts, powerLoss: powerLoss, closing: closing)
        versionRecorder = VersionRecorder(
            writer: writer, settings: settings, packs: packs, room: room, space: retention.space,
            owners: owners, kept: kept, unrecorded: unrecorded,
            contents: contents, chunks: chunks, packages: packages, lost: contents.lost,
            placeholders: placeholders, versions: versionMaker, pauses: pauses,
            closing: closing, reports: reports, log: log, notShown: notShown,
            versionsHeard: versionsHeard)
        index = DocumentIndex(
            writer: writer, roles: roles, cuts: packageCuts, owners: owners,
            retentionTime: retention.time, settings: settings)
        adopter = ArrivalAdopter(
            writer: writer, index: index, roles: roles, tree: tree, stash: stash,
            incoming: incoming, cuts: packageCuts, reports: reports, log: log)
        attributes = ItemAttributes(writer: writer, tree: tree, owners: owners)
        processor = EventProcessor(
            writer: writer, index: index, adopter: adopter, attributes: attributes,
            versionMaker: versionMaker, owners: owners, events: events, settings: settings,
            debounce: debounce, pauses: pauses, closing: closing, reports: reports, log: log,
            lostSaves: powerLoss?.unfinished)
        scanner = Scanner(
            writer: writer, index: index, processor: processor, tree: tree, stash: stash,
            settings: settings, pauses: pauses, reports: reports, adopter: adopter, owners: owners)
        queue = RecordingQueue(
            writer: writer, processor: processor, versionRecorder: versionRecorder,
            pauses: pauses, closing: closing)
        isReadySlot.set { [weak self] in self?.isReady($0) }
        writer.didCommit = { [unowned self] in committed() }
    }

    /// Called after each transaction.
    private func committed() {
        pauses.succeeded()
        room.changed()
        adopter.forgetAdopted()
        adopter.removeMarks()
        tellVersionNews()
        if !isPerforming { journalChanged.current?() }
    }

    /// Starts the thread. `logged` are events that the last daemon may not have processed.
    func start(_ logged: [NotedEvent]) {
        signal.change { isStarted = true }
        reports.change { $0.isScanning = true }
        startThread(named: "recorder") { self.run(logged) }
    }

    /// The volume is about to close: callers do not wait any more, and work that takes longer than
    /// `closingSeconds` is given up. Such contents are safe and are recorded at the next start.
    func prepareToStop() {
        closing.begin(seconds: settings.closingSeconds)
        signal.change { isEnding = true }
    }

    /// Ends the thread, and records what can be recorded within `closingSeconds`. The calling
    /// thread does the last work, because the recorder's own has a low priority: beside busy
    /// programs it would record almost nothing in that time.
    func stop() {
        prepareToStop()
        signal.change { isStopping = true }
        _ = signal.wait(until: .max / 2) { hasStopped || !isStarted }
        guard signal.look({ isStarted }) else { return }
        part()
        publish()
    }

    /// Ends the thread as a crash would, without recording anything more.
    func abandon() {
        signal.change { isAbandoned = true }
        _ = signal.wait(until: .max / 2) { hasStopped || !isStarted }
    }

    /// Removes the bytes of forgotten versions when there is nothing else to do.
    func sweepSoon() { signal.change { (isSweepDue, hasNews) = (true, true) } }

    /// The document can be recorded now.
    func isReady(_ key: Int64) {
        queue.isReady(key)
        wake()
    }

    /// Whether a sweep was requested since the last call.
    func takeSweep() -> Bool {
        signal.change {
            defer { isSweepDue = false }
            return isSweepDue
        }
    }

    /// Called by a thread that has appended an event to an empty queue.
    func wake() { signal.change { hasNews = true } }

    /// Waits until all events before the call are processed and the named documents, if any, are
    /// recorded, except those that a program has open for writing. Returns false when the time is
    /// over or the volume is about to close.
    func catchUp(with focus: RecorderFocus?, timeoutSeconds: Double) -> Bool {
        let ticket = signal.change { () -> UInt64 in
            ticketsGiven += 1
            if let focus { self.focus.append(focus) }
            return ticketsGiven
        }
        let deadline = cl_clock_monotonic_ns() + Timestamp.span(seconds: timeoutSeconds)
        return signal.wait(until: deadline) { ticketsDone >= ticket || hasStopped || isEnding }
            && signal.look { ticketsDone >= ticket || hasStopped }
    }

    /// Whether the volume is about to close, so that callers do not wait for the recorder.
    var isAboutToClose: Bool { signal.look { isEnding } }

    /// Takes over what the last daemon has left. Returns false if the volume is about to close.
    func begin(_ logged: [NotedEvent]) -> Bool {
        index.isReplaying = !logged.isEmpty
        retention.time.restore()
        processor.restore(logged)
        while !processor.backlog.isEmpty, state.scan == nil, !pauses.isPaused, !closing.isOverdue {
            processor.applyBacklog()
        }
        guard !closing.isOverdue else { return false }
        // The old daemon's handles are gone. A program that can still write is found by a lease.
        for key in state.pending.all.keys { state.pending[key]?.isWriting = false }
        scanner.missing.stashRecovery.recover(leftovers)
        leftovers = []
        adopter.recover(displaced)
        writer.startScan()
        return true
    }

    private func run(_ logged: [NotedEvent]) {
        cl_thread_background()
        guard begin(logged) else { return signal.change { hasStopped = true } }
        while !signal.look({ isAbandoned }) {
            let asked = signal.look {
                (
                    stop: isStopping, tickets: ticketsGiven, focus: focus, tasks: tasks.count
                )
            }
            let isAsked = asked.tickets > ticketsDone || asked.tasks > 0
            if asked.stop, events.waiting.count > Recorder.closingEventsMax { break }
            processor.processEvents(now: asked.stop || isAsked)
            if asked.stop { break }
            if retention.space.makeRoom(processor.processAll) { publish() }
            if isAsked, areEventsProcessed {
                // Only the tickets read above: events before later ones may not be processed yet.
                runTasks(asked.tasks)
                queue.record(asked.focus)
                publish()
                signal.change {
                    ticketsDone = asked.tickets
                    focus.removeFirst(asked.focus.count)
                }
                continue
            }
            if look() || settleMissing() || queue.recordDue() || queue.recordPending() || thin() {
                publish()
                continue
            }
            publish()
            chunks.forgetStash()
            reserve.restore()
            if state.scan == nil, processor.backlog.isEmpty {
                retention.freeable.measure()
                processor.copiedStore.forgetWhenSettled()
            }
            sleep()
        }
        publish()
        signal.change { hasStopped = true }
    }

    /// Compares some directories of the tree with the journal. The end of the first scan is told,
    /// because `isPending` knows more from then on.
    private func look() -> Bool {
        let hasLooked = index.firstLookEnd != nil
        defer { if !hasLooked, index.firstLookEnd != nil { journalChanged.current?() } }
        return scanner.step()
    }

    /// Does the remaining work while there is time. This includes the first scan, because a program
    /// may save and end the mount before that is over.
    private func part() {
        closing.beginLastWork()
        guard events.waiting.count <= Recorder.closingEventsMax else { return }
        while !closing.isOverdue, !signal.look({ isAbandoned }) {
            processor.processEvents(now: true)
            if pauses.isPaused { return }
            if scanner.step() || settleMissing() || state.scan != nil || !processor.backlog.isEmpty
            {
                continue
            }
            let before = state.pending.all.mapValues(\.revision)
            queue.recordAll()
            while queue.recordPending() {}
            // A document that changed while it was read has not been recorded.
            let hasChanged = state.pending.all.contains { $0.value.revision != before[$0.key] }
            if !hasChanged, state.scan == nil { return }
        }
    }

    /// Whether a caller may wait for a task. Guarded by `signal`.
    var isServing: Bool { isStarted && !isStopping && !isAbandoned && !hasStopped }

    /// Guarded by `signal`.
    func takeTasks(_ count: Int) -> [(Recorder) -> Void] {
        defer { tasks.removeFirst(count) }
        return Array(tasks[..<count])
    }

    /// Whether all events so far are processed, as far as that is possible now.
    private var areEventsProcessed: Bool {
        if pauses.isPaused { return true }
        guard processor.backlog.isEmpty else { return false }
        return state.scan == nil ? state.unresolved.isEmpty : events.waiting.count == 0
    }

    /// Sleeps until an event, a request or the time of the next work.
    private func sleep() {
        let now = cl_clock_monotonic_ns()
        let nextWork = state.pending.all.values.lazy.map(\.due).min() ?? .max
        var deadline = min(retention.thinning.due, max(nextWork, pauses.recordingEnd))
        let waiting = events.waiting
        if waiting.count > 0 {
            deadline = min(
                deadline, waiting.newest + Timestamp.span(seconds: debounce.settleSeconds))
        }
        if let measuringDue = retention.freeable.due { deadline = min(deadline, measuringDue) }
        if !processor.backlog.isEmpty || state.scan != nil { deadline = now }
        deadline = max(deadline, now + 2_000_000, pauses.end)
        if state.scan == nil, let due = room.due { deadline = min(deadline, due) }
        if !reserve.isWhole {
            deadline = min(
                deadline, max(pauses.end, now + Timestamp.span(seconds: settings.retrySeconds)))
        }
        _ = signal.wait(until: min(deadline, now + 3_600_000_000_000)) {
            hasNews || isStopping || isAbandoned || ticketsGiven > ticketsDone || !tasks.isEmpty
        }
        signal.look { hasNews = false }
    }

    /// Settles what the last scan did not find, after the events of the meantime: these may say
    /// where it is, and which names must be compared again before. Returns whether it did anything.
    func settleMissing() -> Bool {
        guard state.scan == nil, scanner.missing.hasWork,
            settings.has(.settlesBeforeEvents) || processor.processAll()
        else { return false }
        return state.scan != nil || scanner.missing.settle()
    }

    /// Thins old versions when there is nothing else to do. Returns false if it is not time yet.
    private func thin() -> Bool {
        guard state.scan == nil, processor.backlog.isEmpty, !pauses.isPaused else { return false }
        do {
            return try retention.thinning.thin(sweeps: takeSweep(), hourly: attributes.retry)
        } catch {
            reports.tell("thinning", "Old versions cannot be thinned: \(error)")
            return true
        }
    }

    private func publish() {
        let taken = events.taken
        let waiting = state.pending.waiting(
            seconds: settings.waitNoticeSeconds, atMost: 10)
        reports.change {
            $0.waiting = waiting
            $0.eventsTaken = taken
            $0.pending =
                state.pending.all.count + (writer.pendingCursor == nil ? 0 : 1)
                + processor.backlog.count
            $0.isScanning = state.scan != nil
            $0.scannedItems = state.scan?.items ?? 0
        }
    }
}

extension Recorder {
    var state: RecorderState {
        _read { yield writer.state }
        _modify { yield &writer.state }
    }
}
