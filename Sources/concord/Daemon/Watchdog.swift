import CLinux
import Control
import Glibc
import Logging
import SystemCalls

/// The process that takes the mount away when the daemon is stopped for too long, so that programs
/// do not wait for ever (`WatchdogCommand`).
struct Watchdog {
    private let process: Int32
    /// The pipe to the watchdog, which ends when this is closed.
    private let line: Int32

    /// Call it on the main thread, because the watchdog ends with the thread that started it. Nil
    /// when it could not be started, which is logged.
    init?(mountPoint: String, seconds: Double, log: Logger) {
        var ends: [Int32] = [0, 0]
        guard cl_pipe(&ends) >= 0 else {
            log.warning("There is no watchdog: a pipe could not be made.")
            return nil
        }
        let words = ["concord", "watchdog", "--", mountPoint, "\(seconds)"].map(FilePath.init(_:))
        process = withArguments(words) { cl_spawn("/proc/self/exe", $0, ends[0], -1, -1, -1, 1) }
        line = ends[1]
        _ = cl_close(ends[0])
        guard process > 0 else {
            _ = cl_close(line)
            log.warning("The watchdog could not be started: \(Errno(-process)).")
            return nil
        }
    }

    /// Ends the watchdog. Returns true when it had taken the mount away.
    func end() -> Bool {
        _ = cl_close(line)
        let status = cl_wait_process(process)
        return status >= 0 && cl_exit_status(status) == WatchdogCommand.hasEndedMount
    }
}
