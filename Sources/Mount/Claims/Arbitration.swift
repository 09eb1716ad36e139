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
    /// Files that programs wait to open.
    private let waitedFor = Mutex<[ObjectIdentifier: Waited]>([:])
    /// Closures that end waiting opens when the volume is unmounted.
    private let waiting = Mutex<(opens: [UInt64: @Sendable () -> Void], isEnding: Bool)>(
        ([:], false))
    private let number = Atomic<UInt64>(0)
    /// Opens that were answered with ESTALE, which the kernel will repeat at once.
    private let kept = Mutex<[RepeatedOpen: Kept]>([:])

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

    struct Waited: Sendable {
        let state: OpenState
        let file: SharedDescriptor
        let names: [Name]
    }

    var waited: [Waited] { waitedFor.withLock { Array($0.values) } }

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

    /// Calls `end` when the volume is unmounted, until `forget`. Returns nil if it is being
    /// unmounted.
    func remember(_ end: @escaping @Sendable () -> Void) -> UInt64? {
        let id = number.wrappingAdd(1, ordering: .relaxed).newValue
        return waiting.withLock { waiting in
            if waiting.isEnding { return nil }
            waiting.opens[id] = end
            return id
        }
    }

    func forget(_ id: UInt64) { _ = waiting.withLock { $0.opens.removeValue(forKey: id) } }

    func endWaiting() {
        let ends = waiting.withLock { waiting in
            waiting.isEnding = true
            defer { waiting.opens = [:] }
            return waiting.opens
        }
        for end in ends.values { end() }
    }

    // MARK: Repeated opens

    /// Keeps a claim, or nil if there was none, for a repeated open. That comes at once unless the
    /// machine is very busy, so this is kept no longer than the lease of an idle reader.
    func keep(_ claim: ClaimID?, for visit: RepeatedOpen) {
        let new = Kept(claim: claim, time: cl_clock_monotonic_ns())
        let former = kept.withLock { $0.updateValue(new, forKey: visit) }
        if let claim = former?.claim { arbiter.step(.released(claim)) }
        timers.after(seconds: settings.readerTime) { [self] in
            let isThere = kept.withLock { kept in
                guard kept[visit] == new else { return false }
                kept[visit] = nil
                return true
            }
            if isThere, let claim { arbiter.step(.released(claim)) }
        }
    }

    func takeKept(for visit: RepeatedOpen) -> Kept? {
        kept.withLock { $0.removeValue(forKey: visit) }
    }

    // MARK: Implicit leases

    /// Checks a file's implicit leases again and again while a program waits for one.
    func watch(_ state: OpenState, file: SharedDescriptor, names: [Name]) {
        let isFirst = waitedFor.withLock { waited in
            let isFirst = waited.isEmpty
            waited[ObjectIdentifier(state)] = Waited(state: state, file: file, names: names)
            return isFirst
        }
        if isFirst { timers.after(seconds: 0) { self.look() } }
    }

    private func look() {
        for waited in waited {
            let path =
                mountPoint + "/" + waited.names.shown
            // No lock is held while /proc is read, so opens of the file need not wait.
            let inTheWay = waited.state.leases.withLock { $0.inTheWay }
            var trails: [UInt64: [UInt64]] = [:]
            for holder in inTheWay {
                trails[holder.lease] = Activity.trail(of: holder.process, waited.file, path)
            }
            let isFree = Activity.coordinatesItself(
                waited.file, waited.names.last?.bytes ?? [])
            let ready = waited.state.leases.withLock {
                $0.look(
                    now: cl_clock_monotonic_ns(), settings.limits, isFree: isFree, trails: trails)
            }
            for go in ready { go() }
            waitedFor.withLock { all in
                // Checked under this lock, or a new waiter would not be noticed.
                guard !waited.state.leases.withLock({ $0.isWaitedFor }) else { return }
                all[ObjectIdentifier(waited.state)] = nil
            }
        }
        guard !waitedFor.withLock({ $0.isEmpty }) else { return }
        timers.after(seconds: 0.05) { self.look() }
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

    package init() {}

    var limits: LeaseLimits {
        LeaseLimits(
            idle: Timestamp.span(seconds: breakTime), reader: Timestamp.span(seconds: readerTime),
            writer: Timestamp.span(seconds: writerTime))
    }
}
