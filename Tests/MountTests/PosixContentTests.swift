import CLinux
import Foundation
import Glibc
import Support
import Synchronization
import SystemCalls
import Testing

/// Contents, sizes and times as on POSIX and Linux.
@Suite("POSIX: contents")
struct PosixContentTests {
    @Test("sparse files: holes are holes, found and kept", arguments: DataPath.allCases)
    func sparse(_ way: DataPath) throws {
        try way.with { volume in
            let path = "\(volume.path)/sparse.img"
            let file = try OpenFile.creating(path)
            try file.write("x", at: 1 << 20)
            let data = try file.seek(0, SEEK_DATA)
            #expect(data > 0 && data <= 1 << 20)
            #expect(try file.seek(0, SEEK_HOLE) == 0)
            #expect(try file.seek(data, SEEK_HOLE) > 1 << 20)
            let beyond = refusal { () throws(Errno) in _ = try file.seek(1 << 21, SEEK_DATA) }
            #expect(beyond == Errno(ENXIO))
            #expect(try file.status().allocated < 1 << 17)
            try file.allocate(1, 0, 1 << 21)  // FALLOC_FL_KEEP_SIZE
            let kept = try file.status()
            #expect(kept.size == 1 << 20 + 1 && kept.allocated >= 1 << 21)
            try file.allocate(0, 0, 1 << 21)
            #expect(try file.status().size == 1 << 21)
            try file.allocate(3, 1 << 20, 4096)  // FALLOC_FL_PUNCH_HOLE | KEEP_SIZE
            #expect(try file.bytes(1, at: 1 << 20) == [0])
            try file.write("abcd", at: 0)
            try file.allocate(0x10, 1, 2)  // FALLOC_FL_ZERO_RANGE
            #expect(try file.bytes(4) == [97, 0, 0, 100])
            #expect(try FileStatus(of: path).size == 1 << 21)
        }
    }

    @Test("copy_file_range copies inside the kernel or the daemon", arguments: DataPath.allCases)
    func copying(_ way: DataPath) throws {
        try way.with { volume in
            var random = SeededRandom(seed: 5)
            let bytes = (0..<300_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            let source = try OpenFile.creating("\(volume.path)/source")
            let target = try OpenFile.creating("\(volume.path)/target")
            try source.write(bytes, at: 0)
            var done: Int64 = 0
            while done < 200_000 {
                let moved = try check(
                    cl_copy_file_range(
                        source.descriptor, 1_000 + done, target.descriptor, 7 + done,
                        Int(200_000 - done)))
                try #require(moved > 0)
                done += moved
            }
            #expect(try target.bytes(400_000) == [0, 0, 0, 0, 0, 0, 0] + bytes[1_000..<201_000])
            #expect(try FileStatus(of: "\(volume.path)/target").size == 200_007)
        }
    }

    @Test("times have nanoseconds and stay as they were set", arguments: DataPath.allCases)
    func times(_ way: DataPath) throws {
        try way.with { volume in
            let path = "\(volume.path)/dated"
            let file = try OpenFile.creating(path)
            try file.write("x")
            for (seconds, nanoseconds) in [(-86_400, 1), (1, 999_999_999), (4_300_000_000, 5)] {
                let set = timespec(tv_sec: seconds, tv_nsec: nanoseconds)
                try call(utimensat(AT_FDCWD, path, [set, set], 0))
                let wanted = seconds * 1_000_000_000 + nanoseconds
                #expect(try FileStatus(of: path).modified == wanted)
                #expect(try file.status().modified == wanted)
            }
            file.close()
            try volume.remount()
            #expect(try FileStatus(of: path).modified == 4_300_000_000_000_000_005)
            let before = try FileStatus(of: path)
            try call(chmod(path, 0o600))
            let after = try FileStatus(of: path)
            #expect(after.modified == before.modified && after.changed > before.changed)
            let link = "\(volume.path)/link"
            try call(symlink("dated", link))
            let set = timespec(tv_sec: 77, tv_nsec: 7)
            try call(utimensat(AT_FDCWD, link, [set, set], AT_SYMLINK_NOFOLLOW))
            #expect(try FileStatus(of: link).modified == 77_000_000_007)
            #expect(try FileStatus(of: path).modified == after.modified)
        }
    }

    @Test("a shared mapping writes after close, is seen by readers, and moves the times")
    func mapping() throws {
        for way in DataPath.allCases {
            try way.with { volume in
                let path = "\(volume.path)/mapped.bin"
                let file = try OpenFile.creating(path)
                try file.write([UInt8](repeating: 48, count: 8_192), at: 0)
                let map = try file.map(8_192)
                file.close()
                usleep(20_000)
                let before = try FileStatus(of: path).modified
                usleep(20_000)
                map.write("after the close", at: 5_000)
                map.flush()
                #expect(try FileStatus(of: path).modified > before, "\(way)")
                #expect(try OpenFile(path, O_RDONLY).text(15, at: 5_000) == "after the close")
                let reading = try OpenFile(path, O_RDONLY).map(8_192, PROT_READ)
                #expect(reading.text(15, at: 5_000) == "after the close")
                let writer = try OpenFile(path, O_WRONLY)
                try writer.write("written beside", at: 100)
                #expect(map.text(14, at: 100) == "written beside", "\(way)")
                #expect(reading.text(14, at: 100) == "written beside", "\(way)")
            }
        }
    }

    @Test("data that a mapping has written after the last close is in the version")
    func mappedVersion() throws {
        try MountedVolume.with { volume in
            let path = "\(volume.path)/mapped.txt"
            let file = try OpenFile.creating(path)
            try file.write([UInt8](repeating: 48, count: 8_192), at: 0)
            var map: Mapping? = try file.map(8_192)
            file.close()
            usleep(300_000)
            map?.write("late", at: 10)
            map = nil
            try volume.waitForDisk()
            let history = try History.of(path)
            let newest = try #require(history.versions.last)
            let kept = "\(volume.path)/.versions/mapped.txt/\(newest.fileName)"
            #expect(try OpenFile(kept, O_RDONLY).text(4, at: 10) == "late")
            #expect(history.versions.count <= 2)
        }
    }

    @Test("a close tells that what a mapping has changed was not written, because the daemon died")
    func lostPages() throws {
        for way in DataPath.allCases {
            try way.with { volume in
                let path = "\(volume.path)/mapped.bin"
                let before = [UInt8](repeating: 48, count: 8_192)
                try Data(before).write(to: URL(filePath: path))
                try volume.waitForDisk()
                let file = try OpenFile(path, O_RDWR)
                var map: Mapping? = try file.map(8_192)
                #expect(map?.text(1, at: 5_000) == "0")
                try volume.kill9()
                map?.write("late", at: 5_000)
                map = nil
                let failure = file.close()
                let kept = try OpenFile("\(volume.store)/tree/mapped.bin", O_RDONLY)
                let isKept = try kept.text(4, at: 5_000) == "late"
                #expect(isKept == (failure == nil), "\(way)")
                #expect(isKept || !way.isPassthrough, "\(way)")
                try volume.remount()
            }
        }
    }

    @Test("appends of several processes are never torn or lost", arguments: DataPath.allCases)
    func appending(_ way: DataPath) throws {
        try way.with { volume in
            let path = "\(volume.path)/shared.log"
            let script = """
                for who in 1 2 3 4; do
                    ( i=0; while [ $i -lt 400 ]; do
                        i=$((i + 1)); echo "writer $who line $i $2" >> "$1"
                    done ) &
                done
                wait
                """
            let filling = String(repeating: "x", count: 200)
            try Command("sh", "-ec", script, "-", path, filling).succeed()
            let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
            #expect(lines.count == 1_600)
            #expect(Set(lines).count == 1_600)
            #expect(lines.allSatisfy { $0.hasSuffix(filling) })
        }
    }

    @Test(
        "open to append: a mapping writes at its offset; fcntl(2) ends and begins appending",
        arguments: DataPath.allCases, [5_000, 20 << 20])
    func appendedInPlace(_ way: DataPath, size: Int) throws {
        try way.with { volume in
            let path = "\(volume.path)/log"
            var expected = [UInt8](repeating: 97, count: size)
            try OpenFile.creating(path).write(expected, at: 0)
            try volume.waitForDisk()
            let file = try OpenFile(path, O_RDWR | O_APPEND)
            let map = try file.map(4_096)
            map.write("mapped", at: 10)
            map.flush()
            expected.replaceSubrange(10..<16, with: Array("mapped".utf8))
            #expect(try file.bytes(size + 5_000) == expected)
            // With O_APPEND, pwrite(2) does what write(2) does.
            try file.write("first", at: 20)
            expected += Array("first".utf8)
            // With passthrough the kernel opens the file below once, with O_APPEND.
            if !way.isPassthrough {
                try call(fcntl(file.descriptor, F_SETFL, 0))
                try file.write("second", at: 30)
                expected.replaceSubrange(30..<36, with: Array("second".utf8))
                try call(fcntl(file.descriptor, F_SETFL, O_APPEND))
            }
            try file.write("third", at: 40)
            expected += Array("third".utf8)
            #expect(try file.bytes(size + 5_000) == expected)
            #expect(try OpenFile("\(volume.tree)/log", O_RDONLY).bytes(size + 5_000) == expected)
        }
    }

    @Test("O_DIRECT, O_SYNC and O_APPEND as asked", arguments: DataPath.allCases)
    func flags(_ way: DataPath) throws {
        try way.with { volume in
            let path = "\(volume.path)/flags"
            let synced = try OpenFile(path, O_WRONLY | O_CREAT | O_SYNC | O_APPEND)
            try synced.write("one ")
            try synced.write("two ", at: 0)  // O_APPEND overrides the offset.
            #expect(try String(contentsOfFile: path, encoding: .utf8) == "one two ")
            let file = try OpenFile(path, O_RDWR | O_DIRECT)
            var block: UnsafeMutableRawPointer?
            posix_memalign(&block, 4_096, 4_096)
            let aligned = try #require(block)
            defer { free(aligned) }
            memset(aligned, 65, 4_096)
            #expect(pwrite(file.descriptor, aligned, 4_096, 0) == 4_096)
            memset(aligned, 0, 4_096)
            #expect(pread(file.descriptor, aligned, 4_096, 0) == 4_096)
            #expect(aligned.load(as: UInt8.self) == 65)
            #expect(try OpenFile(path, O_RDONLY).bytes(2, at: 4_094) == [65, 65])
        }
    }

    @Test(
        "contents that were just closed are read by eight threads (trap 7)",
        arguments: DataPath.allCases)
    func readingAfterClose(_ way: DataPath) throws {
        try way.with { volume in
            let failures = Mutex<[String]>([])
            let root = volume.path
            DispatchQueue.concurrentPerform(iterations: 8) { thread in
                let path = "\(root)/thread \(thread).txt"
                for round in 0..<60 {
                    let content = WholeContent(writer: "\(thread)", sequence: round)
                    do {
                        let pattern = SavePattern.allCases[round % SavePattern.allCases.count]
                        try pattern.save(content.bytes(length: 3_000), to: path, synced: false)
                        let found = WholeContent(try Data(contentsOf: URL(filePath: path)))
                        if found != content { failures.withLock { $0.append("\(path) \(round)") } }
                    } catch { failures.withLock { $0.append("\(path) \(round): \(error)") } }
                }
            }
            #expect(failures.withLock { $0 } == [])
        }
    }

    @Test(
        "rewriting and truncating by path show the newest bytes, with zeros after them (trap 9)",
        arguments: DataPath.allCases)
    func truncation(_ way: DataPath) throws {
        try way.with { volume in
            let path = "\(volume.path)/cut.txt"
            try Data("the first contents".utf8).write(to: URL(filePath: path))
            try Data("newest".utf8).write(to: URL(filePath: path))
            try call(truncate(path, 4))
            #expect(try OpenFile(path, O_RDONLY).text() == "newe")
            try call(truncate(path, 8))
            #expect(try OpenFile(path, O_RDONLY).bytes(9) == Array("newe".utf8) + [0, 0, 0, 0])
            try call(truncate(path, 0))
            #expect(try OpenFile(path, O_RDONLY).bytes(9) == [])
            try volume.waitForDisk()
            let sizes = try History.of(path).versions.map(\.size)
            #expect(sizes.contains(18) && sizes.contains(6) && sizes.last == 0, "\(sizes)")
        }
    }

    @Test("edits of equal size and time are versions, a touch is none (trap 11)")
    func equalTimes() throws {
        try MountedVolume.with { volume in
            let script = """
                echo one > f; echo two > f; touch -r f stamp
                echo six > f; touch -r stamp f
                echo ten > other; touch -r stamp other; cp -p other f
                touch f; touch -d 2001-01-01 f; cat f >/dev/null
                """
            var command = Command("sh", "-ec", script)
            command.directory = volume.path
            try command.succeed()
            let texts = try History.texts(of: "\(volume.path)/f")
            #expect(texts == ["one\n", "two\n", "six\n", "ten\n"])
        }
    }

    @Test("statfs describes the disk below; names have 255 bytes")
    func space() throws {
        try MountedVolume.with { volume in
            var (here, below) = (statvfs(), statvfs())
            try call(statvfs(volume.path, &here))
            try call(statvfs(volume.tree, &below))
            #expect(here.f_blocks == below.f_blocks && here.f_files == below.f_files)
            #expect(here.f_frsize == below.f_frsize && here.f_namemax == 255)
            #expect(here.f_bavail > 0)
        }
    }

    @Test("each save of a burst is a version, although closes are reported late")
    func bursts() throws {
        try expectVersions { path, number throws(Errno) in
            let file = try OpenFile.creating(path, O_WRONLY)
            try file.write("save \(number)")
        }
    }

    @Test("a document truncated by path right after its close is a version (trap 9)")
    func truncatedBursts() throws {
        try expectVersions { path, number throws(Errno) in
            let file = try OpenFile.creating(path, O_WRONLY)
            try file.write("save \(number)")
            file.close()
            if number < 60 { try call(truncate(path, 0)) }
        }
    }

    /// Six threads save sixty times each, in a document of their own; no content may be missing.
    private func expectVersions(
        _ save: @escaping @Sendable (String, Int) throws(Errno) -> Void
    ) throws {
        try MountedVolume.with { volume in
            let root = volume.path
            let failures = Mutex<[String]>([])
            DispatchQueue.concurrentPerform(iterations: 6) { thread in
                for number in 1...60 {
                    do throws(Errno) { try save("\(root)/\(thread).txt", number) } catch {
                        failures.withLock { $0.append("\(error)") }
                    }
                }
            }
            #expect(failures.withLock { $0 } == [])
            for thread in 0..<6 {
                let texts = try History.texts(of: "\(root)/\(thread).txt")
                #expect(texts.filter { !$0.isEmpty } == (1...60).map { "save \($0)" })
            }
        }
    }
}
