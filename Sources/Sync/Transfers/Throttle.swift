import CLinux
import Glibc
import Model
import Synchronization

/// Limits a rate of bytes per second by blocking callers that exceed it.
final class Throttle: Sendable {
    private struct State {
        var rate: Int?
        /// The time until which the bytes so far use up the rate (monotonic nanoseconds).
        var paid: Int64 = 0
    }

    private let state: Mutex<State>

    init(_ rate: Int?) { state = Mutex(State(rate: rate)) }

    func set(_ rate: Int?) { state.withLock { $0.rate = rate } }
    var rate: Int? { state.withLock { $0.rate } }

    /// Blocks the calling thread until the rate allows these bytes. A burst of a quarter of a
    /// second is free.
    func pass(_ bytes: Int) {
        let wait = state.withLock { state -> Int64 in
            guard let rate = state.rate, rate > 0 else { return 0 }
            let now = cl_clock_monotonic_ns()
            state.paid = max(state.paid, now - 250_000_000)
            state.paid += Timestamp.span(seconds: Double(bytes) / Double(rate))
            return state.paid - now
        }
        if wait > 0 { usleep(UInt32(min(wait / 1000, 1_000_000_000))) }
    }
}
