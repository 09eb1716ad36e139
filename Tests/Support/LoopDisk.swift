import Foundation
import Glibc

/// A file system of the given kind on a loop device. Needs root.
package final class LoopDisk {
    package enum Kind: String, Sendable { case ext4, btrfs, xfs }

    package let path: String
    private let home: TemporaryDirectory

    package init(_ kind: Kind, megabytes: Int) throws {
        home = try TemporaryDirectory("loop")
        path = "\(home.path)/disk"
        let image = "\(home.path)/image"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        try Command("truncate", "-s", "\(megabytes)M", image).succeed()
        try Command("mkfs.\(kind.rawValue)", "-q", image).succeed()
        try Command("mount", "-o", "loop", image, path).succeed()
    }

    /// The loop device is removed together with the mount.
    deinit { _ = umount2(path, Int32(MNT_DETACH)) }
}
