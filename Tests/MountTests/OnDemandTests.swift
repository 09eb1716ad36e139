import CLinux
import Foundation
import Glibc
import Support
import Testing

/// Documents whose bytes are at the hub: what programs see of them, on a real mount.
@Suite("contents on demand")
struct OnDemandTests {
    private static let large = 3 << 20

    private func status(_ path: String) throws -> stat {
        var status = stat()
        guard lstat(path, &status) == 0 else { throw SupportError("\(path): \(errno)") }
        return status
    }

    @Test(
        "reading fetches the bytes, whatever the size", arguments: [1, 4096, 200_000, large],
        DataPath.allCases)
    func read(size: Int, way: DataPath) throws {
        try OnDemandVolume.with(way.rawValue) { volume in
            let bytes = try volume.absent("a.bin", bytes: size)
            let before = try status("\(volume.path)/a.bin")
            #expect(try volume.read("a.bin") == bytes)
            let after = try status("\(volume.path)/a.bin")
            #expect(after.st_mtim.tv_nsec == before.st_mtim.tv_nsec)
            #expect(after.st_mtim.tv_sec == before.st_mtim.tv_sec)
            #expect(after.st_ino == before.st_ino)
            try volume.order("hydrate", "a.bin")
            #expect(try volume.order("dataless", "a.bin") == "false")
            try volume.forgetLog()
            #expect(try volume.read("a.bin") == bytes)
            #expect(volume.asked.isEmpty)
            #expect(try volume.order("doctor") == "")
        }
    }

    @Test("a list of chunks that was never fetched is fetched once")
    func unlisted() throws {
        try OnDemandVolume.with { volume in
            let bytes = try volume.absent("a.bin", bytes: 100_000)
            try volume.order("unlist", "a.bin")
            #expect(try volume.order("doctor") == "")
            #expect(try volume.read("a.bin") == bytes)
            #expect(volume.asked.filter { $0.hasPrefix("manifest") }.count == 1)
            #expect(try volume.order("doctor") == "")
        }
    }

    @Test(
        "programs that look for holes before copying get data or fail", arguments: ["tar", "cp"])
    func sparseCopies(by program: String) throws {
        try OnDemandVolume.with { volume in
            let copy = try TemporaryDirectory("copy")
            let bytes = try volume.absent("a.bin", bytes: 100_000)
            let script =
                program == "tar"
                ? "tar -cSf \(copy.path)/t a.bin && tar -xSf \(copy.path)/t -C \(copy.path)"
                : "cp --sparse=always a.bin \(copy.path)/a.bin"
            var command = Command("/bin/sh", "-c", script)
            command.directory = volume.path
            try volume.set("offline")
            #expect(try command.run().status != 0)
            try volume.set("offline", nil)
            try command.succeed()
            #expect(try Data(contentsOf: URL(filePath: "\(copy.path)/a.bin")) == bytes)
        }
    }

    @Test("looking never asks the hub, and shows a file of its size that takes no space")
    func looking() throws {
        try OnDemandVolume.with { volume in
            try volume.absent("a.bin", bytes: 100_000)
            try volume.set("offline")
            let file = "\(volume.path)/a.bin"
            let status = try status(file)
            let taken = max(1, try self.status("\(volume.store)/tree/a.bin").st_blocks)
            #expect(status.st_size == 100_000 && status.st_blocks == taken && taken <= 16)
            let du = try Command("du", "-k", file).succeed()
            #expect(Int(du.prefix { $0.isNumber })! == (taken + 1) / 2)
            try Command("ls", "-lR", volume.path).succeed()
            try Command("stat", "-f", file).succeed()
            let state = try Command("getfattr", "-n", "user.concord.state", file).succeed()
            #expect(state.contains("dataless"))
            let durability = try Command("getfattr", "-n", "user.concord.durability", file)
                .succeed()
            #expect(durability.contains("hub"))
            #expect(try Command("getfattr", "-d", file).succeed() == "")
            #expect(
                try Command("setfattr", "-n", "user.concord.absent", "-v", "x", file).run().status
                    != 0)
            try Command("mv", file, "\(volume.path)/b.bin").succeed()
            #expect(volume.asked.isEmpty)
            try Command("rm", "\(volume.path)/b.bin").succeed()
            #expect(volume.asked.isEmpty)
            #expect(try volume.order("doctor") == "")
        }
    }

    @Test("an unreachable hub is reported at once", arguments: [1000, large])
    func offline(size: Int) throws {
        try OnDemandVolume.with { volume in
            let bytes = try volume.absent("a.bin", bytes: size)
            try volume.set("offline")
            let result = try Command("cat", "\(volume.path)/a.bin").run()
            #expect(result.status == 1)
            #expect(result.errors.contains("Network is unreachable"))
            try volume.set("offline", nil)
            #expect(try volume.read("a.bin") == bytes)
        }
    }

    @Test("a hub that has lost the version: EIO, and the document stays")
    func forgotten() throws {
        try OnDemandVolume.with { volume in
            try volume.absent("a.bin", bytes: 1000)
            try volume.order("unlist", "a.bin")
            try Command("mv", "\(volume.hub)/manifests", "\(volume.hub)/away").succeed()
            let result = try Command("cat", "\(volume.path)/a.bin").run()
            #expect(result.errors.contains("Input/output error"))
            try Command("mv", "\(volume.hub)/away", "\(volume.hub)/manifests").succeed()
            #expect(try volume.read("a.bin").count == 1000)
        }
    }

    @Test("the wait for a hub that does not answer is bounded", arguments: [1000, large])
    func timeout(size: Int) throws {
        try OnDemandVolume.with("timeout=0.3") { volume in
            let bytes = try volume.absent("a.bin", bytes: size)
            try volume.set("hold")
            let result = try Command("cat", "\(volume.path)/a.bin").run()
            #expect(result.errors.contains("timed out"))
            try volume.set("hold", nil)
            #expect(try volume.read("a.bin") == bytes)
        }
    }

    @Test("a signal ends the wait", arguments: [1000, large])
    func interrupt(size: Int) throws {
        try OnDemandVolume.with { volume in
            let bytes = try volume.absent("a.bin", bytes: size)
            try volume.set("hold")
            let null = open("/dev/null", O_RDWR | O_CLOEXEC)
            defer { close(null) }
            let cat = try ChildProcess(
                "cat", ["\(volume.path)/a.bin"], input: null, output: null, errors: null)
            try wait(for: "the hub to be asked") { volume.asked.isEmpty ? nil : true }
            cat.send(SIGTERM)
            #expect(try cat.waitForEnd(seconds: 10) == 128 + SIGTERM)
            // Other requests are served meanwhile.
            try "here".write(toFile: "\(volume.path)/b", atomically: false, encoding: .utf8)
            try volume.set("hold", nil)
            #expect(try volume.read("a.bin") == bytes)
        }
    }

    @Test(
        "bytes from the hub are verified",
        arguments: ["short", "long", "empty", "other", "missing", "cut"])
    func spoilt(how: String) throws {
        try OnDemandVolume.with { volume in
            let bytes = try volume.absent("a.bin", bytes: Self.large)
            try volume.set("spoil", how)
            let result = try Command("cat", "\(volume.path)/a.bin").run()
            #expect(result.status == 1)
            // Bytes that arrived before the failure are correct.
            #expect(bytes.starts(with: result.outputData))
            #expect(try volume.order("dataless", "a.bin") == "true")
            try volume.set("spoil", nil)
            #expect(try volume.read("a.bin") == bytes)
            #expect(try volume.order("doctor") == "")
        }
    }

    @Test("two readers share what is fetched")
    func twoReaders() throws {
        try OnDemandVolume.with { volume in
            let bytes = try volume.absent("a.bin", bytes: Self.large)
            try volume.set("delay", "20")
            let script =
                "for i in 1 2 3; do cmp \(volume.path)/a.bin \(volume.store)/../a & done; wait"
            try bytes.write(to: URL(filePath: "\(volume.store)/../a"))
            #expect(try Command("sh", "-c", script).succeed() == "")
            #expect(volume.given == bytes.count)
        }
    }

    @Test("only the first bytes of a huge document are fetched")
    func huge() throws {
        try OnDemandVolume.with { volume in
            try volume.order("place", "huge.bin", "2560", "8")
            let file = "\(volume.path)/huge.bin"
            let status = try status(file)
            #expect(status.st_size == 2560 * (4 << 20))
            #expect(status.st_mtim.tv_sec == 1_700_000_000)
            #expect(status.st_mtim.tv_nsec == 123_456_789)
            let head = try Command("head", "-c", "1M", file).run()
            #expect(head.status == 0 && head.outputData.count == 1 << 20)
            #expect(volume.given <= 16 << 20)
            let used = try Command("du", "-k", "\(volume.store)/tree/huge.bin").succeed()
            #expect(Int(used.prefix { $0.isNumber })! <= 20 << 10)
            // The fetched part can be evicted.
            #expect(try volume.order("evict", "/").hasPrefix("1 "))
            #expect(
                try Command("du", "-k", "\(volume.store)/tree/huge.bin").succeed()
                    .hasPrefix("0"))
            #expect(try volume.order("evict", "huge.bin") == "0 0 0")
            #expect(
                try Command("head", "-c", "1M", file).run().outputData == head.outputData)
            try Command("rm", file).succeed()
        }
    }

    @Test("programs that look for holes find none", arguments: [100_000, large])
    func holes(size: Int) throws {
        try OnDemandVolume.with { volume in
            let bytes = try volume.absent("a.bin", bytes: size)
            let copies = "\(volume.store)/../copies"
            let script = """
                mkdir \(copies); cd \(volume.path)
                tar -S -cf \(copies)/a.tar a.bin && tar -xOf \(copies)/a.tar > \(copies)/tar
                """
            try Command("sh", "-c", script).succeed()
            #expect(try Data(contentsOf: URL(filePath: "\(copies)/tar")) == bytes)
            try volume.order("hydrate", "a.bin")
            try volume.order("evict", "a.bin")
            try Command(
                "cp", "--sparse=always", "\(volume.path)/a.bin", "\(copies)/cp"
            ).succeed()
            #expect(try Data(contentsOf: URL(filePath: "\(copies)/cp")) == bytes)
        }
    }

    @Test(
        "mmap, sendfile and copy_file_range get the bytes", arguments: [100_000, large],
        DataPath.allCases)
    func otherWays(size: Int, way: DataPath) throws {
        try OnDemandVolume.with(way.rawValue) { volume in
            let bytes = try volume.absent("a.bin", bytes: size)
            let copy = "\(volume.store)/../copy"
            let ways = [
                "m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); o.write(m[:])",
                """
                n = 0
                while n < size: n += os.sendfile(o.fileno(), f.fileno(), n, size - n)
                """,
                """
                n = 0
                while n < size: n += os.copy_file_range(f.fileno(), o.fileno(), size - n)
                """,
            ]
            for (number, way) in ways.enumerated() {
                let target = number == 2 ? "\(volume.path)/copy" : copy
                let script = """
                    import os, mmap, sys
                    size = \(size)
                    f = open("\(volume.path)/a.bin", "rb")
                    o = open("\(target)", "wb")
                    \(way)
                    """
                try Command("python3", "-c", script).succeed()
                #expect(try Data(contentsOf: URL(filePath: target)) == bytes)
                try volume.order("hydrate", "a.bin")
                try volume.order("evict", "a.bin")
            }
        }
    }

    @Test("a program whose file is at the hub runs")
    func execute() throws {
        try OnDemandVolume.with { volume in
            let file = "\(volume.path)/program"
            try Command("cp", "/bin/ls", file).succeed()
            try volume.order("keep", "program")
            try volume.order("evict", "program")
            #expect(try Command(file, "-d", "/").succeed() == "/\n")
            try volume.order("hydrate", "program")
            try volume.order("evict", "program")
        }
    }

    @Test("programs that open every file are refused")
    func noDownloadPrograms() throws {
        try OnDemandVolume.with { volume in
            try volume.absent("a.bin", bytes: 1000)
            let program = "\(volume.store)/../tumblerd"
            try Command("cp", "/bin/cat", program).succeed()
            let result = try Command(program, "\(volume.path)/a.bin").run()
            #expect(result.errors.contains("Permission denied"))
            #expect(volume.asked.isEmpty)
            try volume.order("hydrate", "a.bin")
            #expect(try Command(program, "\(volume.path)/a.bin").run().status == 0)
        }
    }

    @Test("a file manager that only looks at the first bytes is refused")
    func sniffing() throws {
        try OnDemandVolume.with { volume in
            try volume.absent("plain", bytes: 1000)
            let program = "\(volume.store)/../nemo"
            try Command("cp", "/bin/dd", program).succeed()
            let input = "if=\(volume.path)/plain"
            let result = try Command(program, input, "iflag=noatime", "of=/dev/null").run()
            #expect(result.errors.contains("Permission denied"))
            #expect(volume.asked.isEmpty)
            // It copies a file without that flag.
            #expect(try Command(program, input, "of=/dev/null").run().status == 0)
        }
    }

    @Test("an old version that the hub has is read although its pack here is damaged")
    func damagedPack() throws {
        try OnDemandVolume.with { volume in
            let (file, versions) = ("\(volume.path)/a", "\(volume.path)/.versions/a")
            var contents: [Data] = []
            for _ in 0..<2 {
                var bytes = Data(count: 100_000)
                bytes.withUnsafeMutableBytes { arc4random_buf($0.baseAddress!, 100_000) }
                try bytes.write(to: URL(filePath: file))
                try volume.order("keep", "a")
                contents.append(bytes)
            }
            try volume.unmount()
            let chunks = "\(volume.store)/chunks"
            let packs = try FileManager.default.contentsOfDirectory(atPath: chunks)
                .filter { $0.hasSuffix(".pack") }
            #expect(!packs.isEmpty)
            for pack in packs {
                let disk = try OpenFile("\(chunks)/\(pack)", O_RDWR)
                let size = Int(try disk.status().size)
                // The first bytes say what the file is.
                try disk.write([UInt8](repeating: 0xAA, count: max(0, size - 4096)), at: 4096)
                disk.close()
            }
            try volume.mount()
            try volume.forgetLog()
            let names = try FileManager.default.contentsOfDirectory(atPath: versions).sorted()
            #expect(names.count == 2)
            #expect(try Data(contentsOf: URL(filePath: "\(versions)/\(names[0])")) == contents[0])
            #expect(volume.given > 0)
            #expect(try volume.read("a") == contents[1])
        }
    }
}
