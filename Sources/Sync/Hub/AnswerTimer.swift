import CLinux
import Model
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
    /// Monotonic nanoseconds.
    private let end: Mutex<Int64>

    init(_ timeouts: HubTimeouts) {
        self.timeouts = timeouts
        let seconds = timeouts.head + timeouts.body
        end = Mutex(cl_clock_monotonic_ns() + Timestamp.span(seconds: seconds))
    }

    /// Gives the answer the time that these bytes may have taken.
    func received(_ bytes: Int) {
        let span = Timestamp.span(seconds: Double(bytes) / Double(timeouts.rate))
        end.withLock { $0 += span }
    }

    /// Gives the next hint of a feed its time.
    func restart() {
        end.withLock { $0 = cl_clock_monotonic_ns() + Timestamp.span(seconds: timeouts.body) }
    }

    /// Runs `body`, and cancels it when the time is over.
    ///
    /// - Throws: What `body` throws; `fault` when the time is over.
    func run<Value: Sendable>(
        orThrow fault: HubFault, _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask { try await body() }
            group.addTask {
                while let left = self.left { try await Task.sleep(for: .nanoseconds(left)) }
                return nil
            }
            defer { group.cancelAll() }
            guard let value = try await group.next(), let value else { throw fault }
            return value
        }
    }

    /// The nanoseconds that are left; nil when the time is over.
    private var left: Int64? {
        let left = end.withLock { $0 } - cl_clock_monotonic_ns()
        return left > 0 ? left : nil
    }
}
