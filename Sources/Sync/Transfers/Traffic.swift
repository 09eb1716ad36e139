import CLinux
import Synchronization

/// Counts the bytes of requests and answers.
package final class Traffic: Sendable {
    private struct Counts {
        var up: Int64 = 0
        var down: Int64 = 0
        var requests: Int64 = 0
        /// The bytes of each of the last seconds.
        var seconds: [(second: Int64, up: Int64, down: Int64)] = []

        mutating func add(up: Int64, down: Int64) {
            self.up += up
            self.down += down
            let second = cl_clock_monotonic_ns() / 1_000_000_000
            if seconds.last?.second != second {
                seconds.append((second, 0, 0))
                if seconds.count > Int(Traffic.window) + 1 { seconds.removeFirst() }
            }
            seconds[seconds.count - 1].up += up
            seconds[seconds.count - 1].down += down
        }
    }

    private let counts = Mutex(Counts())
    private static let window: Int64 = 3

    /// Counts a request with this many bytes.
    func up(_ bytes: Int) {
        counts.withLock { counts in
            counts.requests += 1
            counts.add(up: Int64(bytes), down: 0)
        }
    }

    func down(_ bytes: Int) { counts.withLock { $0.add(up: 0, down: Int64(bytes)) } }

    package var total: (up: Int64, down: Int64, requests: Int64) {
        counts.withLock { ($0.up, $0.down, $0.requests) }
    }

    /// The bytes per second over the last three complete seconds.
    package var rate: (up: Int64, down: Int64) {
        let now = cl_clock_monotonic_ns() / 1_000_000_000
        return counts.withLock { counts in
            let recent = counts.seconds.filter {
                $0.second < now && $0.second >= now - Traffic.window
            }
            return (
                recent.reduce(0) { $0 + $1.up } / Traffic.window,
                recent.reduce(0) { $0 + $1.down } / Traffic.window
            )
        }
    }
}
