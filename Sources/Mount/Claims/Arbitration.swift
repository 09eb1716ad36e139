import CLinux
import Coordination
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

/// Claims and implicit leases for plain programs, which do not coordinate themselves: what waits
/// for what, and how long (Design.md).
final class Arbitration: Sendable {
    let arbiter: Arbiter
    /// The arbiter's session for all system calls together.
    let clientSession: ClientSession
    let timers = TimerQueue()
    let settings: CoordinationSettings
    let mountPoint: String
    let reportedChanges = ReportedChanges()
    private let waiting = Mutex(Waiting())

    private struct Waiting {
        /// The opens that wait, by the number of their node.
        var opens: [UInt64: [ObjectIdentifier: WaitingOpen]] = [:]
        /// What is kept for opens that were answered with ESTALE, which the kernel will repeat at
        /// once.
        var kept: [RepeatedOpen: Kept] = [:]
        /// Whether a timer will check implicit leases, because opens wait for them.
        var isObserving = false
        /// The volume is being unmounted, so no open may begin to wait.
        var isEnding = false
    }

    /// Identifies a repeated open(2) of a name.
    struct RepeatedOpen: Hashable {
        var process: Int32
        var names: [Name]?
        var isWriting: Bool
    }

    /// What the repetition of an open gets from the open that was answered with ESTALE.
    struct Kept: Equatable {
        /// Nil if that open waited only for programs that had the file open.
        var claim: ClaimID?
        /// When the open was answered, in monotonic nanoseconds. It tells two such opens apart.
        var time: Int64
    }

    init(arbiter: Arbiter, settings: CoordinationSettings, mountPoint: String) {
        self.arbiter = arbiter
        self.settings = settings
        self.mountPoint = mountPoint
        clientSession = arbiter.join(process: 0)
    }

    /// Whether there are no claims and no presenters.
    var isQuiet: Bool { arbiter.isQuiet || !settings.isOn }

    /// Makes a request for claims. Claims and presenters of the program's process ancestry are not
    /// in its way.
    func request(_ targets: [ClaimRequest.Target], _ line: [Int32], goesAhead: Bool) -> ClaimRequest
    {
        let (purposes, presenters) = arbiter.belongings(of: line)
        var request = ClaimRequest(
            targets, manner: .plain(goesAhead: goesAhead), purposes: purposes,
            presenters: presenters, clientSession: clientSession)
        request.process = line.first ?? 0
        return request
    }

    /// Limits how long a claim waits for readers that may not write the document: as long as for
    /// any reader.
    func stopWaitingForYielding(_ claim: ClaimID) {
        guard arbiter.isWaiting(claim) else { return }
        timers.after(seconds: settings.readerTime) { [arbiter] in
            arbiter.step(.yieldExpired(claim))
        }
    }

    // MARK: Waiting opens

    /// Adds an open to those that wait. Returns false if the volume is being unmounted.
    func add(_ open: WaitingOpen) -> Bool {
        waiting.withLock { waiting in
            if waiting.isEnding { return false }
            waiting.opens[open.node.id, default: [:]][ObjectIdentifier(open)] = open
            return true
        }
    }

    func remove(_ open: WaitingOpen) {
        waiting.withLock { waiting in
            let id = open.node.id
            waiting.opens[id]?[ObjectIdentifier(open)] = nil
            if waiting.opens[id]?.isEmpty == true { waiting.opens[id] = nil }
        }
    }

    /// Whether programs wait to open the file.
    func isAwaited(_ node: Node) -> Bool { waiting.withLock { $0.opens[node.id] != nil } }

    /// One open for each file whose implicit leases are waited for.
    var waitedFor: [WaitingOpen] {
        waiting.withLock { $0.opens.values.compactMap(\.values.first) }.filter(\.isLeaseWaitedFor)
    }

    /// The opens that wait for editors on other devices.
    var awaitingEditors: [WaitingOpen] {
        waiting.withLock { $0.opens.values.flatMap(\.values) }.filter {
            !$0.awaitedEditors.isEmpty
        }
    }

    /// Ends all waiting opens, and admits no more.
    func endWaiting() {
        let opens = waiting.withLock { waiting in
            waiting.isEnding = true
            return waiting.opens.values.flatMap(\.values)
        }
        for open in opens { open.end(with: Errno(ECONNABORTED)) }
    }

    // MARK: Repeated opens

    /// Keeps a claim, or nil if there was none, for a repeated open. That comes at once unless the
    /// machine is very busy, so this is kept no longer than the lease of an idle reader.
    func keep(_ claim: ClaimID?, for repeated: RepeatedOpen) {
        let new = Kept(claim: claim, time: cl_clock_monotonic_ns())
        let former = waiting.withLock { $0.kept.updateValue(new, forKey: repeated) }
        if let claim = former?.claim { arbiter.step(.released(claim)) }
        timers.after(seconds: settings.readerTime) { [self] in
            let isThere = waiting.withLock { waiting in
                guard waiting.kept[repeated] == new else { return false }
                waiting.kept[repeated] = nil
                return true
            }
            if isThere, let claim { arbiter.step(.released(claim)) }
        }
    }

    func takeKept(for repeated: RepeatedOpen) -> Kept? {
        waiting.withLock { $0.kept.removeValue(forKey: repeated) }
    }

    // MARK: Implicit leases

    /// Checks implicit leases again and again while opens wait for them. Called after an open has
    /// begun to wait for one.
    func observeLeases(after seconds: Double = 0) {
        let isFirst = waiting.withLock { waiting in
            defer { waiting.isObserving = true }
            return !waiting.isObserving
        }
        if isFirst { timers.after(seconds: seconds) { self.look() } }
    }

    private func look() {
        for open in waitedFor { look(at: open) }
        // Before it is asked whether opens still wait, so that none which begins now is overlooked.
        waiting.withLock { $0.isObserving = false }
        if !waitedFor.isEmpty { observeLeases(after: 0.05) }
    }

    /// Checks the implicit leases of the file that this open waits for.
    private func look(at open: WaitingOpen) {
        let (file, names) = (open.opening.file, open.path)
        // No lock is held while /proc is read, so opens of the file need not wait.
        let inTheWay = open.state.leases.withLock { $0.inTheWay }
        var trails: [UInt64: [UInt64]] = [:]
        for holder in inTheWay {
            trails[holder.lease] = Activity.trail(
                of: holder.process, file, mountPoint + "/" + names.shown)
        }
        let isFree = Activity.coordinatesItself(file, names.last?.bytes ?? [])
        open.state.changeLeases {
            $0.look(now: $1, settings.limits, isFree: isFree, trails: trails)
        }
    }
}

/// The mount options for claims and implicit leases.
package struct CoordinationSettings: Sendable {
    /// False disables all waiting, whatever is claimed.
    package var isOn = true
    /// Seconds that an open waits. Then it fails with EBUSY if a claim is in its way, and goes
    /// ahead if other programs have the file open.
    package var timeout = 30.0
    /// Seconds that a request which changes names waits before it goes ahead.
    package var namesTimeout = 0.25
    /// Seconds after which the lease of an idle handle lapses.
    package var breakTime = 1.0
    /// Seconds after which the lease of a reader or a writer lapses.
    package var readerTime = 5.0
    package var writerTime = 10.0
    /// Seconds that an open for writing waits until another device has let go of the document, if
    /// its rules say `lock=ask`.
    package var editorTimeout = 15.0

    package init() {}

    var limits: LeaseLimits {
        LeaseLimits(
            idle: Timestamp.span(seconds: breakTime), reader: Timestamp.span(seconds: readerTime),
            writer: Timestamp.span(seconds: writerTime))
    }
}
