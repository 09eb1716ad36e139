import CLinux
import Glibc
import Model
import Volume

/// Runs work on its own threads, oldest first. A thread is started when work waits and no thread is
/// idle, up to a limit, and ends after it was idle for a while.
final class ThreadPool: @unchecked Sendable {
    private let name: String
    private let limit: Int
    private let idleNanoseconds: Int64
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    /// Signalled when work was added or the pool was closed.
    private let filled = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    /// Signalled when a thread has ended.
    private let ended = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    // The following properties are guarded by the mutex.
    private var waiting = ElementQueue<@Sendable () -> Void>()
    private var idle = 0
    private var threads = 0
    private var isClosed = false

    /// `name` is shown by ps and gdb, at most 15 bytes.
    init(_ name: String, limit: Int, idleSeconds: Int64 = 5) {
        self.name = name
        self.limit = limit
        idleNanoseconds = Timestamp.span(seconds: idleSeconds)
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        for condition in [filled, ended] {
            condition.initialize(to: pthread_cond_t())
            pthread_cond_init(condition, &attributes)
        }
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(filled)
        pthread_cond_destroy(ended)
        pthread_mutex_destroy(mutex)
        filled.deallocate()
        ended.deallocate()
        mutex.deallocate()
    }

    /// Returns false, without running the work, if the pool is closed.
    @discardableResult
    func run(_ work: @escaping @Sendable () -> Void) -> Bool {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        if isClosed { return false }
        waiting.append(work)
        if waiting.count > idle, threads < limit {
            threads += 1
            Thread(name) { self.serve() }.detach()
        } else {
            pthread_cond_signal(filled)
        }
        return true
    }

    /// Accepts no more work, and returns when all accepted work is done and the threads have ended.
    func close() {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        isClosed = true
        pthread_cond_broadcast(filled)
        while threads > 0 { pthread_cond_wait(ended, mutex) }
    }

    private func serve() {
        _ = cl_thread_unshare()
        while let work = take() { work() }
    }

    /// The next work; nil if the calling thread must end.
    private func take() -> (@Sendable () -> Void)? {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        var until = Timestamp(nanoseconds: cl_clock_monotonic_ns() + idleNanoseconds).timespec
        while true {
            if let work = waiting.removeFirst() { return work }
            var isOver = isClosed
            if !isOver {
                idle += 1
                let result = pthread_cond_timedwait(filled, mutex, &until)
                idle -= 1
                isOver = result == ETIMEDOUT && waiting.count == 0
            }
            if isOver {
                threads -= 1
                pthread_cond_broadcast(ended)
                return nil
            }
        }
    }
}
