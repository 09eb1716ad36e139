import CLinux
import Foundation
import Glibc
import Support
import Testing

/// Changes of documents whose bytes are at the hub, and kills during downloads.
@Suite("writing on demand")
struct OnDemandWritingTests {
    private static let large = 3 << 20

    private func python(_ script: String) throws {
        try Command("python3", "-c", script).succeed()
    }

    @Test(
        "a program that writes in place gets all bytes first", arguments: [1000, large],
        DataPath.allCases)
    func inPlace(size: Int, way: DataPath) throws {
        try OnDemandVolume.with(way.rawValue) { volume in
            var bytes = try volume.absent("a.bin", bytes: size)
            try python(
                "f = open('\(volume.path)/a.bin', 'r+b'); f.seek(500); f.write(b'new'); f.close()")
            bytes.replaceSubrange(500..<503, with: Data("new".utf8))
            #expect(try volume.read("a.bin") == bytes)
            try volume.order("keep", "a.bin")
            let versions = try FileManager.default.contentsOfDirectory(
                atPath: "\(volume.path)/.versions/a.bin")
            #expect(versions.count == 2)
            #expect(try volume.order("doctor") == "")
        }
    }

    @Test("a program that appends or maps gets all bytes first")
    func appendAndMap() throws {
        try OnDemandVolume.with { volume in
            let bytes = try volume.absent("a.bin", bytes: Self.large)
            let first = bytes.prefix(10).map { String($0) }.joined(separator: ",")
            try python(
                """
                import mmap
                f = open('\(volume.path)/a.bin', 'r+b')
                m = mmap.mmap(f.fileno(), 0)
                assert m[0:10] == bytes([\(first)])
                m[0:3] = b'new'
                m.close(); f.close()
                open('\(volume.path)/a.bin', 'ab').write(b'end')
                """)
            #expect(
                try volume.read("a.bin") == Data("new".utf8) + bytes.dropFirst(3)
                    + Data("end".utf8))
        }
    }

    @Test("a document that is replaced as a whole is not downloaded", arguments: [1000, large])
    func replaced(size: Int) throws {
        try OnDemandVolume.with { volume in
            let bytes = try volume.absent("a.bin", bytes: size)
            try volume.set("offline")
            let file = "\(volume.path)/a.bin"
            try Command("sh", "-c", "echo one > \(file)").succeed()
            #expect(try volume.read("a.bin") == Data("one\n".utf8))
            try Command("sh", "-c", "echo two > \(file).tmp && mv \(file).tmp \(file)").succeed()
            #expect(try volume.read("a.bin") == Data("two\n".utf8))
            #expect(volume.asked.isEmpty)
            #expect(try volume.order("dataless", "a.bin") == "false")
            // The first version is still at the hub.
            try volume.set("offline", nil)
            let directory = "\(volume.path)/.versions/a.bin"
            let versions = try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
            #expect(versions.count == 3)
            let first = try Data(contentsOf: URL(filePath: "\(directory)/\(versions[0])"))
            #expect(first == bytes)
            #expect(try volume.order("doctor") == "")
        }
    }

    @Test("truncation to 0 needs no bytes, to another size all of them")
    func truncation() throws {
        try OnDemandVolume.with { volume in
            let bytes = try volume.absent("a.bin", bytes: Self.large)
            try Command("truncate", "-s", "1000", "\(volume.path)/a.bin").succeed()
            #expect(try volume.read("a.bin") == bytes.prefix(1000))
            try volume.absent("b.bin", bytes: Self.large)
            try volume.set("offline")
            #expect(
                try Command("truncate", "-s", "1000", "\(volume.path)/b.bin").run().errors
                    .contains("unreachable"))
            try python("import os; os.truncate('\(volume.path)/b.bin', 0)")
            #expect(volume.asked.filter { $0.hasPrefix("chunk ") }.isEmpty)
            #expect(try volume.read("b.bin").isEmpty)
            try Command("truncate", "-s", "10", "\(volume.path)/b.bin").succeed()
            #expect(try volume.read("b.bin") == Data(count: 10))
            #expect(try volume.order("doctor") == "")
        }
    }

    @Test("times and permissions of a placeholder can be set")
    func attributes() throws {
        try OnDemandVolume.with { volume in
            let bytes = try volume.absent("a.bin", bytes: Self.large)
            let file = "\(volume.path)/a.bin"
            try volume.set("offline")
            try Command("touch", "-d", "2001-02-03 04:05:06", file).succeed()
            try Command("chmod", "640", file).succeed()
            try volume.set("offline", nil)
            #expect(try volume.read("a.bin") == bytes)
            try volume.order("hydrate", "a.bin")
            #expect(
                try Command("stat", "-c", "%y %a", file).succeed().hasPrefix("2001-02-03 04:05:06"))
            #expect(try Command("stat", "-c", "%a", file).succeed() == "640\n")
            #expect(try volume.read("a.bin") == bytes)
            #expect(
                try FileManager.default.contentsOfDirectory(
                    atPath: "\(volume.path)/.versions/a.bin"
                ).count == 1)
        }
    }

    @Test(
        "a handle goes on reading the version that it opened", arguments: ["mv", "rm", "empty"],
        DataPath.allCases)
    func displaced(how: String, way: DataPath) throws {
        try OnDemandVolume.with(way.rawValue) { volume in
            let bytes = try volume.absent("a.bin", bytes: Self.large)
            let file = "\(volume.path)/a.bin"
            let handle = try FileHandle(forReadingFrom: URL(filePath: file))
            var read = try handle.read(upToCount: 1000) ?? Data()
            switch how {
            case "mv":
                try Command(
                    "sh", "-c",
                    "head -c \(Self.large) /dev/zero > \(file).new; mv \(file).new \(file)"
                ).succeed()
            case "rm": try Command("rm", file).succeed()
            default: try Command("sh", "-c", ": > \(file)").succeed()
            }
            read += try handle.readToEnd() ?? Data()
            try handle.close()
            if how == "empty" {
                #expect(read.count < bytes.count && bytes.starts(with: read))
            } else {
                #expect(read == bytes)
            }
            #expect(try volume.order("doctor") == "")
        }
    }

    @Test("links to a placeholder read the same contents")
    func links() throws {
        try OnDemandVolume.with { volume in
            let bytes = try volume.absent("a.bin", bytes: 50_000)
            try Command("ln", "\(volume.path)/a.bin", "\(volume.path)/b.bin").succeed()
            try Command("rm", "\(volume.path)/a.bin").succeed()
            #expect(try volume.read("b.bin") == bytes)
            try volume.order("keep", "b.bin")
            #expect(try volume.order("doctor") == "")
        }
    }

    @Test("kill -9 during a download: a partly filled file does not count as complete")
    func killed() throws {
        let volume = try OnDemandVolume()
        defer { volume.cleanUp() }
        let bytes = try volume.absent("a.bin", bytes: 12 << 20)
        let file = "\(volume.path)/a.bin"
        let before = try Command("stat", "-c", "%y %s", file).succeed()
        try volume.set("delay", "30")
        let null = open("/dev/null", O_RDWR | O_CLOEXEC)
        defer { close(null) }
        let cat = try ChildProcess("cat", [file], input: null, output: null, errors: null)
        // The last of them may be given and not stored yet.
        try wait(for: "many bytes") { volume.given > 2 << 20 ? true : nil }
        try volume.kill9()
        cat.killGroup()
        try volume.set("delay", nil)
        let given = volume.given
        try volume.set("offline")
        try volume.mount()
        // Attributes are shown without asking the hub.
        #expect(try Command("stat", "-c", "%y %s", file).succeed() == before)
        #expect(try volume.order("dataless", "a.bin") == "true")
        #expect(try volume.order("doctor") == "")
        #expect(try Command("cat", file).run().status == 1)
        try volume.set("offline", nil)
        try volume.forgetLog()
        #expect(try volume.read("a.bin") == bytes)
        // Bytes that had arrived are not fetched again.
        #expect(volume.given <= bytes.count - given / 2)
        #expect(try Command("stat", "-c", "%y %s", file).succeed() == before)
        try volume.order("hydrate", "a.bin")
        #expect(try volume.order("dataless", "a.bin") == "false")
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: "\(volume.path)/.versions/a.bin")
                .count == 1)
        try volume.unmount()
    }

    @Test("a complete document can be read right after a start, whatever the hub answers")
    func restart() throws {
        try OnDemandVolume.with { volume in
            let bytes = try volume.absent("a.bin", bytes: 100_000)
            try volume.order("hydrate", "a.bin")
            try volume.unmount()
            try volume.set("offline")
            try volume.mount()
            #expect(try volume.read("a.bin") == bytes)
            #expect(try volume.order("dataless", "a.bin") == "false")
        }
    }
}
