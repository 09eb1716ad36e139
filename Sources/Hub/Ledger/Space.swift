import Foundation
import Glibc

/// SQLite reports a full disk as an I/O error when it extends its shared memory or syncs, so this
/// function looks at the free space.
func isOutOfSpace(_ path: String) -> Bool {
    var status = statvfs()
    guard statvfs(path, &status) == 0 else { return false }
    return UInt64(status.f_bavail) * UInt64(status.f_frsize) < 1 << 16
}
