import CLinux
import Model
import Volume

/// Limits a rate of bytes per second by blocking callers that exceed it.
final class Throttle: @unchecked Sendable {
    private let signal = Signal()

    // The following properties are guarded by `signal`.
    private var limit: Int?
    /// The time until which the bytes so far use up the rate (monotonic nanoseconds).
    private var paid: Int64 = 0
    /// Counts the changes of the rate. Callers that wait by an earlier rate go on.
    private var changes = 0
    private var isClosed = false

    init(_ rate: Int?) { limit = rate }

    var rate: Int? { signal.look { limit } }

    func set(_ rate: Int?) {
        signal.change {
            guard limit != rate else { return }
            (limit, paid) = (rate, 0)
            changes += 1
        }
    }

    /// Ends all waits, because nothing is transferred any more.
    func close() { signal.change { isClosed = true } }

    /// Blocks the calling thread until the rate allows these bytes, or the throttle is closed. A
    /// burst of a quarter of a second is free.
    func pass(_ bytes: Int) {
        let wait = signal.look { () -> (until: Int64, changes: Int)? in
            guard let limit, limit > 0, !isClosed else { return nil }
            paid = max(paid, cl_clock_monotonic_ns() - 250_000_000)
            paid += Timestamp.span(seconds: Double(bytes) / Double(limit))
            return (paid, changes)
        }
        guard let wait else { return }
        _ = signal.wait(until: wait.until) { isClosed || changes != wait.changes }
    }
}
