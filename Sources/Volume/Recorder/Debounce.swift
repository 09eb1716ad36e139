import Model
import Synchronization

/// The debounce times of the recorder, and a callback for each of its transactions.
final class Debounce: Sendable {
    private struct State {
        var settle: Double
        var patience: Double
        var heard: (@Sendable () -> Void)?
    }

    private let state: Mutex<State>

    init(_ settings: Settings) {
        state = Mutex(State(settle: settings.settleSeconds, patience: settings.patienceSeconds))
    }

    /// The recorder begins to work after this many seconds without an event, or after
    /// `patienceSeconds` in all.
    var settleSeconds: Double { state.withLock { $0.settle } }
    var patienceSeconds: Double { state.withLock { $0.patience } }

    func set(settle: Double, patience: Double) {
        state.withLock { ($0.settle, $0.patience) = (settle, patience) }
    }

    func hear(_ body: (@Sendable () -> Void)?) { state.withLock { $0.heard = body } }

    func committed() { state.withLock { $0.heard }?() }
}

extension Volume {
    /// Makes the recorder quicker, at the price of more transactions, because a device waits for
    /// what programs save. `heard` is called after each transaction on the recorder's thread, and
    /// also on other threads when contents were downloaded or evicted. Nil restores the usual pace.
    package func recordPromptly(_ heard: (@Sendable () -> Void)?) {
        recorder.debounce.hear(heard)
        hydration.noted.set(heard)
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
            recorder.device.id = id
            recorder.device.name = name
        }
    }

    /// Sets the account that new versions name as the person, instead of the user of this machine.
    /// Nil restores the user.
    package func record(as account: String?) throws(VolumeError) {
        try recorder.perform { recorder, _ in recorder.device.account = account }
    }
}
