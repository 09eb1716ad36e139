import Foundation
import Glibc
import Support
import SystemCalls
import Testing

/// What df(1) shows for a mount. Needs root.
@Suite("Free space", .serialized, .enabled(if: geteuid() == 0))
struct SpaceTests {
    private func free(_ path: String) throws -> Int64 {
        var space = statvfs()
        try call(statvfs(path, &space))
        #expect(space.f_bavail <= space.f_bfree && space.f_bfree <= space.f_blocks)
        return Int64(space.f_bavail) * Int64(space.f_frsize)
    }

    private func noise(_ count: Int, seed: UInt64) -> Data {
        var random = SeededRandom(seed: seed)
        let words = (0..<(count / 8)).map { _ in random.next() }
        return words.withUnsafeBytes { Data($0) }
    }

    @Test("counts what can be removed when space is needed, and nothing else")
    func freeable() throws {
        let disk = try SmallDisk("160m")
        try MountedVolume.with(store: "\(disk.path)/store") { volume in
            let path = "\(volume.path)/big"
            let before = try free(volume.path)
            // Space reserved for the journal does not count as free.
            #expect(abs(before - (try free(disk.path))) < 1 << 20)
            try noise(30_000_000, seed: 1).write(to: URL(filePath: path))
            try volume.waitForDisk()
            #expect(try free(volume.path) < before - 29_000_000)
            try FileManager.default.removeItem(atPath: path)
            try wait(seconds: 20, for: "the space of the deleted file") {
                try free(volume.path) > before - 2_000_000 ? true : nil
            }
            // The contents are history now and still take space on the disk.
            #expect(try free(disk.path) < before - 20_000_000)
            try noise(30_000_000, seed: 2).write(to: URL(filePath: path))
            try volume.waitForDisk()
            try Programs.fsctl("name", path, "1", "kept").succeed()
            try noise(20_000_000, seed: 3).write(to: URL(filePath: path))
            try volume.waitForDisk()
            // The label keeps the version, so its space does not count as free.
            try wait(seconds: 20, for: "the space of the labelled version to be used") {
                try free(volume.path) < before - 45_000_000 ? true : nil
            }
            try Programs.fsctl("name", "--remove", path, "kept").succeed()
            try wait(seconds: 20, for: "the space of the version without its label") {
                try free(volume.path) > before - 25_000_000 ? true : nil
            }
        }
    }

    @Test(
        "ordinary users do not use up what the disk reserves for root", arguments: DataPath.allCases
    )
    func reserved(path: DataPath) throws {
        let disk = try LoopDisk(.ext4, megabytes: 64)
        var before = statvfs()
        try call(statvfs(disk.path, &before))
        let reserved = before.f_bfree - before.f_bavail
        #expect(reserved > 0)
        try MountedVolume.with(
            store: "\(disk.path)/store", options: ["allow_other"] + path.options
        ) { volume in
            try call(chmod(volume.path, 0o777))
            let script = """
                dd if=/dev/urandom of=full bs=64k 2>&1; dd if=/dev/zero of=full2 bs=1k 2>&1; ls -l
                """
            var command = Command(
                "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "sh", "-c",
                script)
            command.directory = volume.path
            let said = try command.succeed()
            #expect(said.contains("No space left"), "\(said)")
            var after = statvfs()
            try call(statvfs(disk.path, &after))
            // The daemon's own files take a part of it.
            #expect(after.f_bfree >= reserved * 3 / 4, "\(after.f_bfree) of \(reserved) are left")
            try call(unlink("\(volume.path)/full"))
        }
    }

    @Test("documents can be removed from a disk without a free block, and others created")
    func removals() throws {
        let disk = try LoopDisk(.ext4, megabytes: 64)
        try MountedVolume.with(store: "\(disk.path)/store") { volume in
            // Long names, so that the names in the stash need many blocks.
            let paths = (0..<100).map { index in
                "\(volume.path)/\(index) " + String(repeating: "x", count: 200)
            }
            for path in paths {
                try "text".write(toFile: path, atomically: false, encoding: .utf8)
            }
            try volume.waitForDisk()
            let filler = try OpenFile.creating("\(disk.path)/filler")
            var size = 0
            for step in [1 << 20, 4096] {
                let block = [UInt8](repeating: 1, count: step)
                while refusal({ () throws(Errno) in try filler.write(block, at: size) }) == nil {
                    size += step
                }
            }
            for (index, path) in paths.enumerated() {
                guard unlink(path) == 0 else {
                    throw SupportError("document \(index) cannot be removed: \(Errno(errno))")
                }
            }
            filler.close()
            try call(unlink("\(disk.path)/filler"))
            try "new".write(
                toFile: "\(volume.path)/new", atomically: false, encoding: .utf8)
            try volume.waitForDisk()
        }
    }
}
