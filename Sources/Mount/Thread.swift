import CLinux
import Glibc

/// A thread of ours: credentials and umask are a thread's, so requests are never served by a pool
/// of somebody else's.
final class Thread: @unchecked Sendable {
    private var id = pthread_t()

    /// `name` is for ps and gdb, at most 15 bytes.
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
        precondition(result == 0, "no thread: \(String(cString: strerror(result)))")
    }

    func join() { pthread_join(id, nil) }

    /// Nobody will join it.
    func detach() { pthread_detach(id) }

    /// Ends the system call that the thread sleeps in.
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
