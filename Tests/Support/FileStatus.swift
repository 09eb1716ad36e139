import CLinux
import Glibc
import Model
import SystemCalls

/// The result of stat(2), in plain numbers.
package struct FileStatus: Equatable, Sendable {
    package let device: UInt64
    package let inode: UInt64
    package let links: Int
    /// The kind of file and its permissions, as in `st_mode`.
    package let mode: mode_t
    package let user: uid_t
    package let group: gid_t
    /// The size in bytes.
    package let size: Int
    /// The bytes that are allocated on the disk.
    package let allocated: Int
    /// Nanoseconds since 1970.
    package let modified: Int
    package let changed: Int

    package var permissions: mode_t { mode & 0o7777 }

    init(_ status: stat) {
        device = UInt64(status.st_dev)
        inode = UInt64(status.st_ino)
        links = Int(status.st_nlink)
        mode = status.st_mode
        (user, group) = (status.st_uid, status.st_gid)
        size = Int(status.st_size)
        allocated = Int(status.st_blocks) * 512
        modified = Int(
            Timestamp(
                seconds: status.st_mtim.tv_sec, nanoseconds: status.st_mtim.tv_nsec
            ).nanoseconds)
        changed = Int(
            Timestamp(
                seconds: status.st_ctim.tv_sec, nanoseconds: status.st_ctim.tv_nsec
            ).nanoseconds)
    }

    /// Reads the status of a path. Does not follow a symlink at its end.
    package init(of path: String) throws(Errno) {
        var status = stat()
        try check(cl_fstatat(AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW))
        self.init(status)
    }
}
