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

    /// The size up to which the extents of a file can be looked through or freed by a thread that
    /// serves requests.
    static let shortSize: off_t = 64 << 20

    /// Itself, if closing it may free so many blocks that it takes long.
    var ifLargeAndRemoved: SharedDescriptor? {
        guard let status = try? status(), status.st_nlink == 0,
            status.st_size > SharedDescriptor.shortSize
        else { return nil }
        return self
    }

    func status() throws(Errno) -> stat {
        var status = stat()
        try check(cl_fstat(raw, &status))
        return status
    }
}
