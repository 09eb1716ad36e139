import Model
import Synchronization

/// The debounce times of the recorder. Any thread may use it.
final class Debounce: Sendable {
    private let seconds: Mutex<(settle: Double, patience: Double)>

    init(_ settings: Settings) {
        seconds = Mutex((settings.settleSeconds, settings.patienceSeconds))
    }

    /// The recorder begins to work after this many seconds without an event, or after
    /// `patienceSeconds` in all.
    var settleSeconds: Double { seconds.withLock { $0.settle } }
    var patienceSeconds: Double { seconds.withLock { $0.patience } }

    func set(settle: Double, patience: Double) {
        seconds.withLock { $0 = (settle, patience) }
    }
}

extension Volume {
    /// Makes the recorder quicker, at the price of more transactions, because a device waits for
    /// what programs save. `heard` is called after each transaction on the recorder's thread, and
    /// also on other threads when contents were downloaded or evicted. Nil restores the usual pace.
    package func recordPromptly(_ heard: (@Sendable () -> Void)?) {
        hydration.journalChanged.set(heard)
        if heard == nil {
            recorder.debounce.set(
                settle: settings.settleSeconds, patience: settings.patienceSeconds)
        } else {
            recorder.debounce.set(settle: 0.005, patience: 0.25)
        }
        recorder.wake()
    }

    /// Sets the device that new versions are recorded for.
    package func record(asDevice id: Identifier, named name: String) throws(VolumeError) {
        try recorder.perform { recorder, _ in
            recorder.versionMaker.device.id = id
            recorder.versionMaker.device.name = name
        }
    }

    /// Sets the account that new versions name as the person, instead of the user of this machine.
    /// Nil restores the user.
    package func record(as account: String?) throws(VolumeError) {
        try recorder.perform { recorder, _ in recorder.versionMaker.device.account = account }
    }
}
