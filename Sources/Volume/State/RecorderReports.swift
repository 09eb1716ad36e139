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
        if isNew(subject, RecorderProblem(words: message)) { log.error("\(message)") }
    }

    /// Reports a problem with a document that is at this path now. The words follow the path.
    func tell(_ subject: String, of document: Int64, at path: String, _ words: String) {
        if isNew(subject, RecorderProblem(document: document, words: words)) {
            log.error("\(path) \(words)")
        }
    }

    private func isNew(_ subject: String, _ problem: RecorderProblem) -> Bool {
        current.withLock { $0.problems.updateValue(problem, forKey: subject) != problem }
    }

    func untell(_ subject: String) {
        current.withLock { _ = $0.problems.removeValue(forKey: subject) }
    }
}
