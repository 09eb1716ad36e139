import CLinux

/// A few threads for work that may wait for the network. They start when there is work, and end
/// after ten seconds without work or when the pool is closed.
final class WorkerPool: Sendable {
    private final class Queue: @unchecked Sendable {
        let signal = Signal()
        // The following properties are guarded by `signal`.
        var work: [@Sendable () -> Void] = []
        var threads = 0
        var idle = 0
        var isClosed = false
    }

    private let queue = Queue()
    private let name: String
    private let threadsMax: Int

    init(name: String, threads: Int) {
        self.name = name
        threadsMax = threads
    }

    deinit { close() }

    /// Discards waiting work; nothing new is started.
    func close() {
        queue.signal.change {
            queue.isClosed = true
            queue.work = []
        }
    }

    func run(_ body: @escaping @Sendable () -> Void) {
        let queue = queue
        let isShort = queue.signal.change { () -> Bool in
            guard !queue.isClosed else { return false }
            queue.work.append(body)
            guard queue.work.count > queue.idle, queue.threads < threadsMax else { return false }
            queue.threads += 1
            return true
        }
        if isShort { startThread(named: name) { WorkerPool.serve(queue) } }
    }

    private static func serve(_ queue: Queue) {
        while true {
            let deadline = cl_clock_monotonic_ns() + 10_000_000_000
            queue.signal.look { queue.idle += 1 }
            _ = queue.signal.wait(until: deadline) { !queue.work.isEmpty || queue.isClosed }
            let body = queue.signal.look { () -> (@Sendable () -> Void)? in
                queue.idle -= 1
                guard !queue.work.isEmpty else {
                    queue.threads -= 1
                    return nil
                }
                return queue.work.removeFirst()
            }
            guard let body else { return }
            body()
        }
    }
}
