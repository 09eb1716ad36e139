import CLinux
import Glibc

/// A mutex and a condition variable with monotonic time, for threads that wait for each other.
package final class Signal: @unchecked Sendable {
    // Both are initialized once, before the object is shared, and freed with it.
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

    package init() {
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(condition, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    /// Runs `body` with the mutex locked, and wakes all waiting threads.
    package func change<Result>(_ body: () -> Result) -> Result {
        pthread_mutex_lock(mutex)
        defer {
            pthread_cond_broadcast(condition)
            pthread_mutex_unlock(mutex)
        }
        return body()
    }

    /// Runs `body` with the mutex locked.
    package func look<Result>(_ body: () -> Result) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return body()
    }

    /// Waits until `isReady` returns true or the deadline (monotonic nanoseconds) has passed.
    /// Returns the last result of `isReady`, which runs with the mutex locked.
    package func wait(until deadline: Int64, _ isReady: () -> Bool) -> Bool {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        var time = timespec(
            tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
        while !isReady() {
            if pthread_cond_timedwait(condition, mutex, &time) == ETIMEDOUT { return isReady() }
        }
        return true
    }
}

/// Starts a detached thread. Wait for its end by a `Signal`.
package func startThread(named name: String, _ body: @escaping @Sendable () -> Void) {
    final class Start {
        let body: @Sendable () -> Void
        let name: String
        init(_ name: String, _ body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }
    var thread = pthread_t()
    let start = Unmanaged.passRetained(Start(name, body))
    let result = pthread_create(
        &thread, nil,
        { pointer in
            let start = Unmanaged<Start>.fromOpaque(pointer!).takeRetainedValue()
            cl_thread_name(start.name)
            start.body()
            return nil
        }, start.toOpaque())
    precondition(result == 0, "A thread cannot be started: \(String(cString: strerror(result)))")
    pthread_detach(thread)
}
