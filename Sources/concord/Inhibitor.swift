import CLinux
import Glibc
import Logging
import Model
import Synchronization
import SystemCalls
import Volume

/// Delays the machine's shutdown and sleep while something is on this disk only and on its way to
/// the hub: by systemd's own program, run as a child for as long. Where there is none, nothing
/// happens.
///
/// How long logind waits then is the machine's setting (InhibitDelayMaxSec); we ask for it no
/// longer than `Times` say.
final class Inhibitor: Sendable {
    struct Times: Sendable {
        /// Seconds without a word of progress after which it is let go of.
        var quietSeconds = 30.0
        /// Seconds in all; then only after all was safe once more.
        var heldSeconds = 300.0
        /// Seconds for which something has to be unsafe first: most saves are at the hub by then.
        var graceSeconds = 0.5
    }

    private struct State {
        var isUnsafe = false
        var lastWord: Int64 = 0
        var isSpent = false
        var isStopped = false
        var isRunning = false
        /// There is no such program, or it cannot do it.
        var isImpossible = false

        var isWanted: Bool { isUnsafe && !isSpent && !isStopped && !isImpossible }
    }

    private let times: Times
    private let log: Logger
    private let signal = Signal()
    private let state = Mutex(State())

    init(times: Times = Times(), log: Logger) {
        self.times = times
        self.log = log
    }

    /// Something is not at the hub yet, and gets there; each such word counts as progress. False:
    /// all is, or nothing moves.
    func set(_ isUnsafe: Bool) {
        let mustStart = signal.change {
            state.withLock { state in
                state.isUnsafe = isUnsafe
                state.lastWord = cl_clock_monotonic_ns()
                if !isUnsafe { state.isSpent = false }
                guard state.isWanted, !state.isRunning else { return false }
                state.isRunning = true
                return true
            }
        }
        if mustStart { startThread(named: "inhibitor") { self.run() } }
    }

    /// Lets go of it for good.
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
        } while mustGoOn()
    }

    /// Whether something has become unsafe again while the program ended: nobody else starts it.
    private func mustGoOn() -> Bool {
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
        // `cat` ends with our end of the pipe, also when we are killed.
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
            let quiet = state.withLock { $0.lastWord } + Timestamp.span(seconds: times.quietSeconds)
            let deadline = min(quiet, end)
            if deadline <= cl_clock_monotonic_ns() {
                state.withLock { $0.isSpent = true }
                break
            }
            if signal.wait(until: deadline, { isOver }) { break }
        }
        _ = cl_close(ends[1])
        let status = cl_exit_status(cl_wait_process(process))
        if status != 0 {
            // No logind, or it does not let us.
            state.withLock { $0.isImpossible = true }
            log.debug("shutdown is not delayed: systemd-inhibit ended with \(status)")
        }
    }
}
