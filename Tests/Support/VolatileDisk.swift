import Foundation
import Glibc

/// A file system on a disk in memory. At any moment, while programs continue to write, it can
/// give the state after a loss of power. Needs root.
package final class VolatileDisk {
    package let path: String
    private let home: TemporaryDirectory
    private let child: ChildProcess
    private let toInput: FileHandle
    private let fromOutput: FileHandle
    private var images = 0
    private let kind: LoopDisk.Kind

    package init(_ kind: LoopDisk.Kind, megabytes: Int) throws {
        self.kind = kind
        home = try TemporaryDirectory("volatile")
        path = "\(home.path)/disk"
        let served = "\(home.path)/served"
        for directory in [path, served] {
            try FileManager.default.createDirectory(
                atPath: directory, withIntermediateDirectories: false)
        }
        let (input, output) = (Pipe(), Pipe())
        (toInput, fromOutput) = (input.fileHandleForWriting, output.fileHandleForReading)
        child = try ChildProcess(
            Programs.path("disk-program"), [served, "\(megabytes)"], directory: "/",
            input: input.fileHandleForReading.fileDescriptor,
            output: output.fileHandleForWriting.fileDescriptor, errors: 2)
        guard try hear() == "ready" else { throw SupportError("the disk does not start") }
        let words = kind == .ext4 ? ["-E", "nodiscard"] : ["-K"]
        try Command(
            "mkfs.\(kind.rawValue)", arguments: ["-q"] + words + ["\(served)/image"]
        ).succeed()
        try Command("mount", "-o", "loop", "\(served)/image", path).succeed()
    }

    /// An image of what the disk would contain if its power were lost now.
    package func imageAfterPowerLoss(seed: UInt64) throws -> PowerLossImage {
        images += 1
        let file = "\(home.path)/image \(images)"
        try toInput.write(contentsOf: Data("lose \(seed) \(file)\n".utf8))
        let answer = try hear()
        guard answer.hasPrefix("ok ") else { throw SupportError("the disk said: \(answer)") }
        return try PowerLossImage(file: file, blocks: String(answer.dropFirst(3)))
    }

    private func hear() throws -> String {
        var line = Data()
        while line.last != UInt8(ascii: "\n") {
            var poll = pollfd(fd: fromOutput.fileDescriptor, events: Int16(POLLIN), revents: 0)
            guard Glibc.poll(&poll, 1, 60_000) == 1 else {
                throw SupportError("the disk does not answer")
            }
            guard let byte = try fromOutput.read(upToCount: 1), !byte.isEmpty else {
                throw SupportError("the disk has ended")
            }
            line += byte
        }
        return String(decoding: line.dropLast(), as: UTF8.self)
    }

    /// An image has the same id as the disk, so the kernel mounts only one of them at a time.
    package func unmount() {
        if umount2(path, 0) != 0 { _ = umount2(path, Int32(MNT_DETACH)) }
    }

    /// The program ends at the end of its input, after the loop device is detached.
    deinit {
        unmount()
        try? toInput.close()
        if (try? child.waitForEnd(seconds: 30)) == nil { child.killGroup() }
        _ = umount2("\(home.path)/served", Int32(MNT_DETACH))
    }
}

/// A file system in the state after a loss of power.
package final class PowerLossImage {
    package let path: String
    /// The number of unflushed blocks that it has, and the number that it has lost.
    package let blocks: String
    private let file: String

    fileprivate init(file: String, blocks: String) throws {
        (self.file, self.blocks) = (file, blocks)
        path = "\(file) mounted"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    }

    package func mount() throws { try Command("mount", "-o", "loop", file, path).succeed() }

    package func unmount() {
        if umount2(path, 0) != 0 { _ = umount2(path, Int32(MNT_DETACH)) }
    }

    deinit {
        unmount()
        rmdir(path)
        unlink(file)
    }
}
