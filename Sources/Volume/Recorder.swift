import CLinux
import ChunkStore
import Journal
import Logging
import Model
import Synchronization
import SystemCalls

/// Turns what programs did into documents and versions, behind their backs: one thread, the only
/// writer of the journal.
///
/// It waits until the volume is quiet for a moment, understands all events in the order in which
/// they happened (`Recorder+Events`), commits that, and then cuts the documents that were saved
/// (`Recorder+Recording`). Between times it compares the tree with the journal (`Recorder+Scan`)
/// and thins old versions (`Recorder+Thinning`).
final class Recorder: @unchecked Sendable {
    // Everything below is used by the recorder's thread alone, but for `signal` and what it guards.
    let tree: Int32
    let stash: Stash
    let journal: Journal
    let packs: PackStore
    let hydration: Hydration
    let moved = MovedPlaceholders()
    let events: EventQueue
    let settings: Settings
    /// As whom it records: a hub may know this device by another name.
    var device: Device
    let log: Logger
    let ignoreFile: IgnoreFile
    let incoming: Incoming
    /// What the stash held when the volume was opened.
    var leftovers: [Stash.Entry]
    /// Packages that an applier had put aside when it was killed.
    let displaced: [Name]
    let kept: KeptContents
    let unrecorded: UnrecordedContents
    let powerLoss: PowerLoss?
    let reserve: Reserve
    let room: Room
    var letGo = LetGo()
    /// Documents whose former contents do not fit into the packs now, with their bytes.
    var awaitingRoom: [Int64: Int64] = [:]
    /// The packs may have chunks that the journal does not know: of what was not committed.
    var packsHoldWaste = true
    var nextRoomReport: Int64 = 0
    /// Monotonic nanoseconds: when the journal's log may be brought into it again.
    var nextLogStart: Int64 = 0
    let freeable = Freeable()
    var nextMeasuring: Int64 = 0
    /// Called with a document whose contents a loss of power destroyed.
    let destroyed = Hook<@Sendable (Int64) -> Void>()

    var memory = Memory()
    /// Events that are not understood yet, in their order.
    var backlog: [NotedEvent] = []
    /// When the event happened that is being understood (nanoseconds since 1970).
    var eventTime: Int64 = 0
    /// What is understood happened before the daemon that noted it was killed.
    var isReplaying = false
    /// What is understood happened before the tree had been looked at for the first time.
    var isBeforeFirstLook = true
    /// The last event that had been noted when the first look at the tree ended.
    var firstLookEnd: UInt64?
    var packageCuts: [Int64: [[UInt8]: PackageFile]] = [:]
    var people: [UInt32: String] = [:]
    var isPerforming = false
    var nextThinning: Int64 = 0
    /// Nil before the first thinning of a volume.
    var retentionClock: RetentionClock?
    /// What the hub's clock showed, and for how long the machine was running then.
    let hubTime = Mutex<(time: Timestamp, uptime: Int64)?>(nil)
    var hasRemovedEmptyRows = false
    /// The journal as it was when the batch that is being recorded began.
    var snapshot: Reader?
    /// What was cut last in that batch.
    var lastCut: (trace: Trace, chunks: [ChunkReference])?
    /// What is in files of the stash that had to be searched.
    var stashedChunks: [String: Set<Digest>] = [:]
    /// The last key up to which items without a recorded trace were looked for.
    var pendingCursor: Int64? = 0
    /// Monotonic nanoseconds: the disk was full, or the like.
    var pausedUntil: Int64 = 0
    /// The same of recording alone: what happens in the tree is understood meanwhile, or nothing
    /// that was replaced since could give way.
    var recordingPausedUntil: Int64 = 0
    /// How often a failure may be tried again at once before a transaction succeeds.
    var retriesLeft = Recorder.retriesMax
    static let retriesMax = 3

    let pace: Pace
    let signal = Signal()
    let versionsHeard = Hook<@Sendable (VersionChange, [Identifier], [Name]) -> Void>()
    let large: LargeContents
    /// Nothing is put off any more.
    private(set) var isParting = false

    // Guarded by `signal`.
    private var isStopping = false
    private var isEnding = false
    /// Until when work may go on, by the monotonic clock.
    private let endTime = Atomic<Int64>(.max)
    private static let partingEventsMax = 1_000
    private var isAbandoned = false
    private var isStarted = false
    private var hasStopped = false
    private var hasNews = false
    private var isSweepDue = false
    private var ticketsGiven: UInt64 = 0
    private var ticketsDone: UInt64 = 0
    private var focus: [Focus] = []
    /// Documents that need not be waited for any more.
    private var ready: [Int64] = []
    var tasks: [(Recorder) -> Void] = []
    var report = Report()

    /// What others may know of the recorder's state.
    struct Report: Sendable {
        /// Versions that were lost while nobody watched: told as problems are, but nothing is wrong
        /// with the store.
        var losses: [String: String] = [:]
        var works = 0
        var isScanning = false
        var scannedItems = 0
        /// By subject, so that each is told once.
        var problems: [String: String] = [:]
        /// What was let go for want of space: that is how it is meant to be, and no problem.
        var letGo: String?
    }

    /// A document that somebody waits for.
    enum Focus: Sendable {
        case path([Name])
        case item(Int64)
        /// All that were deleted from a directory.
        case deleted(from: [Name])
    }

    struct Device: Sendable {
        var id: Identifier
        var name: String
    }

    init(
        tree: Int32, stash: Stash, journal: Journal, packs: PackStore, hydration: Hydration,
        events: EventQueue, settings: Settings, device: Device, kept: KeptContents,
        unrecorded: UnrecordedContents, powerLoss: PowerLoss?, log: Logger,
        ignoreFile: IgnoreFile, leftovers: [Stash.Entry], incoming: Incoming,
        displaced: [Name], reserve: Reserve, room: Room
    ) {
        self.reserve = reserve
        self.room = room
        self.tree = tree
        self.stash = stash
        self.journal = journal
        self.packs = packs
        self.hydration = hydration
        self.events = events
        self.settings = settings
        pace = Pace(settings)
        large = LargeContents(restFactor: settings.largeRest)
        self.device = device
        self.kept = kept
        self.unrecorded = unrecorded
        self.powerLoss = powerLoss
        self.log = log
        self.ignoreFile = ignoreFile
        self.leftovers = leftovers
        self.incoming = incoming
        self.displaced = displaced
    }

    /// `logged`: what the last daemon had noted and perhaps not understood.
    func start(_ logged: [NotedEvent]) {
        signal.change { isStarted = true }
        startThread(named: "recorder") { self.run(logged) }
    }

    /// The volume is going to end: who asks does not wait any more, and what takes longer than the
    /// time for parting is not finished. It is in safety, and is recorded at the next start.
    func prepareToStop() {
        let end = cl_clock_monotonic_ns() + nanoseconds(settings.partingSeconds)
        _ = endTime.compareExchange(expected: .max, desired: end, ordering: .relaxed)
        signal.change { isEnding = true }
    }

    /// Whether the time for parting is over.
    var isOverdue: Bool {
        let end = endTime.load(ordering: .relaxed)
        return end != .max && cl_clock_monotonic_ns() > end
    }

    /// Asked in what takes long.
    ///
    /// - Throws: `.busy` when the time for parting is over. What was begun is given up then.
    func checkTime() throws(VolumeError) {
        if isOverdue { throw VolumeError(.busy, "The volume is being unmounted.") }
    }

    /// Records what can be recorded in the time for parting, and ends the thread.
    func stop() {
        prepareToStop()
        signal.change { isStopping = true }
        _ = signal.wait(until: .max / 2) { hasStopped || !isStarted }
    }

    /// Ends the thread as a crash would, with nothing recorded that is not yet.
    func abandon() {
        signal.change { isAbandoned = true }
        _ = signal.wait(until: .max / 2) { hasStopped || !isStarted }
    }

    /// Bytes of forgotten versions go when there is nothing else to do.
    func sweepSoon() { signal.change { (isSweepDue, hasNews) = (true, true) } }

    /// What this document waited for has come: it can be recorded now.
    func isReady(_ key: Int64) {
        signal.change {
            ready.append(key)
            hasNews = true
        }
    }

    func takeReady() -> [Int64] {
        signal.change {
            defer { ready = [] }
            return ready
        }
    }

    /// Whether somebody asked for a sweep since the last time.
    func takeSweep() -> Bool {
        signal.change {
            defer { isSweepDue = false }
            return isSweepDue
        }
    }

    /// Called by the threads that append events, when the queue was empty.
    func wake() { signal.change { hasNews = true } }

    /// Waits until all that happened before the call is understood, and the document in question,
    /// if one is named, is recorded unless a program still has it open for writing. False when the
    /// time is over, or the volume is about to end.
    func catchUp(with focus: Focus?, timeoutSeconds: Double) -> Bool {
        let ticket = signal.change { () -> UInt64 in
            ticketsGiven += 1
            if let focus { self.focus.append(focus) }
            return ticketsGiven
        }
        let deadline = cl_clock_monotonic_ns() + Timestamp.span(seconds: timeoutSeconds)
        return signal.wait(until: deadline) { ticketsDone >= ticket || hasStopped || isEnding }
            && signal.look { ticketsDone >= ticket || hasStopped }
    }

    /// Whether the volume is about to end, so that questions do not wait for the recorder.
    var hasGivenUp: Bool { signal.look { isEnding } }

    private func run(_ logged: [NotedEvent]) {
        cl_thread_background()
        isReplaying = !logged.isEmpty
        restoreRetentionClock()
        restore(logged)
        while !backlog.isEmpty, memory.scan == nil, !isPaused, !isOverdue { applyBacklog() }
        guard !isOverdue else { return signal.change { hasStopped = true } }
        // Handles died with the daemon that knew them; who still writes all the same is found out
        // by a lease.
        for key in memory.works.all.keys { memory.works[key]?.isWriting = false }
        recoverStash(leftovers)
        leftovers = []
        recoverIncoming()
        startScan()
        while !signal.look({ isAbandoned }) {
            let asked = signal.look {
                (
                    stop: isStopping, tickets: ticketsGiven, focus: focus, tasks: tasks.count
                )
            }
            let isAsked = asked.tickets > ticketsDone || asked.tasks > 0
            if asked.stop, events.waiting.count > Recorder.partingEventsMax { break }
            understand(now: asked.stop || isAsked)
            if asked.stop { break }
            if makeRoom() { publish() }
            if isAsked, isUnderstood {
                // Not those that came since: what happened before them may not be understood.
                runTasks(asked.tasks)
                record(asked.focus)
                publish()
                signal.change {
                    ticketsDone = asked.tickets
                    focus.removeFirst(asked.focus.count)
                }
                continue
            }
            if scanStep() || settleMissing() || recordDue() || recordPending() || thin() {
                publish()
                continue
            }
            publish()
            stashedChunks = [:]
            reserve.restore()
            measureFreeable()
            sleep()
        }
        part()
        publish()
        signal.change { hasStopped = true }
    }

    /// Does what is left, as long as there is time: also the first look at the tree and what
    /// follows from it, for programs may save and end the mount before it is over.
    private func part() {
        isParting = true
        guard events.waiting.count <= Recorder.partingEventsMax else { return }
        while !isOverdue, !signal.look({ isAbandoned }) {
            understand(now: true)
            if isPaused { return }
            if scanStep() || settleMissing() || memory.scan != nil || !backlog.isEmpty { continue }
            let before = memory.works.all.mapValues(\.revision)
            recordAll()
            while recordPending() {}
            // What changed while it was read has not been recorded.
            let hasChanged = memory.works.all.contains { $0.value.revision != before[$0.key] }
            if !hasChanged, memory.scan == nil { return }
        }
    }

    /// Guarded by `signal`: whether somebody may wait for a task.
    var isServing: Bool { isStarted && !isStopping && !isAbandoned && !hasStopped }

    /// Guarded by `signal`.
    func takeTasks(_ count: Int) -> [(Recorder) -> Void] {
        defer { tasks.removeFirst(count) }
        return Array(tasks[..<count])
    }

    /// Whether all that happened up to now is understood, as far as it can be for now.
    private var isUnderstood: Bool {
        if isPaused { return true }
        guard backlog.isEmpty else { return false }
        return memory.scan == nil ? memory.unresolved.isEmpty : events.waiting.count == 0
    }

    var isPaused: Bool { cl_clock_monotonic_ns() < pausedUntil }

    var isRecordingPaused: Bool {
        cl_clock_monotonic_ns() < max(pausedUntil, recordingPausedUntil)
    }

    /// What failed is tried again after that time; at once when the journal has found space.
    func pause(_ work: ReferenceWritableKeyPath<Recorder, Int64> = \.pausedUntil, seconds: Double) {
        if journal.takeRetry(), retriesLeft > 0 {
            retriesLeft -= 1
            return
        }
        self[keyPath: work] = cl_clock_monotonic_ns() + nanoseconds(seconds)
    }

    /// There is space again.
    func endPauses() { (pausedUntil, recordingPausedUntil) = (0, 0) }

    /// Until an event, a question or the time of the next work.
    private func sleep() {
        let now = cl_clock_monotonic_ns()
        let nextWork = memory.works.all.values.lazy.map(\.due).min() ?? .max
        var deadline = min(nextThinning, max(nextWork, recordingPausedUntil))
        let waiting = events.waiting
        if waiting.count > 0 {
            deadline = min(deadline, waiting.newest + nanoseconds(pace.settleSeconds))
        }
        if let measuringDue { deadline = min(deadline, measuringDue) }
        if !backlog.isEmpty || memory.scan != nil { deadline = now }
        deadline = max(deadline, now + 2_000_000, pausedUntil)
        if memory.scan == nil, let due = room.due { deadline = min(deadline, due) }
        if !reserve.isWhole {
            deadline = min(deadline, max(pausedUntil, now + nanoseconds(settings.retrySeconds)))
        }
        _ = signal.wait(until: min(deadline, now + 3_600_000_000_000)) {
            hasNews || isStopping || isAbandoned || ticketsGiven > ticketsDone || !tasks.isEmpty
        }
        signal.look { hasNews = false }
    }

    /// Takes the events once the volume has been quiet for a moment, or has not been for long.
    /// While the tree is compared with the journal they wait: directories may not be known yet.
    func understand(now isUrgent: Bool) {
        guard memory.scan == nil, !isPaused else { return }
        let waiting = events.waiting
        let now = cl_clock_monotonic_ns()
        if waiting.count > 0,
            isUrgent || waiting.count > 50_000
                || now - waiting.newest >= nanoseconds(pace.settleSeconds)
                || now - waiting.oldest >= nanoseconds(pace.patienceSeconds)
        {
            backlog += events.takeAll()
        }
        applyBacklog()
    }

    private func publish() {
        let report = (
            memory.works.all.count + (pendingCursor == nil ? 0 : 1) + backlog.count,
            memory.scan != nil,
            memory.scan?.items ?? 0
        )
        signal.change {
            self.report.works = report.0
            self.report.isScanning = report.1
            self.report.scannedItems = report.2
        }
    }

    /// Says something that a person should know, once.
    func tell(_ subject: String, _ message: String) {
        let isNew = signal.change {
            report.problems.updateValue(message, forKey: subject) != message
        }
        if isNew { log.error("\(message)") }
    }

    func untell(_ subject: String) {
        signal.change { _ = report.problems.removeValue(forKey: subject) }
    }

    func nanoseconds(_ seconds: Double) -> Int64 { Timestamp.span(seconds: seconds) }
}

/// Inodes whose contents, in that state, are wholly in the chunk store: they may be written without
/// a copy.
final class KeptContents: Sendable {
    private let traces = Mutex<[UInt64: Trace]>([:])

    func contains(_ trace: Trace) -> Bool {
        traces.withLock { traces in
            guard let known = traces[trace.inode] else { return false }
            return !trace.differs(from: known)
        }
    }

    func set(_ trace: Trace) {
        traces.withLock { traces in
            if traces.count >= KeptContents.countMax { traces.removeAll() }
            traces[trace.inode] = trace
        }
    }

    private static let countMax = 10_000
}
