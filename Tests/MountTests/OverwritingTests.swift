import Foundation
import Glibc
import Support
import SystemCalls
import Testing

/// A document that is larger than what is free on the disk. Needs root.
@Suite("Overwriting a document that fills the disk", .serialized, .enabled(if: geteuid() == 0))
struct OverwritingTests {
    /// More than half of what the disk has, in MiB.
    private static let (disk, document) = (100, 56)

    private static let commands = [
        ": > f", "truncate -s 0 f", "cp other f",
        "dd if=/dev/urandom of=f bs=1M count=\(document) conv=notrunc",
    ]

    private func run(_ script: String, in volume: MountedVolume) throws -> Command.Result {
        var command = Command("bash", "-c", script)
        command.directory = volume.path
        return try command.run()
    }

    private func withDocument(_ body: (MountedVolume) throws -> Void) throws {
        let disk = try LoopDisk(.ext4, megabytes: Self.disk)
        try MountedVolume.with(store: "\(disk.path)/store") { volume in
            let script = """
                head -c \(Self.document << 20) /dev/urandom > f
                head -c 1M /dev/urandom > other
                """
            let made = try run("set -e; \(script)", in: volume)
            try #require(made.status == 0, "\(made.errors)")
            try volume.waitForDisk()
            try body(volume)
        }
    }

    private func examine(_ volume: MountedVolume) throws {
        try volume.remount()
        try Programs.fsctl("doctor", "--no-repair", volume.path).succeed()
    }

    @Test("its old contents give way to what replaces them", arguments: commands)
    func givesWay(_ command: String) throws {
        try withDocument { volume in
            let result = try run(command, in: volume)
            #expect(result.status == 0, "\(result.errors)")
            let status = try Programs.fsctl("status", volume.path).succeed()
            #expect(status.contains("were removed since the volume was mounted"), "\(status)")
            try volume.waitForDisk()
            let sum = try run("sha256sum < f", in: volume).output
            try examine(volume)
            #expect(try run("sha256sum < f", in: volume).output == sum)
            let size = try FileStatus(of: "\(volume.path)/f").size
            let sizes = [0, 0, 1 << 20, Self.document << 20]
            #expect(size == sizes[try #require(Self.commands.firstIndex(of: command))])
            // An empty file has no version.
            guard size > 0 else { return }
            #expect(try History.of("\(volume.path)/f").versions.map(\.size) == [size])
        }
    }

    /// Overwrites the document through a mapping. Returns the error of close(2).
    private func overwriteMapped(_ path: String) throws -> Errno? {
        let file = try OpenFile(path, O_RDWR)
        do {
            let map = try file.map(Self.document << 20)
            for offset in stride(from: 0, to: map.bytes.count, by: 4096) {
                map.write("new", at: offset)
            }
        }
        return file.close()
    }

    @Test("a labelled version stays, and the program is told that the disk is full")
    func staysLabelled() throws {
        try withDocument { volume in
            let path = "\(volume.path)/f"
            try Programs.fsctl("name", path, "1", "mine").succeed()
            let sum = try run("sha256sum < f", in: volume).output
            let version = try #require(try History.of(path).versions.first)
            #expect(try overwriteMapped(path) == .noSpace)
            for command in Self.commands {
                let result = try run(command, in: volume)
                #expect(result.status != 0, "\(command)")
                #expect(result.errors.contains("No space left on device"), "\(result.errors)")
                try examine(volume)
                let path = ".versions/f/\(version.fileName)"
                #expect(try run("sha256sum < '\(path)'", in: volume).output == sum, "\(command)")
            }
        }
    }
}
