import CLinux
import Foundation
import Glibc
import Support
import Testing

/// Eviction of contents that the hub has: only of unused documents, and without notifications.
@Suite("eviction")
struct EvictionTests {
    private func kept(_ volume: OnDemandVolume, _ name: String, bytes count: Int) throws {
        var bytes = Data(count: count)
        bytes.withUnsafeMutableBytes { arc4random_buf($0.baseAddress!, count) }
        try bytes.write(to: URL(filePath: "\(volume.path)/\(name)"))
        try volume.order("keep", name)
    }

    @Test("contents that the hub does not have stay")
    func unsent() throws {
        try OnDemandVolume.with { volume in
            try "mine".write(toFile: "\(volume.path)/a", atomically: false, encoding: .utf8)
            #expect(try volume.tell("evict", "a").hasPrefix("error refused"))
            try volume.order("keep", "a")
            try "newer".write(toFile: "\(volume.path)/a", atomically: false, encoding: .utf8)
            #expect(try volume.tell("evict", "a").hasPrefix("error refused"))
            #expect(try volume.read("a") == Data("newer".utf8))
        }
    }

    @Test(
        "a document that a program uses stays",
        arguments: ["rb", "r+b", "map", "map+", "link", "pinned", "parent"])
    func used(how: String) throws {
        try OnDemandVolume.with { volume in
            try kept(volume, "a", bytes: 100_000)
            let file = "\(volume.path)/a"
            let script = """
                import sys, mmap
                f = open("\(file)", "\(how == "rb" || how == "map" ? "rb" : "r+b")")
                if "\(how)".startswith("map"):
                    m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ | \
                (mmap.PROT_WRITE if "+" in "\(how)" else 0))
                    f.close()
                open("\(volume.store)/../up", "w")
                sys.stdin.read()
                """
            let program: ChildProcess?
            var ends: [Int32] = [0, 0]
            #expect(cl_pipe(&ends) == 0)
            defer { close(ends[0]) }
            switch how {
            case "link":
                program = nil
                try Command("ln", file, "\(file)2").succeed()
            case "pinned":
                program = nil
                try volume.order("pin", "a")
            case "parent":
                program = nil
                try volume.order("pin", "/")
            default:
                program = try ChildProcess(
                    "python3", ["-c", script], input: ends[0], output: ends[0], errors: ends[0])
                try wait(for: "python to open it") {
                    FileManager.default.fileExists(atPath: "\(volume.store)/../up") ? true : nil
                }
            }
            let answer = try volume.tell("evict", "a")
            #expect(answer.hasPrefix("error busy") || answer.hasPrefix("error refused"))
            #expect(try volume.order("dataless", "a") == "false")
            close(ends[1])
            _ = try program?.waitForEnd(seconds: 10)
            if how == "link" { try Command("rm", "\(file)2").succeed() }
            if how == "pinned" { try volume.order("unpin", "a") }
            if how == "parent" { try volume.order("unpin", "a") }
            _ = try volume.order("keep", "a")
            #expect(try volume.order("evict", "a").hasPrefix("1 "))
        }
    }

    @Test("a document whose bytes were here when it was opened last is fetched when it is opened")
    func openedBefore() throws {
        try OnDemandVolume.with { volume in
            try kept(volume, "a", bytes: 100_000)
            // From then on it is remembered that the bytes are here.
            try wait(for: "a change time in the past") { () -> Bool? in
                var status = stat()
                guard stat("\(volume.store)/tree/a", &status) == 0 else { return nil }
                return status.st_ctim.tv_sec + 3 < time(nil) ? true : nil
            }
            let bytes = try volume.read("a")
            #expect(try volume.read("a") == bytes)
            // The kernel reports closes a little later.
            try wait(for: "the eviction") {
                try volume.tell("evict", "a").hasPrefix("ok 1 ") ? true : nil
            }
            #expect(try volume.order("dataless", "a") == "true")
            #expect(try volume.read("a") == bytes)
        }
    }

    @Test("watchers are not notified")
    func silence() throws {
        try OnDemandVolume.with { volume in
            try kept(volume, "a", bytes: 3 << 20)
            let watch = inotify_init1(O_CLOEXEC | O_NONBLOCK)
            defer { close(watch) }
            let all: UInt32 = 0xfce  // All but opening, reading and closing what was read.
            #expect(inotify_add_watch(watch, volume.path, all) >= 0)
            #expect(inotify_add_watch(watch, "\(volume.path)/a", all) >= 0)
            let before = try Command("stat", "-c", "%y %z %s %b %i", "\(volume.path)/a").succeed()
            try volume.order("evict", "a")
            _ = try volume.read("a")
            try volume.order("hydrate", "a")
            var buffer = [UInt8](repeating: 0, count: 4096)
            #expect(read(watch, &buffer, buffer.count) == -1 && errno == EAGAIN)
            let after = try Command("stat", "-c", "%y %z %s %b %i", "\(volume.path)/a").succeed()
            #expect(before == after)
        }
    }

    @Test("eviction and download again and again, with readers and writers all the time")
    func races() throws {
        try OnDemandVolume.with { volume in
            for number in 0..<4 { try kept(volume, "\(number)", bytes: 300_000) }
            // Each writer replaces the contents by a repetition of one letter; a reader must never
            // see anything else.
            let script = """
                import os, random, sys, time
                end = time.time() + 6
                random.seed(1)
                while time.time() < end:
                    name = "\(volume.path)/%d" % random.randrange(4)
                    way = random.randrange(5)
                    time.sleep(0.03)
                    if way == 0:
                        f = open(name, "r+b"); b = f.read(1); f.seek(0)
                        f.write(random.choice(b"abcdef").to_bytes(1, "big") * 300000); f.close()
                    elif way == 1:
                        f = open(name + ".tmp", "wb"); f.write(b"z" * 300000); f.close()
                        os.rename(name + ".tmp", name)
                    elif way == 4:
                        for size in 200000, 100000:
                            os.truncate(name, size)
                            f = open(name, "rb"); b = f.read(); f.close()
                            assert len(b) == size, len(b)
                            assert b.count(0) < 3000, "zeros after truncation"
                        os.truncate(name, 0)
                        f = open(name, "wb"); f.write(b"y" * 300000); f.close()
                    else:
                        f = open(name, "rb"); b = f.read(); f.close()
                        assert len(b) == 300000, len(b)
                        assert way == 2 or b.count(0) < 3000, "zeros"
                """
            let null = open("/dev/null", O_RDWR | O_CLOEXEC)
            let said = open(
                "\(volume.store)/../python", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
            defer {
                close(null)
                close(said)
            }
            let python = try ChildProcess(
                "python3", ["-c", script], input: null, output: said, errors: said)
            var evicted = 0
            while !python.hasEnded() {
                for number in 0..<4 {
                    if try volume.tell("keep", "\(number)").hasPrefix("ok"),
                        try volume.tell("evict", "\(number)").hasPrefix("ok 1")
                    {
                        evicted += 1
                    }
                }
            }
            let text = try String(contentsOfFile: "\(volume.store)/../python", encoding: .utf8)
            #expect(try python.waitForEnd(seconds: 5) == 0, "\(text)")
            #expect(evicted > 0)
            for number in 0..<4 { try volume.order("hydrate", "\(number)") }
            #expect(try volume.order("doctor") == "")
        }
    }

    @Test("a directory is evicted and downloaded again")
    func folder() throws {
        try OnDemandVolume.with { volume in
            try Command("mkdir", "\(volume.path)/d").succeed()
            for number in 0..<30 { try kept(volume, "d/\(number)", bytes: 10_000) }
            #expect(try volume.order("evict", "d") == "30 300000 0")
            #expect(try volume.order("evict", "d") == "0 0 0")
            #expect(try volume.order("hydrate", "d") == "30 300000")
            #expect(try volume.order("hydrate", "d") == "0 0")
            #expect(try volume.order("doctor") == "")
        }
    }

    @Test("above the limit, the least recently used documents are evicted")
    func limit() throws {
        try OnDemandVolume.with("cache=100000") { volume in
            for number in 0..<5 { try kept(volume, "\(number)", bytes: 40_000) }
            for number in [1, 2, 3, 4, 0] {
                let file = "\(volume.path)/\(number)"
                let time = "2001-01-01 00:00:1\((number + 4) % 5)"
                try Command("touch", "-d", time, file).succeed()
                try volume.order("keep", "\(number)")
            }
            try volume.order("excess")
            let gone = try (0..<5).filter { try volume.order("dataless", "\($0)") == "true" }
            #expect(gone == [1, 2, 3])
            #expect(try volume.order("excess") == "0")
        }
    }

    @Test("an eviction that is interrupted by kill -9 at any moment leaves correct contents")
    func killed() throws {
        let volume = try OnDemandVolume()
        defer { volume.cleanUp() }
        try Command("mkdir", "\(volume.path)/d").succeed()
        var sums: [String: Data] = [:]
        for number in 0..<40 {
            try kept(volume, "d/\(number)", bytes: 50_000)
            sums["d/\(number)"] = try volume.read("d/\(number)")
        }
        for round in 1...4 {
            volume.begin("evict", "d")
            usleep(useconds_t(round * 5_000))
            try volume.kill9()
            try volume.mount()
            for (name, bytes) in sums { #expect(try volume.read(name) == bytes) }
            try volume.order("hydrate", "d")
            #expect(try volume.order("doctor") == "")
        }
        try volume.unmount()
    }
}
