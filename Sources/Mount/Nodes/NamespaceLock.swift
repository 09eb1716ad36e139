import Glibc
import SystemCalls

/// Held for writing while a name is removed or moved, during both the system call and the change of
/// the nodes. Held for reading by a request that did not find a node at its known place and tries
/// again.
final class NamespaceLock: @unchecked Sendable {
    private let lock = UnsafeMutablePointer<pthread_rwlock_t>.allocate(capacity: 1)

    init() {
        lock.initialize(to: pthread_rwlock_t())
        pthread_rwlock_init(lock, nil)
    }

    deinit {
        pthread_rwlock_destroy(lock)
        lock.deallocate()
    }

    func reading<Result>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result {
        pthread_rwlock_rdlock(lock)
        defer { pthread_rwlock_unlock(lock) }
        return try body()
    }

    func writing<Result>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result {
        pthread_rwlock_wrlock(lock)
        defer { pthread_rwlock_unlock(lock) }
        return try body()
    }
}
