import CLinux
import Foundation
import Glibc

/// An ext4 file system that can lose its power: then everything is gone that no sync has written to
/// its image. Needs root.
package final class LossyDisk {
    package let path: String
    private let home: TemporaryDirectory
    private var image: String { "\(home.path)/image" }

    package init(megabytes: Int = 256) throws {
        home = try TemporaryDirectory("lossy")
        path = "\(home.path)/disk"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        try Command("truncate", "-s", "\(megabytes)m", image).succeed()
        try Command("mkfs.ext4", "-q", image).succeed()
        try mount()
    }

    /// Its journal commits only when asked to, so that nothing is saved just because time passes.
    private func mount() throws {
        try Command("mount", "-o", "loop,commit=900", image, path).succeed()
    }

    /// From now on nothing reaches the image, and programs that use the disk get errors.
    package func cutPower() throws {
        let directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard directory >= 0 else { throw SupportError("\(path) cannot be opened: \(errno)") }
        defer { close(directory) }
        // EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH.
        var how: UInt32 = 2
        let result = cl_ioctl(directory, 0x8004_587d, &how)
        guard result == 0 else { throw SupportError("the power cannot be cut: \(-result)") }
    }

    /// Mounts it again after no program uses it any more.
    package func restorePower() throws {
        try wait(seconds: 30, for: "\(path) to be unmounted (busy?)") {
            umount2(self.path, 0) == 0 || errno == EINVAL ? true : nil
        }
        try LoopDisk.waitUntilFree(image)
        try mount()
    }

    deinit { _ = umount2(path, Int32(MNT_DETACH)) }
}
