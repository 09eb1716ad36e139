import Foundation
import Glibc
import Model

/// SQLite reports a full disk as an I/O error when it extends its shared memory or syncs, so this
/// function looks at the free space.
func isOutOfSpace(_ path: String) -> Bool {
    var status = statvfs()
    guard statvfs(path, &status) == 0 else { return false }
    let space = DiskSpace(
        blocks: status.f_blocks, free: status.f_bavail, unit: status.f_frsize)
    return space.free < 1 << 16
}
