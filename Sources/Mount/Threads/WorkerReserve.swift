import CLinux
import Synchronization
import Volume

/// Adds workers when all of them wait for the disk. A worker waits for one access to the disk at
/// most, but where the file system below is frozen (fsfreeze(8), a snapshot of a logical volume) or
/// a network disk is away, that takes as long as it takes. What needs no access to the disk is
/// answered all the same.
final class WorkerReserve: Sendable {
    /// Nanoseconds after which workers that have answered nothing count as waiting.
    private static let patience: Int64 = 100_000_000
    /// How many of these times it watches after all workers were busy.
    private static let watched = 50
    /// A program that waits for the disk holds one worker.
    private static let workersMax = 256

    private let workers: Atomic<Int>
    private let busy = Atomic(0)
    private let served = Atomic<UInt64>(0)
    private let isWatching = Atomic(false)
    private let isOver = OneTimeFlag()
    private let signal = Signal()

    init(workers: Int) { self.workers = Atomic(workers) }

    /// Runs `body`, which serves a request, on the calling worker.
    func serve(_ body: () -> Void) {
        // These two are ordered with those at the end of `watch`.
        let now = busy.add(1, ordering: .sequentiallyConsistent).newValue
        if now >= workers.load(ordering: .relaxed),
            !isWatching.load(ordering: .sequentiallyConsistent)
        {
            signal.change { isWatching.store(true, ordering: .relaxed) }
        }
        body()
        busy.subtract(1, ordering: .relaxed)
        served.add(1, ordering: .relaxed)
    }

    /// Calls `add`, which starts a worker, whenever all workers wait. Returns after `end`.
    func watch(_ add: (Int) -> Void) {
        while !isOver.isSet {
            _ = signal.wait(until: .max / 2) { isWatching.load(ordering: .relaxed) || isOver.isSet }
            var left = WorkerReserve.watched
            while left > 0, !isOver.isSet {
                let before = served.load(ordering: .relaxed)
                let deadline = cl_clock_monotonic_ns() + WorkerReserve.patience
                _ = signal.wait(until: deadline) { isOver.isSet }
                let count = workers.load(ordering: .relaxed)
                let areWaiting = busy.load(ordering: .relaxed) >= count
                if areWaiting, served.load(ordering: .relaxed) == before,
                    count < WorkerReserve.workersMax, !isOver.isSet
                {
                    workers.add(1, ordering: .relaxed)
                    add(count)
                    left = WorkerReserve.watched
                } else {
                    left = areWaiting ? WorkerReserve.watched : left - 1
                }
            }
            isWatching.store(false, ordering: .sequentiallyConsistent)
            if busy.load(ordering: .sequentiallyConsistent) >= workers.load(ordering: .relaxed) {
                isWatching.store(true, ordering: .relaxed)
            }
        }
    }

    func end() { signal.change { isOver.set() } }
}
