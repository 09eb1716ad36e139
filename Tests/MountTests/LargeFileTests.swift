import CLinux
import Foundation
import Glibc
import Support
import SystemCalls
import Testing

/// Files that are too large to be copied before a program writes in them.
@Suite("Large files, changed in place")
struct LargeFileTests {
    private static let size = 20 << 20

    /// Incompressible bytes, equal for equal seeds.
    private func bytes(_ count: Int, seed: UInt64) -> [UInt8] {
        var random = SeededRandom(seed: seed)
        var words = (0..<(count / 8)).map { _ in random.next() }
        return words.withUnsafeMutableBytes { Array($0) }
    }

    private func version(_ number: Int, of name: String, in volume: MountedVolume) throws -> [UInt8]
    {
        let history = try History.of("\(volume.path)/\(name)")
        let version = try #require(history.versions.first { $0.number == number })
        let path = "\(volume.path)/.versions/\(name)/\(version.fileName)"
        return try OpenFile(path, O_RDONLY).bytes(version.size + 1)
    }

    /// A large document with its first version.
    private func recorded(seed: UInt64, in volume: MountedVolume) throws -> (String, [UInt8]) {
        let path = "\(volume.path)/disk.img"
        let contents = bytes(Self.size, seed: seed)
        try Data(contents).write(to: URL(filePath: path))
        try volume.waitForDisk()
        return (path, contents)
    }

    @Test(
        "old blocks are kept while programs read, write and map the file",
        arguments: DataPath.allCases)
    func inPlace(_ way: DataPath) throws {
        try way.with { volume in
            let (path, old) = try recorded(seed: 1, in: volume)

            var new = old
            let reader = try OpenFile(path, O_RDONLY)
            var view: Mapping? = try reader.map(Self.size, PROT_READ)
            #expect(view?.bytes[5 << 20] == old[5 << 20])
            let writer = try OpenFile(path, O_RDWR)
            var map: Mapping? = try writer.map(Self.size)
            for offset in [0, 4_096 * 1_000 - 3, 7 << 20, Self.size - 10] {
                let text = Array("at \(offset)".utf8.prefix(10))
                try writer.write(text, at: offset)
                new.replaceSubrange(offset..<(offset + text.count), with: text)
            }
            for offset in [3 << 20, 11 << 20] {
                map?.write("mapped", at: offset)
                new.replaceSubrange(offset..<(offset + 6), with: Array("mapped".utf8))
            }
            map?.flush()
            let appender = try OpenFile(path, O_WRONLY | O_APPEND)
            try appender.write("the end")
            new += Array("the end".utf8)
            #expect(try reader.bytes(new.count + 1) == new)
            #expect(view?.text(6, at: 3 << 20) == "mapped")
            #expect(map?.text(7, at: 7 << 20) == "at 7340")
            // It counts as being written as long as it is mapped for writing.
            (view, map) = (nil, nil)
            appender.close()
            writer.close()
            reader.close()
            try volume.waitForDisk()
            #expect(try OpenFile(path, O_RDONLY).bytes(new.count + 1) == new)
            #expect(try version(1, of: "disk.img", in: volume) == old)
        }
    }

    @Test("a mapping made before the close still writes after it")
    func mappedOnly() throws {
        try MountedVolume.with { volume in
            let (path, old) = try recorded(seed: 2, in: volume)
            let writer = try OpenFile(path, O_RDWR)
            var map: Mapping? = try writer.map(Self.size)
            writer.close()
            map?.write("mapped", at: 9 << 20)
            map?.flush()
            #expect(try OpenFile(path, O_RDONLY).text(6, at: 9 << 20) == "mapped")
            map = nil
            try volume.waitForDisk()
            #expect(try version(1, of: "disk.img", in: volume) == old)
            var new = old
            new.replaceSubrange((9 << 20)..<(9 << 20 + 6), with: Array("mapped".utf8))
            let newest = try #require(try History.of(path).versions.last?.number)
            #expect(try version(newest, of: "disk.img", in: volume) == new)
        }
    }

    @Test(
        "earlier contents of a shortened, lengthened and punched file stay complete",
        arguments: DataPath.allCases)
    func shapes(_ way: DataPath) throws {
        try way.with { volume in
            let (path, old) = try recorded(seed: 3, in: volume)
            let file = try OpenFile(path, O_RDWR)
            try file.truncate(to: 10 << 20)
            try file.truncate(to: 12 << 20)
            try file.allocate(3, 1 << 20, 1 << 20)
            let source = try OpenFile.creating("\(volume.path)/source.swp")
            try source.write([UInt8](repeating: 9, count: 100_000), at: 0)
            let copied = try check(
                cl_copy_file_range(source.descriptor, 0, file.descriptor, 5 << 20, 100_000))
            try #require(copied == 100_000)
            file.close()
            var new = Array(old[..<(10 << 20)]) + [UInt8](repeating: 0, count: 2 << 20)
            new.replaceSubrange(1 << 20..<2 << 20, with: [UInt8](repeating: 0, count: 1 << 20))
            new.replaceSubrange(
                5 << 20..<(5 << 20 + 100_000), with: [UInt8](repeating: 9, count: 100_000))
            #expect(try OpenFile(path, O_RDONLY).bytes(new.count + 1) == new)
            try volume.waitForDisk()
            #expect(try version(1, of: "disk.img", in: volume) == old)
            #expect(try version(2, of: "disk.img", in: volume) == new)
        }
    }

    @Test(
        "200 MB are emptied by O_TRUNC, and the old contents are kept",
        arguments: DataPath.allCases)
    func truncated(_ way: DataPath) throws {
        try way.with { volume in
            let path = "\(volume.path)/film.mkv"
            let block = bytes(1 << 20, seed: 4)
            let file = try OpenFile.creating(path, O_WRONLY)
            for number in 0..<200 { try file.write(block, at: number << 20) }
            file.close()
            try volume.waitForDisk()
            let emptied = try OpenFile(path, O_WRONLY | O_TRUNC)
            try emptied.write("short")
            emptied.close()
            #expect(try OpenFile(path, O_RDONLY).text() == "short")
            try volume.waitForDisk()
            let history = try History.of(path)
            #expect(history.versions.map(\.size) == [200 << 20, 5])
            let kept = "\(volume.path)/.versions/film.mkv/\(history.versions[0].fileName)"
            let old = try OpenFile(kept, O_RDONLY)
            for number in [0, 99, 199] {
                #expect(try old.bytes(1 << 20, at: number << 20) == block)
            }
        }
    }
}
