import CLinux
import Glibc
import Model
import Synchronization

/// A timer queue: runs closures later, on one thread of its own.
final class TimerQueue: @unchecked Sendable {
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let changed = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    // The following properties are guarded by the mutex.
    private var entries: [UInt64: @Sendable () -> Void] = [:]
    /// Sorted by time, beginning at `head`; cancelled entries are skipped.
    private var order: [(due: Int64, number: UInt64)] = []
    private var head = 0
    private var last: UInt64 = 0
    private var isClosed = false

    init() {
        mutex.initialize(to: pthread_mutex_t())
        changed.initialize(to: pthread_cond_t())
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(changed, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(changed)
        pthread_mutex_destroy(mutex)
        changed.deallocate()
        mutex.deallocate()
    }

    /// Runs `body` after this time, unless it is cancelled first. `body` must be quick, because all
    /// entries share one thread.
    @discardableResult
    func after(seconds: Double, _ body: @escaping @Sendable () -> Void) -> UInt64 {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        last += 1
        let due = cl_clock_monotonic_ns() + Timestamp.span(seconds: seconds)
        entries[last] = body
        // Most entries are added in the order in which they are due.
        var index = order.count
        while index > head, order[index - 1].due > due { index -= 1 }
        order.insert((due, last), at: index)
        if index == head { pthread_cond_signal(changed) }
        return last
    }

    func cancel(_ number: UInt64) {
        pthread_mutex_lock(mutex)
        entries[number] = nil
        pthread_mutex_unlock(mutex)
    }

    func close() {
        pthread_mutex_lock(mutex)
        isClosed = true
        pthread_cond_signal(changed)
        pthread_mutex_unlock(mutex)
    }

    /// Runs due entries until `close`.
    func run() {
        while let body = next() { body() }
    }

    private func next() -> (@Sendable () -> Void)? {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while !isClosed {
            while head < order.count, entries[order[head].number] == nil { head += 1 }
            if head > order.count / 2 {
                order.removeFirst(head)
                head = 0
            }
            guard head < order.count else {
                pthread_cond_wait(changed, mutex)
                continue
            }
            let first = order[head]
            let wait = first.due - cl_clock_monotonic_ns()
            guard wait <= 0 else {
                var until = Timestamp(nanoseconds: first.due).timespec
                pthread_cond_timedwait(changed, mutex, &until)
                continue
            }
            head += 1
            return entries.removeValue(forKey: first.number)
        }
        return nil
    }
}
