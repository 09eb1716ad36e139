import Foundation
import Glibc
import Support
import Testing

/// Limits of the process and of file systems. Needs root.
@Suite("Limits", .serialized, .enabled(if: geteuid() == 0)) struct LimitTests {
    /// Lets children inherit a lower soft limit of open files while `body` runs.
    private func withSoftLimit(_ count: UInt, _ body: () throws -> Void) throws {
        var old = rlimit()
        try call(getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &old))
        var low = old
        low.rlim_cur = count
        try call(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &low))
        defer { _ = setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &old) }
        try body()
    }

    @Test(
        "the daemon raises its limit of open files, and 1,000 can be open",
        arguments: [DataPath.passthrough, .nopassthrough])
    func descriptors(path: DataPath) throws {
        try path.with { volume in
            try volume.unmount()
            try withSoftLimit(256) { try volume.mount() }
            let limits = try String(contentsOfFile: "/proc/\(volume.pid)/limits", encoding: .utf8)
            let line = try #require(
                limits.split(separator: "\n").first { $0.hasPrefix("Max open files") })
            let words = line.split(separator: " ")
            #expect(words[3] == words[4] && (Int(words[3]) ?? 0) >= 4096, "\(line)")
            let script = """
                import os
                files = [open("%d" % i, "w+") for i in range(1000)]
                for i, f in enumerate(files): f.write(str(i))
                for f in files: f.flush()
                for i, f in enumerate(files):
                    f.seek(0)
                    assert f.read() == str(i)
                """
            var command = Command("sh", "-c", "ulimit -Sn 2048; exec python3 -c '\(script)'")
            command.directory = volume.path
            try command.succeed()
        }
    }

    @Test("a truncation that fails leaves nothing to be recorded") func tooLarge() throws {
        try MountedVolume.with { volume in
            try Command("sh", "-c", "echo one > \(volume.path)/a").succeed()
            try volume.waitForDisk()
            #expect(truncate("\(volume.path)/a", 1 << 60) != 0 && errno == EFBIG)
            try volume.waitForDisk()
            let listing = try Programs.fsctl("versions", "\(volume.path)/a").succeed()
            #expect(listing.split(separator: "\n").count == 2, "\(listing)")
        }
    }

    private func expectLittleMemory(_ volume: MountedVolume) throws {
        let most = try volume.mostMemory
        #expect(most < 300 << 20, "\(most >> 20) MB")
    }

    @Test(
        "a huge sparse file takes no memory, and others are recorded",
        arguments: [
            (LoopDisk.Kind.xfs, "truncate -s 1P huge"),
            (.xfs, "truncate -s 7E huge; echo x | dd of=huge conv=notrunc bs=1 seek=1T 2>&1"),
            (.ext4, "truncate -s 40G huge; echo x | dd of=huge conv=notrunc bs=1M seek=20K 2>&1"),
            (.ext4, "truncate -s 40G huge; rm huge"),
        ])
    func sparse(kind: LoopDisk.Kind, script: String) throws {
        let disk = try LoopDisk(kind, megabytes: 400)
        try MountedVolume.with(store: "\(disk.path)/store") { volume in
            var command = Command("sh", "-ec", script)
            command.directory = volume.path
            try command.succeed()
            for number in 0..<5 {
                let path = "\(volume.path)/\(number)"
                try "text".write(toFile: path, atomically: false, encoding: .utf8)
                try Programs.fsctl("wait", "--durable", "disk", path).succeed()
            }
            try expectLittleMemory(volume)
            // It begins again after each mount.
            try volume.remount()
            let path = "\(volume.path)/later"
            try "text".write(toFile: path, atomically: false, encoding: .utf8)
            try Programs.fsctl("wait", "--durable", "disk", path).succeed()
            try expectLittleMemory(volume)
            _ = unlink("\(volume.path)/huge")
        }
    }
}
