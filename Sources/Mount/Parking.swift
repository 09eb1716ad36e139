import CFuse
import Glibc
import Synchronization
import SystemCalls

/// Requests that may take their time: each waits here for one of a few threads, and its answer
/// comes from there. A worker never waits, or the requests that would end its waiting could not be
/// served.
final class Parking: Sendable {
    static let threads = 3

    /// A parked request. Who claims it answers it; an interrupt (EINTR) and the work may both want
    /// to.
    private final class Ticket: Sendable {
        private enum State: UInt8, AtomicRepresentable {
            /// libfuse may call back while it holds the request's lock: not the moment to answer.
            case registering
            case interruptedEarly
            case waiting
            case answered
        }

        private let state = Atomic(State.registering)

        var isAnswered: Bool { state.load(ordering: .acquiring) == .answered }

        func claim() -> Bool { move(from: .waiting, to: .answered) }

        /// False: interrupted already, and the caller has to say so.
        func registered() -> Bool { move(from: .registering, to: .waiting) }

        /// True: the caller has to say so.
        func interrupted() -> Bool {
            move(from: .registering, to: .interruptedEarly) ? false : claim()
        }

        private func move(from: State, to: State) -> Bool {
            state.compareExchange(expected: from, desired: to, ordering: .acquiringAndReleasing)
                .exchanged
        }
    }

    private let queue = BlockingQueue<@Sendable () -> Void>()
    private let tickets = Mutex(Slab<Ticket>())

    /// Runs `body` on a parking thread: what it gives back is the answer, to be sent there; what it
    /// throws is refused with. Those in one line run one after the other. `finally` runs in any
    /// case. `undo` takes back a result that nobody waits for any more. An interrupted request that
    /// has not begun never does.
    func park<Result: Sendable>(
        _ request: Request, inLine line: Line? = nil,
        _ body: @escaping @Sendable () throws(Errno) -> Result,
        undo: @escaping @Sendable (Result) -> Void = { _ in },
        finally: @escaping @Sendable () -> Void = {},
        answer: @escaping @Sendable (Request, Result) -> Void
    ) {
        let ticket = Ticket()
        let number = number(ticket)
        // The interrupt finds its ticket by number: a callback may come when the request was
        // answered long ago.
        fuse_req_interrupt_func(
            request.raw,
            { raw, data in
                let request = Request(raw)
                request.driver.parking.interrupt(request, UInt64(UInt(bitPattern: data)))
            }, UnsafeMutableRawPointer(bitPattern: UInt(number)))
        guard ticket.registered() else {
            _ = tickets.withLock { $0.remove(number) }
            finally()
            return request.refuse(.interrupted)
        }
        enqueue(line) {
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

    /// Runs something nobody waits for.
    func errand(inLine line: Line, _ body: @escaping @Sendable () -> Void) { enqueue(line, body) }

    private func enqueue(_ line: Line?, _ work: @escaping @Sendable () -> Void) {
        guard let line else { return start(work) }
        let inTurn: @Sendable () -> Void = {
            work()
            if let next = line.leave() { self.start(next) }
        }
        if line.join(inTurn) { start(inTurn) }
    }

    /// Once the session ends there are no threads any more, and nobody to keep waiting.
    private func start(_ work: @escaping @Sendable () -> Void) {
        if !queue.put(work) { work() }
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
        guard let ticket = tickets.withLock({ $0[number] }), ticket.interrupted() else { return }
        request.refuse(.interrupted)
    }

    func stop() { queue.close() }

    /// Until `stop`, and until all that was parked has been answered.
    func run() {
        while let work = queue.take() { work() }
    }
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
