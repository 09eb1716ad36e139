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
