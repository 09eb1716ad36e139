import CFuse
import Glibc
import Synchronization
import SystemCalls
import Volume

/// Requests that may take long. Each waits here for one of a few threads, which also answers it. A
/// worker thread must never wait, or it could not serve the request that would end the wait.
final class Parking: Sendable {
    /// What a parked request may wait for. Each kind has threads of its own, so that many requests
    /// of one kind cannot delay those of another.
    enum Lane: Int, CaseIterable {
        /// Nothing: work that only has to run on another thread, soon.
        case ready
        /// Another request for the same file, or a few accesses to the disk: opens, truncations and
        /// closes. Nothing that takes longer runs here.
        case opens
        /// The journal, the recorder or old contents: questions about versions.
        case questions
        /// The disk, for as long as it takes: fsync and copies of any length.
        case disk
        /// Space on the disk: requests that were refused it, until old contents have given way.
        case room

        /// The lane for work that needs this patience.
        init(_ patience: Patience) {
            self =
                switch patience {
                case .none, .brief: .opens
                case .copy: .disk
                case .room, .loss: .room
                }
        }

        fileprivate var pool: ThreadPool {
            switch self {
            case .ready: ThreadPool("ready", limit: 1)
            case .opens: ThreadPool("opens", limit: 4)
            case .questions: ThreadPool("questions", limit: 4)
            case .disk: ThreadPool("disk", limit: 16)
            case .room: ThreadPool("room", limit: 16)
            }
        }
    }

    /// A parked request. An interrupt (EINTR) and the finished work may both want to answer it; the
    /// one whose `claim` succeeds does.
    fileprivate final class Ticket: Sendable {
        private enum State: UInt8, AtomicRepresentable {
            /// libfuse may call back while it holds the request's lock, when it cannot be answered.
            case registering
            case interruptedEarly
            case waiting
            case answered
        }

        private let state = Atomic(State.registering)
        /// Called when the request was interrupted.
        let interrupted: (@Sendable () -> Void)?

        init(interrupted: (@Sendable () -> Void)? = nil) { self.interrupted = interrupted }

        var isAnswered: Bool { state.load(ordering: .acquiring) == .answered }

        func claim() -> Bool { move(from: .waiting, to: .answered) }

        /// Returns false if it was interrupted already; the caller must answer EINTR.
        func registered() -> Bool { move(from: .registering, to: .waiting) }

        /// Returns true if the caller must answer EINTR.
        func interrupt() -> Bool {
            move(from: .registering, to: .interruptedEarly) ? false : claim()
        }

        private func move(from: State, to: State) -> Bool {
            state.compareExchange(expected: from, desired: to, ordering: .acquiringAndReleasing)
                .exchanged
        }
    }

    private let pools = Lane.allCases.map(\.pool)
    fileprivate let tickets = Mutex(Slab<Ticket>())

    /// Runs `body` on a thread of the lane, and answers the request there with its result or its
    /// error. Work with the same `line` runs one after the other. `finally` runs in any case.
    /// `revert` undoes a result that is not needed because the request was interrupted. If it
    /// is interrupted before `body` begins, `body` does not run.
    func park<Result: Sendable>(
        _ request: Request, on lane: Lane, inLine line: SerialQueue? = nil,
        _ body: @escaping @Sendable () throws(Errno) -> Result,
        revert: @escaping @Sendable (Result) -> Void = { _ in },
        finally: @escaping @Sendable () -> Void = {},
        answer: @escaping @Sendable (Request, Result) -> Void
    ) {
        let ticket = Ticket()
        let number = number(ticket)
        listen(request, number)
        guard ticket.registered() else {
            _ = tickets.withLock { $0.remove(number) }
            finally()
            return request.refuse(.interrupted)
        }
        enqueue(lane, line) {
            defer {
                _ = self.tickets.withLock { $0.remove(number) }
                finally()
            }
            if ticket.isAnswered { return }
            do throws(Errno) {
                let result = try body()
                if ticket.claim() { answer(request, result) } else { revert(result) }
            } catch {
                if ticket.claim() { request.refuse(error) }
            }
        }
    }

    /// As `park`, but not interruptible: for calls that never fail with EINTR on a disk, and that
    /// use data which exists only until they are answered.
    func carryOut<Result: Sendable>(
        _ request: Request, on lane: Lane,
        _ body: @escaping @Sendable () throws(Errno) -> Result,
        answer: @escaping @Sendable (Request, Result) -> Void
    ) {
        start(lane) {
            request.answer { () throws(Errno) in answer(request, try body()) }
        }
    }

    /// Registers for interrupts. An interrupt finds its ticket by number, because it may come long
    /// after the request was answered.
    private func listen(_ request: Request, _ number: UInt64) {
        fuse_req_interrupt_func(
            request.raw,
            { raw, data in
                let request = Request(raw)
                request.driver.parking.interrupt(request, UInt64(UInt(bitPattern: data)))
            }, UnsafeMutableRawPointer(bitPattern: UInt(number)))
    }

    /// Runs `body` for which no request waits.
    func runDetached(
        on lane: Lane, inLine line: SerialQueue? = nil, _ body: @escaping @Sendable () -> Void
    ) {
        enqueue(lane, line, body)
    }

    private func enqueue(_ lane: Lane, _ line: SerialQueue?, _ work: @escaping @Sendable () -> Void)
    {
        guard let line else { return start(lane, work) }
        // Work of one line may belong to several lanes.
        let begin: @Sendable () -> Void = {
            self.start(lane) {
                work()
                line.leave()?()
            }
        }
        if line.join(begin) { begin() }
    }

    /// When the session has ended there are no threads any more, so the work runs at once.
    private func start(_ lane: Lane, _ work: @escaping @Sendable () -> Void) {
        if !pools[lane.rawValue].run(work) { work() }
    }

    private func number(_ ticket: Ticket) -> UInt64 {
        tickets.withLock { tickets in
            var number: UInt64 = 0
            _ = tickets.insert {
                number = $0
                return ticket
            }
            return number
        }
    }

    /// On a disk, no open and no read fails because its program was stopped (Ctrl-Z) and
    /// continued. The kernel does not say which signal interrupts a request, nor does it tell of
    /// later ones. So a request that only a stop interrupts is examined again a few times, and
    /// gets EINTR only when it takes long.
    private func interrupt(_ request: Request, _ number: UInt64) {
        let thread = fuse_req_ctx(request.raw)!.pointee.pid
        interrupt(request, number, of: thread, patience: 20, request.driver.arbitration.timers)
    }

    private func interrupt(
        _ request: Request, _ number: UInt64, of thread: Int32, patience: Int, _ timers: TimerQueue
    ) {
        if patience > 0, PendingSignals(of: thread)?.areOnlyStops == true {
            timers.after(seconds: 0.1) { [self] in
                // Nothing is left to interrupt if the request was answered in the meantime.
                guard tickets.withLock({ $0[number] }) != nil else { return }
                interrupt(request, number, of: thread, patience: patience - 1, timers)
            }
            return
        }
        endWait(request, number)
    }

    private func endWait(_ request: Request, _ number: UInt64) {
        guard let ticket = tickets.withLock({ $0[number] }), ticket.interrupt() else { return }
        request.refuse(.interrupted)
        guard let interrupted = ticket.interrupted else { return }
        // libfuse holds a lock of the request here, so the callback runs elsewhere.
        _ = tickets.withLock { $0.remove(number) }
        start(.ready, interrupted)
    }

    /// A request that waits for an event without holding a thread.
    struct Hold: Sendable {
        fileprivate let parking: Parking
        /// Holds the ticket's number, not the ticket: ticket → closure → hold would be a retain
        /// cycle.
        fileprivate let number: UInt64

        /// Returns true only once; the caller must then answer the request. Returns false if it was
        /// interrupted.
        func end() -> Bool {
            guard let ticket = parking.tickets.withLock({ $0[number] }), ticket.claim() else {
                return false
            }
            _ = parking.tickets.withLock { $0.remove(number) }
            return true
        }
    }

    /// Begins a wait. Returns nil if the request was interrupted and answered already.
    /// `interrupted` runs on a parking thread if it is interrupted before `Hold.end`.
    func hold(_ request: Request, interrupted: @escaping @Sendable () -> Void) -> Hold? {
        let ticket = Ticket(interrupted: interrupted)
        let number = number(ticket)
        listen(request, number)
        guard ticket.registered() else {
            _ = tickets.withLock { $0.remove(number) }
            request.refuse(.interrupted)
            return nil
        }
        return Hold(parking: self, number: number)
    }

    /// Runs `body` soon on a parking thread; not at all when the session has ended.
    func soon(_ body: @escaping @Sendable () -> Void) { pools[Lane.ready.rawValue].run(body) }

    /// Returns when all parked requests were answered.
    func stop() { for pool in pools.reversed() { pool.close() } }
}

/// A serial queue: its work runs one after the other, on whichever threads.
final class SerialQueue: Sendable {
    private struct State {
        var isBusy = false
        var waiting: [@Sendable () -> Void] = []
    }

    private let state = Mutex(State())

    /// Adds work. Returns true if the caller must begin it at once.
    func join(_ work: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            if state.isBusy {
                state.waiting.append(work)
                return false
            }
            state.isBusy = true
            return true
        }
    }

    /// Ends the running work and returns the next.
    func leave() -> (@Sendable () -> Void)? {
        state.withLock { state in
            if state.waiting.isEmpty {
                state.isBusy = false
                return nil
            }
            return state.waiting.removeFirst()
        }
    }
}
