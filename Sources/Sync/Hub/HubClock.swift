import CLinux
import Model
import Synchronization

/// Estimates the offset of this device's clock from the hub's, by the exchange with the shortest
/// round trip (Cristian's algorithm with four timestamps, as in NTP).
package final class HubClock: Sendable {
    private struct Sample {
        var offset: Int64
        var delay: Int64
        /// When the sample was taken, in monotonic nanoseconds.
        var taken: Int64
    }

    private let best = Mutex<Sample?>(nil)

    /// Adds a sample. All four times are in nanoseconds since 1970: `sent` and `came` by this
    /// device's clock, `received` and `answered` by the hub's.
    package func learn(sent: Int64, received: Int64, answered: Int64, came: Int64) {
        let delay = Int128(came) - Int128(sent) - (Int128(answered) - Int128(received))
        let offset = (Int128(received) - Int128(sent) + Int128(answered) - Int128(came)) / 2
        // An offset of more than a hundred years shows that one of the clocks is wrong.
        guard delay >= 0, offset.magnitude < Timestamp.span(seconds: 3_200_000_000) else { return }
        let sample = Sample(
            offset: Int64(offset), delay: Int64(clamping: delay),
            taken: cl_clock_monotonic_ns())
        best.withLock { best in
            // Clocks drift, so a sample older than ten minutes is replaced even by a less precise
            // one.
            if let known = best, known.delay < delay, sample.taken - known.taken < 600_000_000_000 {
                return
            }
            best = sample
        }
    }

    /// The nanoseconds to add to this device's time to get the hub's.
    package var offset: Int64 { best.withLock { $0?.offset ?? 0 } }

    package var now: Int64 { cl_clock_realtime_ns() + offset }
}
