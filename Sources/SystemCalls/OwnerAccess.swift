import CLinux
import Glibc

/// Makes a call that needs to read or write a file or directory of this user. If its mode forbids
/// that to its owner, the mode allows it during the call. (Root needs no permissions, but the
/// daemon of an ordinary user must also fill and mark documents that are read-only.)
///
/// - Parameter file: Any descriptor, O_PATH too.
package func withOwnerAccess<Result: ~Copyable>(
    to file: Int32, _ body: () throws(Errno) -> Result
) throws(Errno) -> Result {
    do throws(Errno) { return try body() } catch {
        var status = stat()
        guard error == .denied, cl_fstat(file, &status) == 0, status.st_uid == geteuid(),
            status.st_mode & S_IFMT != S_IFLNK
        else { throw error }
        let needed: mode_t = status.st_mode & S_IFMT == S_IFDIR ? 0o700 : 0o600
        guard status.st_mode & needed != needed else { throw error }
        let mode = status.st_mode & 0o7777
        try check(cl_chmod_fd(file, mode | needed))
        defer { _ = cl_chmod_fd(file, mode) }
        return try body()
    }
}

/// Sets an extended attribute of a file that this user may own without the right to write it.
package func setAttribute(
    _ name: UnsafePointer<CChar>, _ value: [UInt8], of file: Int32
) throws(Errno) {
    _ = try withOwnerAccess(to: file) { () throws(Errno) in
        try check(cl_setxattr_fd(file, name, value, value.count, 0))
    }
}

/// Removes an extended attribute of such a file. A missing attribute is no error.
package func removeAttribute(
    _ name: UnsafePointer<CChar>, of file: Int32
) throws(Errno) {
    try withOwnerAccess(to: file) { () throws(Errno) in
        let result = cl_removexattr_fd(file, name)
        if result < 0, result != -ENODATA { throw Errno(-result) }
    }
}
