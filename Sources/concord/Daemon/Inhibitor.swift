import CLinux
import Glibc
import Logging
import Model
import Synchronization
import SystemCalls
import Volume

/// Delays the machine's shutdown and sleep while something on this disk is on its way to the hub.
/// It runs `systemd-inhibit` as a child for that time; without systemd it does nothing.
///
/// logind decides how long it really waits (InhibitDelayMaxSec). `Times` limits how long we ask for
/// a delay.
/// longer than `Times` say.
final class Inhibitor: Sendable {
    struct Times: Sendable {
        /// Seconds without progress after which the delay is given up.
        var quietSeconds = 30.0
        /// Seconds after which the delay is given up in any case. The next one begins only after
        /// everything was safe once.
        var heldSeconds = 300.0
        /// Seconds for which something must be unsafe before the delay starts. Most saves reach the
        /// hub earlier.
        var graceSeconds = 0.5
    }

    private struct State {
        var isUnsafe = false
        var lastProgress: Int64 = 0
        var isExhausted = false
        var isStopped = false
        var isRunning = false
        /// There is no systemd-inhibit, or it failed.
        var isImpossible = false

        var isWanted: Bool { isUnsafe && !isExhausted && !isStopped && !isImpossible }
    }

    private let times: Times
    private let log: Logger
    private let signal = Signal()
    private let state = Mutex(State())

    init(times: Times = Times(), log: Logger) {
        self.times = times
        self.log = log
    }

    /// Reports whether something on its way to the hub is unsafe; each call with true counts as
    /// progress. False means that everything is at the hub or that nothing moves.
    func set(_ isUnsafe: Bool) {
        let mustStart = signal.change {
            state.withLock { state in
                state.isUnsafe = isUnsafe
                state.lastProgress = cl_clock_monotonic_ns()
                if !isUnsafe { state.isExhausted = false }
                guard state.isWanted, !state.isRunning else { return false }
                state.isRunning = true
                return true
            }
        }
        if mustStart { startThread(named: "inhibitor") { self.run() } }
    }

    /// Ends the delay for good.
    func stop() {
        signal.change { state.withLock { $0.isStopped = true } }
        _ = signal.wait(until: cl_clock_monotonic_ns() + 5_000_000_000) {
            state.withLock { !$0.isRunning }
        }
    }

    private func run() {
        repeat {
            let grace = cl_clock_monotonic_ns() + Timestamp.span(seconds: times.graceSeconds)
            if !signal.wait(until: grace, { isOver }) { hold() }
        } while continuesHolding()
    }

    /// Whether something became unsafe again while `systemd-inhibit` ended. Then this thread must
    /// go on, because `set` starts no second one.
    private func continuesHolding() -> Bool {
        signal.change {
            state.withLock { state in
                state.isRunning = state.isWanted
                return state.isRunning
            }
        }
    }

    private var isOver: Bool { state.withLock { !$0.isUnsafe || $0.isStopped } }

    private func hold() {
        var ends: [Int32] = [0, 0]
        guard cl_pipe(&ends) >= 0 else { return }
        let texts = [
            "systemd-inhibit", "--what=shutdown:sleep", "--mode=delay", "--who=Concord",
            "--why=Documents are on their way to the hub", "cat",
        ]
        var words = texts.map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        // `cat` ends when our end of the pipe closes, also when this process is killed.
        let process = cl_spawn("systemd-inhibit", &words, ends[0], -1, -1, -1, 0)
        _ = cl_close(ends[0])
        guard process > 0 else {
            _ = cl_close(ends[1])
            state.withLock { $0.isImpossible = true }
            log.debug("shutdown is not delayed: systemd-inhibit cannot be run")
            return
        }
        let end = cl_clock_monotonic_ns() + Timestamp.span(seconds: times.heldSeconds)
        while true {
            let quiet =
                state.withLock { $0.lastProgress } + Timestamp.span(seconds: times.quietSeconds)
            let deadline = min(quiet, end)
            if deadline <= cl_clock_monotonic_ns() {
                state.withLock { $0.isExhausted = true }
                break
            }
            if signal.wait(until: deadline, { isOver }) { break }
        }
        _ = cl_close(ends[1])
        let status = cl_exit_status(cl_wait_process(process))
        if status != 0 {
            // There is no logind, or it does not permit the delay.
            state.withLock { $0.isImpossible = true }
            log.debug("shutdown is not delayed: systemd-inhibit ended with \(status)")
        }
    }
}
