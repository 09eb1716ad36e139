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

        /// Whether one offset may explain both samples. The true one differs from a sample's by
        /// half of the delay at most, unless a clock was set between the two. Drifting clocks get a
        /// second.
        func agrees(with other: Sample) -> Bool {
            let distance = (offset - other.offset).magnitude
            let uncertainty = (UInt64(delay) + UInt64(other.delay)) / 2
            return distance <= uncertainty + UInt64(Timestamp.span(seconds: 1))
        }
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
            if let known = best, known.delay < delay, sample.agrees(with: known),
                sample.taken - known.taken < 600_000_000_000
            {
                return
            }
            best = sample
        }
    }

    /// The nanoseconds to add to this device's time to get the hub's.
    package var offset: Int64 { best.withLock { $0?.offset ?? 0 } }

    package var now: Int64 { cl_clock_realtime_ns() + offset }
}
