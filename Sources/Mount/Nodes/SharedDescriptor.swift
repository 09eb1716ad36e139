import CFuse
import CLinux
import SystemCalls

/// A file descriptor that several threads may use at once. It is closed when the last reference is
/// released, so its number is never reused while a system call may still use it.
final class SharedDescriptor: Sendable {
    let raw: Int32

    init(owning raw: Int32) { self.raw = raw }

    /// Opens a name with O_PATH, without following a symlink or opening the file's contents.
    convenience init(pathOf name: UnsafePointer<CChar>, in directory: Int32, flags: Int32 = 0)
        throws(Errno)
    {
        self.init(owning: try check(cl_openat(directory, name, Flag.path | flags, 0)))
    }

    deinit { _ = cl_close(raw) }

    func status() throws(Errno) -> stat {
        var status = stat()
        try check(cl_fstat(raw, &status))
        return status
    }
}
