import Foundation
import Glibc

/// Out of space hides behind an I/O error where SQLite grows its shared memory or syncs.
func isOutOfSpace(_ path: String) -> Bool {
    var status = statvfs()
    guard statvfs(path, &status) == 0 else { return false }
    return UInt64(status.f_bavail) * UInt64(status.f_frsize) < 1 << 16
}
