import CLinux
import Volume

/// The threads of a sync engine: how many run, whether they must end, and whether the engine's own
/// thread was woken. All of it is guarded by `signal`, at which they also wait.
final class EngineThreads: @unchecked Sendable {
    private let signal = Signal()
    private var running = 0
    private var isStopping = false
    private var isWoken = false

    var isEnding: Bool { signal.look { isStopping } }

    func start(named name: String, _ body: @escaping @Sendable () -> Void) {
        signal.change { running += 1 }
        startThread(named: name) { [self] in
            body()
            signal.change { running -= 1 }
        }
    }

    /// Tells all threads to end.
    func end() { signal.change { isStopping = true } }

    func waitForEnd() { _ = signal.wait(until: .max / 2) { running == 0 } }

    /// Wakes the engine's thread, because there may be something to do.
    func poke() { signal.change { isWoken = true } }

    /// A round of the engine's thread begins, which sees everything that it was woken for.
    func beginRound() { signal.look { isWoken = false } }

    /// Changes something for which a thread waits.
    func change(_ body: () -> Void) { signal.change(body) }

    /// Waits until this time (monotonic nanoseconds), the end, or what `isReady` waits for.
    func wait(until time: Int64, or isReady: () -> Bool = { false }) {
        _ = signal.wait(until: time) { isStopping || isReady() }
    }

    /// Waits like `wait`, or until the engine's thread is woken while `mayWake`.
    func rest(until time: Int64, mayWake: () -> Bool) {
        wait(until: time) { isWoken && mayWake() }
    }
}
