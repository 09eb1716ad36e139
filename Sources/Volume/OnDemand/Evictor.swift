import CLinux
import Model
import SystemCalls

/// Checks the eviction limits every `Settings.evictionSeconds`.
final class Evictor: @unchecked Sendable {
    private final class State: @unchecked Sendable {
        let signal = Signal()
        // Guarded by `signal`.
        var isStopped = false
    }

    private let state = State()

    func start(_ volume: Volume) {
        let settings = volume.settings
        guard settings.cacheBytesMax != nil || settings.freeBytesMin != nil else { return }
        let pause = Timestamp.span(seconds: settings.evictionSeconds)
        startThread(named: "evictor") { [state, weak volume] in
            while true {
                let deadline = cl_clock_monotonic_ns() + pause
                if state.signal.wait(until: deadline, { state.isStopped }) { return }
                guard let volume else { return }
                do throws(VolumeError) {
                    try volume.eviction.evictExcess()
                } catch {
                    volume.log.error("Nothing can be evicted: \(error)")
                }
            }
        }
    }

    func stop() { state.signal.change { state.isStopped = true } }
}
