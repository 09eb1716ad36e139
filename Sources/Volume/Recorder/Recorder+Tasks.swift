import Journal
import Model
import Synchronization

// Tasks of other threads that must run on the recorder's thread.
extension Recorder {
    /// Runs `body` in a transaction of its own, after all events so far are processed. Blocks.
    /// `isNews` says that callers who wait for changes of the volume are to be notified.
    func perform<Result: Sendable>(
        isNews: Bool = false,
        _ body: @escaping @Sendable (Recorder, Transaction) throws -> Result
    ) throws(VolumeError) -> Result {
        try carryOut { (recorder) throws(VolumeError) in
            var result: Result?
            // The caller knows of its own change.
            recorder.isPerforming = !isNews
            defer { recorder.isPerforming = false }
            try recorder.writer.transact { t in result = try body(recorder, t) }
            return result!
        }
    }

    /// As `perform`, without a transaction.
    func carryOut<Result: Sendable>(
        _ body: @escaping @Sendable (Recorder) throws(VolumeError) -> Result
    ) throws(VolumeError) -> Result {
        let outcome = Outcome<Result>()
        let isTaken = signal.change {
            guard isServing else { return false }
            tasks.append { recorder in
                let result = Swift.Result { () throws(VolumeError) in
                    let isBehind = recorder.pauses.isPaused && recorder.events.waiting.count > 0
                    guard recorder.processor.backlog.isEmpty, !isBehind else {
                        throw VolumeError(
                            .full, "The journal cannot be written now. Try again later.")
                    }
                    return try body(recorder)
                }
                outcome.value.withLock { $0 = result }
                recorder.writer.removeUnneededStashFiles()
            }
            return true
        }
        guard isTaken else { throw Recorder.ended }
        _ = signal.wait(until: .max / 2) { outcome.value.withLock { $0 } != nil || !isServing }
        guard let result = outcome.value.withLock({ $0 }) else { throw Recorder.ended }
        return try result.get()
    }

    private final class Outcome<Result: Sendable>: Sendable {
        let value = Mutex<Swift.Result<Result, VolumeError>?>(nil)
    }

    private static let ended = VolumeError(.cancelled, "The volume has been unmounted.")

    /// Runs tasks on the recorder's thread.
    func runTasks(_ count: Int) {
        for task in signal.change({ takeTasks(count) }) {
            task(self)
            signal.change {}
        }
    }
}
