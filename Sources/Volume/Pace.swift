import Model
import Synchronization

/// How soon the recorder looks at what happened, and who hears when it has.
final class Pace: Sendable {
    private struct State {
        var settle: Double
        var patience: Double
        var heard: (@Sendable () -> Void)?
    }

    private let state: Mutex<State>

    init(_ settings: Settings) {
        state = Mutex(State(settle: settings.settleSeconds, patience: settings.patienceSeconds))
    }

    /// Seconds without an event, and seconds in all, before the recorder begins to work.
    var settleSeconds: Double { state.withLock { $0.settle } }
    var patienceSeconds: Double { state.withLock { $0.patience } }

    func set(settle: Double, patience: Double) {
        state.withLock { ($0.settle, $0.patience) = (settle, patience) }
    }

    func hear(_ body: (@Sendable () -> Void)?) { state.withLock { $0.heard = body } }

    func committed() { state.withLock { $0.heard }?() }
}

extension Volume {
    /// Somebody waits for what programs save: the recorder is quicker, at the price of more
    /// transactions, and calls `heard` after each, on its own thread; also when contents came or
    /// went, on any. Nil: as before.
    package func hurry(_ heard: (@Sendable () -> Void)?) {
        recorder.pace.hear(heard)
        hydration.noted.set(heard)
        if heard == nil {
            recorder.pace.set(
                settle: settings.settleSeconds, patience: settings.patienceSeconds)
        } else {
            recorder.pace.set(settle: 0.005, patience: 0.25)
        }
        recorder.wake()
    }

    /// Versions are recorded as of that device from now on.
    package func record(asDevice id: Identifier, named name: String) throws(VolumeError) {
        try recorder.perform { recorder, _ in recorder.device = .init(id: id, name: name) }
    }
}
