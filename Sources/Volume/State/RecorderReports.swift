import Logging
import Synchronization

/// What the recorder reports to people and to other threads. Any thread may use it.
final class RecorderReports: Sendable {
    private let current = Mutex(RecorderReport())
    private let log: Logger

    init(log: Logger) { self.log = log }

    var report: RecorderReport { current.withLock { $0 } }

    func change(_ body: (inout RecorderReport) -> Void) {
        current.withLock { body(&$0) }
    }

    /// Reports a problem. It is logged only if it is new.
    func tell(_ subject: String, _ message: String) {
        let isNew = current.withLock {
            $0.problems.updateValue(message, forKey: subject) != message
        }
        if isNew { log.error("\(message)") }
    }

    func untell(_ subject: String) {
        current.withLock { _ = $0.problems.removeValue(forKey: subject) }
    }
}
