import Journal
import Model
import Synchronization

// Tasks of other threads that must run on the recorder's thread.
extension Recorder {
    /// Runs `body` in a transaction of its own on the recorder's thread, after all events so far
    /// are processed. Blocks. Must not be called on that thread or before `start`. If `body`
    /// throws, the transaction is rolled back. `isNews` says that callers who wait for changes of
    /// the volume are to be notified.
    ///
    /// - Throws: What `body` throws; `.full`; `.cancelled` when the volume closes.
    package func perform<Result: Sendable>(
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

    /// Whether a document may have contents that are not recorded yet, or is open for writing.
    /// Before the first scan has ended, that is not known. To be called on the recorder's thread,
    /// within `perform`.
    package func isPending(_ key: Int64) -> Bool {
        writer.state.pending[key] != nil || index.firstLookEnd == nil
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

    // MARK: For whom it records

    /// Records more quickly, at the price of more transactions, because a device waits for what
    /// programs save. `heard` is called after each transaction on the recorder's thread, and also
    /// on other threads when contents were downloaded or evicted. Nil restores the usual pace.
    package func recordPromptly(_ heard: (@Sendable () -> Void)?) {
        journalChanged.set(heard)
        if heard == nil {
            debounce.set(settle: settings.settleSeconds, patience: settings.patienceSeconds)
        } else {
            debounce.set(settle: 0.005, patience: 0.25)
        }
        wake()
    }

    /// Sets the device that new versions are recorded for.
    package func record(asDevice id: Identifier, named name: String) throws(VolumeError) {
        try perform { recorder, _ in
            recorder.versionMaker.device.id = id
            recorder.versionMaker.device.name = name
        }
    }

    /// Sets the account that new versions name as the person, instead of the user of this machine.
    /// Nil restores the user.
    package func record(as account: String?) throws(VolumeError) {
        try perform { recorder, _ in recorder.versionMaker.device.account = account }
    }
}
