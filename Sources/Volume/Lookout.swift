import CLinux
import Model

/// A thread that looks at something when it is told that there may be news, and again at the time
/// that the last look gave.
package final class Lookout: @unchecked Sendable {
    private let name: String
    private let signal = Signal()

    // Guarded by `signal`.
    private var hasNews = true
    private var isStopping = false
    private var isRunning = false

    package init(_ name: String) { self.name = name }

    /// The first look comes at once. `look` says when the next one comes without news (monotonic
    /// nanoseconds).
    package func start(_ look: @escaping @Sendable () -> Int64) {
        signal.change { isRunning = true }
        startThread(named: name) { [self] in
            while !isEnding {
                signal.look { hasNews = false }
                let next = look()
                _ = signal.wait(until: next) { hasNews || isStopping }
            }
            signal.change { isRunning = false }
        }
    }

    /// Waits for the end of a look, but no longer than `seconds`.
    package func stop(seconds: Double = 1e9) {
        signal.change { isStopping = true }
        _ = signal.wait(until: cl_clock_monotonic_ns() + Timestamp.span(seconds: seconds)) {
            !isRunning
        }
    }

    /// There may be news.
    package func poke() { signal.change { hasNews = true } }

    /// Of use in a look that takes long.
    package var isEnding: Bool { signal.look { isStopping } }

    /// In a look; until then, or until it is to end.
    package func rest(seconds: Double) {
        let end = cl_clock_monotonic_ns() + Timestamp.span(seconds: seconds)
        _ = signal.wait(until: end) { isStopping }
    }
}
