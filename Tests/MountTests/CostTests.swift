import CLinux
import Foundation
import Glibc
import Support
import SystemCalls
import Testing

/// The requests that system calls cost. Some are sent by the kernel on every FUSE file system:
/// - The attributes of a changed directory are requested again (GETATTR) when it is next traversed;
///   those of a file when it is next examined after it was read or written.
/// - A name that is to be created or replaced is looked up again, whatever is cached of it.
/// - Before a program's first write to a file, `security.capability` is requested (GETXATTR).
@Suite("What system calls cost")
struct CostTests {
    @Test("looking: no requests once the attributes are cached")
    func looking() throws {
        try MountedVolume.with { volume in
            let meter = try CostMeter(volume)
            let file = "\(volume.path)/file"
            try touch(file)
            // The file's times have changed since it was created, and so have the directory's.
            _ = try FileStatus(of: file)
            #expect(try meter.requests { _ = try FileStatus(of: file) } == [:])
            #expect(try meter.requests { _ = access(file + "2", F_OK) } == ["LOOKUP": 1])
            #expect(try meter.requests { _ = access(file + "2", F_OK) } == [:])
            try call(symlink("file", "\(volume.path)/link"))
            _ = try FileStatus(of: "\(volume.path)/link")
            #expect(try meter.requests { try followLink(volume) } == ["READLINK": 1])
            #expect(try remembered(meter, "READLINK") { try followLink(volume) } == [:])
            #expect(
                try meter.requests { _ = access(volume.path + "/.versions", F_OK) } == ["LOOKUP": 1]
            )
        }
    }

    private func followLink(_ volume: MountedVolume) throws {
        try call(access("\(volume.path)/link", F_OK))
    }

    @Test("names: a lookup and the change itself; then the directory's attributes once")
    func names() throws {
        try MountedVolume.with { volume in
            let meter = try CostMeter(volume)
            let (a, b, d) = ("\(volume.path)/a", "\(volume.path)/b", "\(volume.path)/d")
            try touch(a)
            try expectCost(["LOOKUP": 1, "MKDIR": 1], meter, lookingAt: d) {
                try call(mkdir(d, 0o755))
            }
            try expectCost(["LOOKUP": 1, "RENAME": 1], meter, lookingAt: d) {
                try call(rename(a, b))
            }
            try touch(a)
            try expectCost(["LOOKUP": 1, "RENAME": 1, "FORGET": 1], meter, lookingAt: d) {
                try call(rename(a, b))
            }
            try expectCost(["LOOKUP": 1, "LINK": 1], meter, lookingAt: d) { try call(link(b, a)) }
            try expectCost(["UNLINK": 1], meter, lookingAt: d) { try call(unlink(a)) }
            try expectCost(["UNLINK": 1, "FORGET": 1], meter, lookingAt: d) { try call(unlink(b)) }
            try expectCost(["LOOKUP": 1, "SYMLINK": 1], meter, lookingAt: d) {
                try call(symlink("x", b))
            }
        }
    }

    /// Measures after the root's attributes were read, because each change in it makes them stale.
    private func expectCost(
        _ expected: [String: Int], _ meter: CostMeter, lookingAt path: String,
        _ body: () throws -> Void
    ) throws {
        _ = access(path, F_OK)
        try expectCost(expected, meter, body)
    }

    @Test("create, write and close: one request each, and those that the kernel adds")
    func creating() throws {
        try MountedVolume.with { volume in
            let meter = try CostMeter(volume)
            let bytes = [UInt8](repeating: 7, count: 1 << 20)
            var expected = ["LOOKUP": 1, "CREATE": 1, "GETXATTR": 1, "RELEASE": 1]
            for (name, flags) in [("a", O_WRONLY), ("b", O_RDWR)] {
                // A file that may be mapped for writing changes without the FUSE part of the kernel
                // noticing, so its attributes are requested at the end of the open.
                if flags == O_RDWR { expected["GETATTR", default: 0] += 1 }
                let cost = try meter.requests {
                    let file = try OpenFile.creating("\(volume.path)/\(name)", flags)
                    try file.write(bytes, at: 0)
                    try file.write(bytes, at: bytes.count)
                    file.close()
                }
                // The second file is created in a directory that has changed since its attributes
                // were read.
                #expect(cost == expected)
                expected["GETATTR"] = 1
            }
            let meanwhile = try meter.requests { usleep(1_000_000) }
            #expect(meanwhile == [:], "an idle mount is asked nothing")
        }
    }

    @Test("open and close: one request each; data, mapped or not: none")
    func opening() throws {
        try MountedVolume.with { volume in
            let path = "\(volume.path)/file"
            let new = try OpenFile.creating(path)
            try new.write([UInt8](repeating: 1, count: 1 << 20), at: 0)
            new.close()
            _ = try FileStatus(of: path)
            var meter = try CostMeter(volume)
            let read = {
                let file = try OpenFile(path, O_RDONLY)
                #expect(try file.bytes(1 << 20).count == 1 << 20)
                file.close()
            }
            try expectCost(["OPEN": 1, "RELEASE": 1], meter, read)
            try expectCost(["OPEN": 1, "RELEASE": 1], meter, read)
            try expectCost(["OPEN": 1, "RELEASE": 1, "GETXATTR": 1], meter) {
                try write(path, O_WRONLY)
            }
            try expectCost(["OPEN": 1, "RELEASE": 1], meter) {
                try write(path, O_WRONLY | O_TRUNC)
            }
            try expectCost(["OPEN": 1, "RELEASE": 1, "FSYNC": 1], meter) { try writeSynced(path) }
            try expectCost(["OPEN": 1, "RELEASE": 1], meter) { try writeMapped(path) }
            try remount(volume)
            meter = try CostMeter(volume)
            try expectCost(["LOOKUP": 1, "OPEN": 1, "RELEASE": 1], meter, read)
        }
    }

    private func expectCost(
        _ expected: [String: Int], _ meter: CostMeter, _ body: () throws -> Void
    ) throws {
        var cost = try meter.requests(body)
        // Attributes changed by a write are requested again, before or during this body, because
        // the release that ends the write may be served at any time.
        if cost["GETATTR"] == 1 { cost["GETATTR"] = nil }
        #expect(cost == expected)
    }

    private func write(_ path: String, _ flags: Int32) throws {
        let file = try OpenFile(path, flags)
        try file.write([UInt8](repeating: 2, count: 1 << 20), at: 0)
        file.close()
    }

    private func writeSynced(_ path: String) throws {
        let file = try OpenFile(path, O_WRONLY)
        try file.write("more", at: 0)
        try file.sync()
        file.close()
    }

    private func writeMapped(_ path: String) throws {
        let file = try OpenFile(path, O_RDWR)
        let map = try file.map(1 << 20)
        map.write("mapped", at: 500_000)
        map.flush()
        #expect(map.text(6, at: 500_000) == "mapped")
        file.close()
    }

    @Test("without passthrough: large requests, and data that was read is cached")
    func throughTheDaemon() throws {
        try MountedVolume.with(options: ["nopassthrough"]) { volume in
            let meter = try CostMeter(volume)
            let path = "\(volume.path)/file"
            let making = try meter.requests { try write(path, O_WRONLY | O_CREAT) }
            #expect(making["WRITE"] == 1, "1 MiB in one request")
            try remount(volume)
            let cold = try CostMeter(volume).requests {
                _ = try OpenFile(path, O_RDONLY).bytes(1 << 20)
            }
            #expect((1...8).contains(cold["READ"] ?? 0), "\(cold)")
            let warm = try remembered(CostMeter(volume), "READ") {
                _ = try OpenFile(path, O_RDONLY).bytes(1 << 20)
            }
            #expect(warm["READ"] == nil, "\(warm)")
            let writer = try OpenFile(path, O_RDWR)
            let written = try CostMeter(volume).requests {
                for number in 100..<200 {
                    try writer.write("\(number)", at: 5_000)
                    _ = try FileStatus(of: path)
                    let reader = try OpenFile(path, O_RDONLY)
                    #expect(try reader.bytes(3, at: 5_000) == Array("\(number)".utf8))
                    reader.close()
                }
            }
            writer.close()
            #expect(written["READ"] == nil, "a page is not dropped while a write is on its way")
            #expect(written["WRITE"] == 100)
        }
    }

    @Test("listing: a request for each page, not for each entry; none the second time")
    func listing() throws {
        try MountedVolume.with { volume in
            let count = 2_000
            let directory = "\(volume.path)/directory"
            try call(mkdir(directory, 0o755))
            for number in 0..<count { try touch("\(directory)/entry \(number)") }
            try remount(volume)
            var meter = try CostMeter(volume)
            let names = { _ = try FileManager.default.contentsOfDirectory(atPath: directory) }
            let cold = try meter.requests(names)
            #expect(cold.values.reduce(0, +) <= 4 + count / 500, "\(cold)")
            let warm = try remembered(meter, "READDIR", names)
            #expect(Set(warm.keys).isSubset(of: ["OPENDIR", "RELEASEDIR", "GETATTR"]), "\(warm)")
            #expect(warm.values.reduce(0, +) <= 3, "\(warm)")
            try remount(volume)
            meter = try CostMeter(volume)
            let long = {
                _ = try Command("ls", "-l", directory).succeed()
            }
            let looked = try meter.requests(long)
            // The kernel requests the access control list of each file once and caches it.
            let lists = try #require(looked["GETXATTR"])
            #expect(lists <= count + 3)
            #expect(looked.values.reduce(0, +) - lists <= 4 + count / 100, "\(looked)")
            let again = try remembered(meter, "READDIR", long)
            #expect(again.values.reduce(0, +) <= 7, "\(again)")
        }
    }

    /// The cost when no `request` is needed any more, if that happens. The kernel may drop cached
    /// pages at any time, and does so within a second where DAMON reclaims idle memory.
    private func remembered(
        _ meter: CostMeter, _ request: String, _ body: () throws -> Void
    ) throws -> [String: Int] {
        var cost = try meter.requests(body)
        for _ in 0..<5 where cost.keys.contains(where: { $0.hasPrefix(request) }) {
            cost = try meter.requests(body)
        }
        return cost
    }

    /// Mounts again and waits for the first scan, because its findings may drop cached data.
    private func remount(_ volume: MountedVolume) throws {
        try volume.remount()
        try volume.waitForDisk()
    }

    private func touch(_ path: String) throws {
        let file = try OpenFile(path, O_WRONLY | O_CREAT)
        file.close()
    }
}
