import CLinux
import Coordination
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

/// How programs that know of no turns get theirs: what waits for whom, how long (Design.md).
final class Turns: Sendable {
    let arbiter: Arbiter
    /// Of all system calls together.
    let party: Party
    let deadlines = Deadlines()
    let settings: TurnSettings
    let mountPoint: String
    let marks = Marks()
    /// Files that somebody waits to open.
    private let waitedFor = Mutex<[ObjectIdentifier: Waited]>([:])
    /// Ends the opens that wait, when the volume is unmounted.
    private let waiting = Mutex<(opens: [UInt64: @Sendable () -> Void], isEnding: Bool)>(
        ([:], false))
    private let number = Atomic<UInt64>(0)
    /// Claims of opens that will come again at once.
    private let kept = Mutex<[Visit: ClaimID]>([:])

    /// A system call that opens a name.
    struct Visit: Hashable {
        var process: Int32
        var names: [Name]?
        var isWriting: Bool
    }

    struct Waited: Sendable {
        let state: OpenState
        let file: SharedDescriptor
        let names: [Name]
    }

    var waited: [Waited] { waitedFor.withLock { Array($0.values) } }

    init(arbiter: Arbiter, settings: TurnSettings, mountPoint: String) {
        self.arbiter = arbiter
        self.settings = settings
        self.mountPoint = mountPoint
        party = arbiter.join(process: 0)
    }

    /// Nobody has claims or presents anything.
    var isQuiet: Bool { arbiter.isQuiet || !settings.isOn }

    /// What a program's line of processes has claimed and presents is not in its way.
    func request(_ targets: [TurnRequest.Target], _ line: [Int32], goesAhead: Bool) -> TurnRequest {
        let (purposes, presenters) = arbiter.belongings(of: line)
        var request = TurnRequest(
            targets, manner: .plain(goesAhead: goesAhead), purposes: purposes,
            presenters: presenters, party: party)
        request.process = line.first ?? 0
        return request
    }

    /// Whoever waits for those who could not write waits as long as for any reader.
    func outwait(_ claim: ClaimID) {
        guard arbiter.isWaiting(claim) else { return }
        deadlines.after(seconds: settings.readerTime) { [arbiter] in
            arbiter.step(.outwaited(claim))
        }
    }

    // MARK: Opens that wait

    /// Has `end` called when the volume is unmounted, until `forget`. Nil: it is being unmounted.
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

    // MARK: Opens that come again

    /// Keeps a claim for who comes again, which is at once unless the machine is very busy: no
    /// longer than for a reader that does nothing.
    func keep(_ claim: ClaimID, for visit: Visit) {
        let former = kept.withLock { $0.updateValue(claim, forKey: visit) }
        if let former { arbiter.step(.released(former)) }
        deadlines.after(seconds: settings.readerTime) { [self] in
            let isThere = kept.withLock { kept in
                guard kept[visit] == claim else { return false }
                kept[visit] = nil
                return true
            }
            if isThere { arbiter.step(.released(claim)) }
        }
    }

    func takeKept(for visit: Visit) -> ClaimID? {
        kept.withLock { $0.removeValue(forKey: visit) }
    }

    // MARK: Seats

    /// Looks at a file's seats again and again while somebody waits for one.
    func watch(_ state: OpenState, file: SharedDescriptor, names: [Name]) {
        let isFirst = waitedFor.withLock { waited in
            let isFirst = waited.isEmpty
            waited[ObjectIdentifier(state)] = Waited(state: state, file: file, names: names)
            return isFirst
        }
        if isFirst { deadlines.after(seconds: 0) { self.look() } }
    }

    private func look() {
        for waited in waited {
            let path =
                mountPoint + "/" + waited.names.shown
            // Nobody who opens the file has to wait while /proc is read.
            let inTheWay = waited.state.seats.withLock { $0.inTheWay }
            var trails: [UInt64: [UInt64]] = [:]
            for holder in inTheWay {
                trails[holder.seat] = Activity.trail(of: holder.process, waited.file, path)
            }
            let isFree = Activity.coordinatesItself(
                waited.file, waited.names.last?.bytes ?? [])
            let ready = waited.state.seats.withLock {
                $0.look(
                    now: cl_clock_monotonic_ns(), settings.limits, isFree: isFree, trails: trails)
            }
            for go in ready { go() }
            waitedFor.withLock { all in
                // Under this lock, or one who comes now would not be looked after.
                guard !waited.state.seats.withLock({ $0.isWaitedFor }) else { return }
                all[ObjectIdentifier(waited.state)] = nil
            }
        }
        guard !waitedFor.withLock({ $0.isEmpty }) else { return }
        deadlines.after(seconds: 0.05) { self.look() }
    }
}

/// What the mount options say of turns.
package struct TurnSettings: Sendable {
    /// False: nobody waits for anybody, whatever is claimed.
    package var isOn = true
    /// Seconds that an open waits: then it fails with EBUSY where a claim is in its way, and goes
    /// ahead where other programs have the file open.
    package var timeout = 30.0
    /// Seconds that what changes names waits before it goes ahead.
    package var namesTimeout = 0.25
    /// Seconds after which a handle that does nothing is waited for no longer.
    package var breakTime = 1.0
    /// Seconds after which a reader, a writer is waited for no longer.
    package var readerTime = 5.0
    package var writerTime = 10.0

    package init() {}

    var limits: TurnLimits {
        TurnLimits(
            idle: Timestamp.span(seconds: breakTime), reader: Timestamp.span(seconds: readerTime),
            writer: Timestamp.span(seconds: writerTime))
    }
}
