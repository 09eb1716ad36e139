import Foundation
import Glibc

/// A file system that is soon full. Needs root.
package final class SmallDisk {
    package let path: String
    private let home: TemporaryDirectory

    /// - Parameter size: The size in the format of mount(8), such as `24m`.
    package init(_ size: String) throws {
        home = try TemporaryDirectory("disk")
        path = "\(home.path)/disk"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        try Command("mount", "-t", "tmpfs", "-o", "size=\(size)", "small", path).succeed()
    }

    package func grow(to size: String) throws {
        try Command("mount", "-o", "remount,size=\(size)", path).succeed()
    }

    deinit { _ = umount2(path, Int32(MNT_DETACH)) }
}
