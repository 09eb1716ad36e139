import CLinux
import Glibc
import Synchronization

/// A thread of our own. Credentials and umask belong to a thread, so requests are not served by
/// other thread pools.
final class Thread: @unchecked Sendable {
    private var id = pthread_t()
    /// Whether the body has ended. After that the thread may be joined, and its id is no longer
    /// valid.
    private let isOver = Mutex(false)

    /// Starts the thread. `name` is shown by ps and gdb, at most 15 bytes.
    init(_ name: String, _ body: @escaping @Sendable () -> Void) {
        let start = Unmanaged.passRetained(Start(name: name, thread: self, body: body))
        let result = pthread_create(
            &id, nil,
            { argument in
                let start = Unmanaged<Start>.fromOpaque(argument!).takeRetainedValue()
                cl_thread_name(start.name)
                start.body()
                start.thread.isOver.withLock { $0 = true }
                return nil
            }, start.toOpaque())
        precondition(
            result == 0, "A thread cannot be started: \(String(cString: strerror(result)))")
    }

    func join() { pthread_join(id, nil) }

    /// To be called if the thread will not be joined.
    func detach() { pthread_detach(id) }

    /// Interrupts the system call in which the thread sleeps, unless it has ended.
    func wake() { isOver.withLock { if !$0 { _ = cl_wake(id) } } }

    private final class Start {
        let name: String
        let thread: Thread
        let body: @Sendable () -> Void
        init(name: String, thread: Thread, body: @escaping @Sendable () -> Void) {
            (self.name, self.thread, self.body) = (name, thread, body)
        }
    }
}
