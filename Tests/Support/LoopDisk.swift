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
    private var image: String { "\(home.path)/image" }

    /// - Parameter options: Further arguments of mkfs.
    package init(_ kind: Kind, megabytes: Int, options: [String] = []) throws {
        home = try TemporaryDirectory("loop")
        path = "\(home.path)/disk"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        try Command("truncate", "-s", "\(megabytes)M", image).succeed()
        try Command("mkfs.\(kind.rawValue)", arguments: ["-q"] + options + [image]).succeed()
        try Command("mount", "-o", "loop", image, path).succeed()
    }

    /// Keeps what the disk has now. `restore` gives it back, as after a loss of power that came now
    /// and lost no block that was written.
    package func keep() throws {
        try Command("cp", "--sparse=always", image, "\(image).kept").succeed()
    }

    /// Mounts what was kept. No program may use the disk.
    package func restore() throws {
        guard umount2(path, 0) == 0 else { throw SupportError("\(path) is in use: \(errno)") }
        try LoopDisk.waitUntilFree(image)
        try Command("mv", "\(image).kept", image).succeed()
        try Command("mount", "-o", "loop", image, path).succeed()
    }

    /// A loop device ends a moment after its last use. A mount namespace that another process has
    /// just made can still have the old file system, and mounting the image would show that one
    /// again.
    static func waitUntilFree(_ image: String) throws {
        try wait(seconds: 30, for: "\(image) to be free") { () -> Bool? in
            try Command("losetup", "-j", image).succeed().isEmpty ? true : nil
        }
    }

    /// The loop device is removed together with the mount.
    deinit { _ = umount2(path, Int32(MNT_DETACH)) }
}
