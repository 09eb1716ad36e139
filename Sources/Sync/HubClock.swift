import CLinux
import Model
import Synchronization

/// How far this device's clock is from the hub's: from the answer with the shortest way (Cristian's
/// algorithm with four times, as NTP has it).
package final class HubClock: Sendable {
    private struct Sample {
        var offset: Int64
        var delay: Int64
        /// Monotonic nanoseconds.
        var taken: Int64
    }

    private let best = Mutex<Sample?>(nil)

    /// All four in nanoseconds since 1970: sent and came by this clock, received and answered by
    /// the hub's.
    package func learn(sent: Int64, received: Int64, answered: Int64, came: Int64) {
        let delay = Int128(came) - Int128(sent) - (Int128(answered) - Int128(received))
        let offset = (Int128(received) - Int128(sent) + Int128(answered) - Int128(came)) / 2
        // More than a hundred years apart, neither of the two clocks is any good.
        guard delay >= 0, offset.magnitude < Timestamp.span(seconds: 3_200_000_000) else { return }
        let sample = Sample(
            offset: Int64(offset), delay: Int64(clamping: delay),
            taken: cl_clock_monotonic_ns())
        best.withLock { best in
            // Clocks drift: what is old gives way to what is worse.
            if let known = best, known.delay < delay, sample.taken - known.taken < 600_000_000_000 {
                return
            }
            best = sample
        }
    }

    /// What is to be added to this clock's time.
    package var offset: Int64 { best.withLock { $0?.offset ?? 0 } }

    package var now: Int64 { cl_clock_realtime_ns() + offset }
}
