import CLinux
import Glibc

/// An operating system thread. Requests block, so they must not run on threads of Swift's pool.
package struct ThreadHandle: Sendable {
    private let thread: pthread_t

    private final class Body: Sendable {
        let name: String
        let run: @Sendable () -> Void
        init(name: String, run: @escaping @Sendable () -> Void) {
            self.name = name
            self.run = run
        }
    }

    /// Returns nil if the system cannot create another thread.
    package init?(_ name: String, _ run: @escaping @Sendable () -> Void) {
        let body = Unmanaged.passRetained(Body(name: name, run: run))
        var thread = pthread_t()
        let result = pthread_create(
            &thread, nil,
            { pointer in
                let body = Unmanaged<Body>.fromOpaque(pointer!).takeRetainedValue()
                cl_thread_name(body.name)
                body.run()
                return nil
            }, body.toOpaque())
        guard result == 0 else {
            body.release()
            return nil
        }
        self.thread = thread
    }

    package func join() { pthread_join(thread, nil) }
    package func detach() { pthread_detach(thread) }
}
