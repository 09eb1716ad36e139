import CFuse
import Glibc
import Synchronization
import SystemCalls

/// Requests that may take their time: each waits here for one of a few threads, and its answer comes from there.
/// A worker never waits, or the requests that would end its waiting could not be served.
final class Parking: Sendable {
    static let threads = 3

    /// A parked request. Who claims it answers it; an interrupt (EINTR) and the work may both want to.
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

    /// Runs `body` on a parking thread: what it gives back is the answer, to be sent there; what it throws is refused with.
    /// `undo` takes back a result that nobody waits for any more. An interrupted request that has not begun never does.
    func park<Result: Sendable>(
        _ request: Request, _ body: @escaping @Sendable () throws(Errno) -> Result,
        undo: @escaping @Sendable (Result) -> Void = { _ in },
        answer: @escaping @Sendable (Request, Result) -> Void
    ) {
        let ticket = Ticket()
        let number = number(ticket)
        // The interrupt finds its ticket by number: a callback may come when the request was answered long ago.
        fuse_req_interrupt_func(
            request.raw,
            { raw, data in
                let request = Request(raw)
                request.driver.parking.interrupt(request, UInt64(UInt(bitPattern: data)))
            }, UnsafeMutableRawPointer(bitPattern: UInt(number)))
        guard ticket.registered() else {
            _ = tickets.withLock { $0.remove(number) }
            return request.refuse(.interrupted)
        }
        let isQueued = queue.put {
            defer { _ = self.tickets.withLock { $0.remove(number) } }
            if ticket.isAnswered { return }
            do throws(Errno) {
                let result = try body()
                if ticket.claim() { answer(request, result) } else { undo(result) }
            } catch {
                if ticket.claim() { request.refuse(error) }
            }
        }
        if !isQueued, ticket.claim() { request.refuse(Errno(ENOTCONN)) }
    }

    /// Runs something nobody waits for.
    func errand(_ body: @escaping @Sendable () -> Void) {
        if !queue.put(body) { body() }
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
