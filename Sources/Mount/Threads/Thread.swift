import CLinux
import Glibc

/// A thread of our own. Credentials and umask belong to a thread, so requests are not served by
/// other thread pools.
final class Thread: @unchecked Sendable {
    private var id = pthread_t()

    /// Starts the thread. `name` is shown by ps and gdb, at most 15 bytes.
    init(_ name: String, _ body: @escaping @Sendable () -> Void) {
        let start = Unmanaged.passRetained(Start(name: name, body: body))
        let result = pthread_create(
            &id, nil,
            { argument in
                let start = Unmanaged<Start>.fromOpaque(argument!).takeRetainedValue()
                cl_thread_name(start.name)
                start.body()
                return nil
            }, start.toOpaque())
        precondition(
            result == 0, "A thread cannot be started: \(String(cString: strerror(result)))")
    }

    func join() { pthread_join(id, nil) }

    /// To be called if the thread will not be joined.
    func detach() { pthread_detach(id) }

    /// Interrupts the system call in which the thread sleeps.
    func wake() { _ = cl_wake(id) }

    private final class Start {
        let name: String
        let body: @Sendable () -> Void
        init(name: String, body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }
}
