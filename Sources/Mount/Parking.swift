import CFuse
import Glibc
import Synchronization
import SystemCalls

/// Requests that may take their time: each waits here for one of a few threads, and its answer
/// comes from there. A worker never waits, or the requests that would end its waiting could not be
/// served.
final class Parking: Sendable {
    /// What a parked request may wait for. Each kind has threads of its own, so that many requests
    /// of one kind cannot delay those of another.
    enum Lane: Int, CaseIterable {
        /// Nothing: work that only has to run on another thread, soon.
        case ready
        /// The recorder, for one file: opens, truncations and closes.
        case opens
        /// The journal, the recorder or old contents: questions about versions.
        case questions
        /// The disk, for as long as it takes: fsync and copies of any length.
        case disk
        /// Space on the disk: writes that were refused it, until old contents have given way.
        case room

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

    /// A parked request. Who claims it answers it; an interrupt (EINTR) and the work may both want
    /// to.
    fileprivate final class Ticket: Sendable {
        private enum State: UInt8, AtomicRepresentable {
            /// libfuse may call back while it holds the request's lock: not the moment to answer.
            case registering
            case interruptedEarly
            case waiting
            case answered
        }

        private let state = Atomic(State.registering)
        /// What an interrupt ends, besides the waiting.
        let interrupted: (@Sendable () -> Void)?

        init(interrupted: (@Sendable () -> Void)? = nil) { self.interrupted = interrupted }

        var isAnswered: Bool { state.load(ordering: .acquiring) == .answered }

        func claim() -> Bool { move(from: .waiting, to: .answered) }

        /// False: interrupted already, and the caller has to say so.
        func registered() -> Bool { move(from: .registering, to: .waiting) }

        /// True: the caller has to say so.
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

    /// Runs `body` on a thread of the lane: what it gives back is the answer, to be sent there;
    /// what it throws is refused with. Those in one line run one after the other. `finally` runs in
    /// any case. `undo` takes back a result that nobody waits for any more. An interrupted request
    /// that has not begun never does.
    func park<Result: Sendable>(
        _ request: Request, on lane: Lane, inLine line: Line? = nil,
        _ body: @escaping @Sendable () throws(Errno) -> Result,
        undo: @escaping @Sendable (Result) -> Void = { _ in },
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
                if ticket.claim() { answer(request, result) } else { undo(result) }
            } catch {
                if ticket.claim() { request.refuse(error) }
            }
        }
    }

    /// The same for what no signal interrupts: calls that on a disk never fail with EINTR, and that
    /// use what is only there until they are answered.
    func carryOut<Result: Sendable>(
        _ request: Request, on lane: Lane,
        _ body: @escaping @Sendable () throws(Errno) -> Result,
        answer: @escaping @Sendable (Request, Result) -> Void
    ) {
        start(lane) {
            request.answer { () throws(Errno) in answer(request, try body()) }
        }
    }

    /// The interrupt finds its ticket by number: a callback may come when the request was answered
    /// long ago.
    private func listen(_ request: Request, _ number: UInt64) {
        fuse_req_interrupt_func(
            request.raw,
            { raw, data in
                let request = Request(raw)
                request.driver.parking.interrupt(request, UInt64(UInt(bitPattern: data)))
            }, UnsafeMutableRawPointer(bitPattern: UInt(number)))
    }

    /// Runs something nobody waits for.
    func errand(
        on lane: Lane, inLine line: Line? = nil, _ body: @escaping @Sendable () -> Void
    ) {
        enqueue(lane, line, body)
    }

    private func enqueue(_ lane: Lane, _ line: Line?, _ work: @escaping @Sendable () -> Void) {
        guard let line else { return start(lane, work) }
        let inTurn: @Sendable () -> Void = {
            work()
            if let next = line.leave() { self.start(lane, next) }
        }
        if line.join(inTurn) { start(lane, inTurn) }
    }

    /// Once the session ends there are no threads any more, and nobody to keep waiting.
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

    private func interrupt(_ request: Request, _ number: UInt64) {
        guard let ticket = tickets.withLock({ $0[number] }), ticket.interrupt() else { return }
        request.refuse(.interrupted)
        guard let interrupted = ticket.interrupted else { return }
        // libfuse holds a lock of the request here.
        _ = tickets.withLock { $0.remove(number) }
        start(.ready, interrupted)
    }

    /// A request that waits, on no thread, for something to happen.
    struct Hold: Sendable {
        fileprivate let parking: Parking
        /// Not the ticket, which knows what waits, which knows this.
        fileprivate let number: UInt64

        /// True, once: it is the caller's to answer. False: it was interrupted.
        func end() -> Bool {
            guard let ticket = parking.tickets.withLock({ $0[number] }), ticket.claim() else {
                return false
            }
            _ = parking.tickets.withLock { $0.remove(number) }
            return true
        }
    }

    /// Nil: it was interrupted already, and has been answered. `interrupted` runs on a parking
    /// thread, instead of all that `Hold.end` allows.
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

    /// Runs something soon, on a parking thread.
    /// Not any more once the session ends.
    func soon(_ body: @escaping @Sendable () -> Void) { pools[Lane.ready.rawValue].run(body) }

    /// Returns when all that was parked has been answered.
    func stop() { for pool in pools.reversed() { pool.close() } }
}

/// Work that is done one after the other, whoever does it.
final class Line: Sendable {
    private struct State {
        var isBusy = false
        var waiting: [@Sendable () -> Void] = []
    }

    private let state = Mutex(State())

    /// True: it is the caller's turn at once.
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

    /// Whose turn is next.
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
