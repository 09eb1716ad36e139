import Foundation
import Glibc

/// A file system of the given kind on a loop device. Needs root.
package final class LoopDisk {
    package enum Kind: String, Sendable, CaseIterable {
        case ext4, xfs, btrfs

        /// Whether this machine can make and mount it.
        package var isPossible: Bool {
            let question =
                "command -v mkfs.\(rawValue) && { grep -qw \(rawValue) /proc/filesystems"
                + " || modprobe \(rawValue); }"
            return (try? Command("sh", "-c", question).succeed()) != nil
        }
    }

    package let path: String
    private let home: TemporaryDirectory

    /// - Parameter options: Further arguments of mkfs.
    package init(_ kind: Kind, megabytes: Int, options: [String] = []) throws {
        home = try TemporaryDirectory("loop")
        path = "\(home.path)/disk"
        let image = "\(home.path)/image"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        try Command("truncate", "-s", "\(megabytes)M", image).succeed()
        try Command("mkfs.\(kind.rawValue)", arguments: ["-q"] + options + [image]).succeed()
        try Command("mount", "-o", "loop", image, path).succeed()
    }

    /// The loop device is removed together with the mount.
    deinit { _ = umount2(path, Int32(MNT_DETACH)) }
}
