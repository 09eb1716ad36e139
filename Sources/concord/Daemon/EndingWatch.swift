import Control
import Glibc
import Logging
import Synchronization

/// Says in the log what the end of the daemon waits for, if that takes long.
final class EndingWatch: Sendable {
    private let log: Logger
    /// What is being ended now; nil before the end begins.
    private let step = Mutex<String?>(nil)
    private static let seconds: UInt32 = 5

    init(log: Logger) { self.log = log }

    /// Ends these parts, one after the other.
    func end(_ parts: [(what: String, stop: () -> Void)]) {
        for part in parts {
            begin(part.what)
            part.stop()
        }
        begin("the requests of programs, or the recorder")
    }

    private func begin(_ what: String) {
        let isFirst = step.withLock { step in
            defer { step = what }
            return step == nil
        }
        guard isFirst else { return }
        let thread = ThreadHandle("ending") { [self] in
            while true {
                sleep(EndingWatch.seconds)
                log.warning("The end of the daemon still waits for \(step.withLock { $0 ?? "" }).")
            }
        }
        thread?.detach()
    }
}
