import CLinux
import Model

/// A background poller: a thread that runs a check when it is told that there may be news, and
/// again at the time that the last check returned.
package final class BackgroundPoller: @unchecked Sendable {
    private let name: String
    private let signal = Signal()

    // The following properties are guarded by `signal`.
    private var hasNews = true
    private var isStopping = false
    private var isRunning = false

    package init(_ name: String) { self.name = name }

    /// Starts the thread, which runs the first check at once. `look` returns the monotonic time, in
    /// nanoseconds, at which it runs next if there is no news.
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

    /// Stops the thread. Waits for a running check to end, but no longer than `seconds`.
    package func stop(seconds: Double = 1e9) {
        signal.change { isStopping = true }
        _ = signal.wait(until: cl_clock_monotonic_ns() + Timestamp.span(seconds: seconds)) {
            !isRunning
        }
    }

    /// Tells the thread that there may be news.
    package func poke() { signal.change { hasNews = true } }

    /// Whether the thread is to stop; for a long check to ask.
    package var isEnding: Bool { signal.look { isStopping } }

    /// Pauses within a check; returns earlier when the thread is to stop.
    package func rest(seconds: Double) {
        let end = cl_clock_monotonic_ns() + Timestamp.span(seconds: seconds)
        _ = signal.wait(until: end) { isStopping }
    }
}
