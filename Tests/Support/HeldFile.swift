import CLinux
import Glibc
import SystemCalls

/// A lease on a file: whoever opens the file for reading waits until this ends (the kernel ends it
/// itself after /proc/sys/fs/lease-break-time, 45 seconds). Needs root, and nobody may have the
/// file open. So a test holds a copy of the file at its beginning.
package final class HeldFile: Sendable {
    private let descriptor: Int32

    package init(_ path: String) throws(Errno) {
        descriptor = try check(cl_openat(AT_FDCWD, path, O_RDONLY, 0))
        // The signal that tells of a waiting program would end this one.
        signal(SIGIO, SIG_IGN)
        guard fcntl(descriptor, HeldFile.setLease, F_WRLCK) == 0 else { throw Errno(errno) }
    }

    deinit { _ = cl_close(descriptor) }

    /// Whether a program waits for the end of the lease.
    package var isAwaited: Bool { fcntl(descriptor, HeldFile.getLease) != F_WRLCK }

    package func end() { _ = fcntl(descriptor, HeldFile.setLease, F_UNLCK) }

    private static let setLease: Int32 = 1024
    private static let getLease: Int32 = 1025
}
