import CLinux
import Model
import NIOCore
import Synchronization

/// How long a device waits for the answers of a hub.
package struct HubTimeouts: Sendable {
    /// The seconds until an answer begins.
    package var head: Int64 = 120
    /// The seconds for the rest of an answer, beside the time that its bytes may take; for a feed,
    /// the seconds from one hint to the next. A hub sends a hint every 15 seconds.
    package var body: Int64 = 60
    /// The slowest connection that is useful, in bytes per second.
    package var rate: Int64 = 1024

    package init() {}
}

/// Ends a request whose answer arrives too slowly. The HTTP client's own limits are not enough: its
/// deadline ends when the answer begins, and its read timeout begins again with each byte.
final class AnswerTimer: Sendable {
    private let timeouts: HubTimeouts
    private let state: Mutex<State>

    private struct State {
        /// Monotonic nanoseconds.
        var end: Int64
        var isOver = false
        var timer: Scheduled<Void>?

        /// The nanoseconds that are left.
        var left: Int64 { end - cl_clock_monotonic_ns() }
    }

    init(_ timeouts: HubTimeouts) {
        self.timeouts = timeouts
        let seconds = timeouts.head + timeouts.body
        state = Mutex(State(end: cl_clock_monotonic_ns() + Timestamp.span(seconds: seconds)))
    }

    /// Gives the answer the time that these bytes may have taken.
    func received(_ bytes: Int) {
        let span = Timestamp.span(seconds: Double(bytes) / Double(timeouts.rate))
        state.withLock { $0.end += span }
    }

    /// Gives the next hint of a feed its time.
    func restart() {
        state.withLock {
            $0.end = cl_clock_monotonic_ns() + Timestamp.span(seconds: timeouts.body)
        }
    }

    /// Runs `body`, and cancels it when the time is over. The event loop's timer is used because a
    /// sleeping task that is cancelled still wakes the process later.
    ///
    /// - Throws: What `body` throws; `fault` when the time is over.
    func run<Value: Sendable>(
        on loop: any EventLoop, orThrow fault: HubFault,
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let task = Task { try await body() }
        watch(task, on: loop)
        let result = await task.result
        state.withLock { $0.timer?.cancel() }
        // A cancelled request looks like an answer that has ended.
        if state.withLock({ $0.isOver }) { throw fault }
        return try result.get()
    }

    private func watch<Value: Sendable>(_ task: Task<Value, any Error>, on loop: any EventLoop) {
        let timer = loop.scheduleTask(in: .nanoseconds(state.withLock { $0.left })) { [self] in
            let isOver = state.withLock { state in
                state.isOver = state.left <= 0
                return state.isOver
            }
            if isOver { task.cancel() } else { watch(task, on: loop) }
        }
        state.withLock { $0.timer = timer }
    }
}
