// swift-format-ignore-file: AlwaysUseLowerCamelCase

// Flags that the C headers show only under _GNU_SOURCE, which Swift's importer does not set.
import Glibc

package let O_PATH: Int32 = 0o10_000_000
package let O_NOATIME: Int32 = 0o1_000_000

/// Opens a file for this process's own use without changing its access time. Only the owner of the
/// file may use O_NOATIME; for other users the file is opened without it.
package func quietly(_ flags: Int32, _ open: (Int32) -> Int32) -> Int32 {
    guard flags & O_PATH == 0 else { return open(flags) }
    let result = open(flags | O_NOATIME)
    return result == -EPERM ? open(flags & ~O_NOATIME) : result
}
package let O_DIRECT: Int32 = 0o40_000
package let O_TMPFILE: Int32 = 0o20_200_000
package let AT_EMPTY_PATH: Int32 = 0x1000
package let SEEK_DATA: Int32 = 3
package let SEEK_HOLE: Int32 = 4
package let RENAME_NOREPLACE: Int32 = 1
package let RENAME_EXCHANGE: Int32 = 2
package let RENAME_WHITEOUT: Int32 = 4
