import ChunkStore
import Foundation
import Glibc
import Model
import Testing

@Suite struct CutContentTests {
    static let seed: UInt64 = 7_004

    /// Frozen, like the rules for cutting.
    @Test func goldenChunks() throws {
        var noise = Noise(seed: 2)
        let references = try chunks(of: noise.bytes(300 << 10))
        #expect(references.map(\.length) == [112563, 76808, 29883, 32300, 55646])
        #expect(
            references.map(\.id.description) == [
                "sha256:3e32f9a5bb8cc02ab98467b2e8ebedfeb8ec1ab1a668aa481377cd1ae474b9a5",
                "sha256:001bddf1220e22131598470222a191b890931f49b7ed79dbdc77270dda6e8684",
                "sha256:6052facaecb0b039b05af8bc3d4f56b676dd5a7c60a7f59e6b3045aa86544bcc",
                "sha256:f263fdbcef490bf81e12f0a965e3c509991ca46efbdbe49c153d1b2dadf4afab",
                "sha256:8ac870a6bc2afcccb7dc80b019607c759aabf20360100b4f785bb02f64c98193",
            ])
    }

    /// However the content arrives.
    @Test(arguments: [1, 1000, 70_001, 5_000_000])
    func piecesAreCutLikeTheWhole(pieceLength: Int) throws {
        var noise = Noise(seed: Self.seed)
        let sizes =
            pieceLength == 1 ? [0, 1, 79, 300 << 10] : [256 << 10, (256 << 10) + 1, 5_000_017]
        for size in sizes {
            for begin in ["", "SQLite format 3\0"] where begin.utf8.count <= size {
                let bytes = Array(begin.utf8) + noise.bytes(size - begin.utf8.count)
                var cutter = try StreamCutter(size: UInt64(size))
                var (references, joined) = ([ChunkReference](), [UInt8]())
                for start in stride(from: 0, to: size, by: pieceLength) {
                    cutter.append(bytes[start..<min(start + pieceLength, size)])
                    while let chunk = try cutter.next() {
                        references.append(
                            ChunkReference(id: .sha256(chunk), length: UInt32(chunk.count)))
                        joined += chunk
                    }
                    #expect(cutter.heldBytes <= 2 * ((256 << 10) + pieceLength))
                }
                #expect(try references == chunks(of: bytes), "\(size) \(begin)")
                #expect(joined == bytes && cutter.count == Int64(size))
                #expect(try cutter.next() == nil)
            }
        }
        #expect(throws: VolumeError.self) { _ = try StreamCutter(size: 5 << 40) }
    }

    /// Of a content that arrives in a form, only the most that it can be is known before.
    @Test(arguments: [300 << 10, 5_000_017, 64 << 20, 65 << 20, 257 << 20, 2 << 30])
    func aShorterContentIsCutRightOrAgain(announced: Int) throws {
        var noise = Noise(seed: Self.seed)
        let longest = noise.bytes(5_000_017)
        var (right, wrong) = (0, 0)
        for begin in ["", "SQLite format 3\0"] {
            for size in [0, 1, 79, 256 << 10, (256 << 10) + 1, 1 << 20, 5_000_017]
            where begin.utf8.count <= size && size <= announced {
                let bytes = Array(begin.utf8) + longest.prefix(size - begin.utf8.count)
                var cutter = try StreamCutter(size: UInt64(announced))
                var references: [ChunkReference] = []
                func cut() throws {
                    while let chunk = try cutter.next() {
                        references.append(
                            ChunkReference(id: .sha256(chunk), length: UInt32(chunk.count)))
                    }
                }
                for start in stride(from: 0, to: size, by: 70_001) {
                    cutter.append(bytes[start..<min(start + 70_001, size)])
                    try cut()
                }
                let isRight = cutter.end()
                try cut()
                #expect(references.reduce(0) { $0 + Int($1.length) } == size)
                let expected = try chunks(of: bytes)
                #expect(isRight == (references == expected), "\(size) \(begin)")
                (right, wrong) = isRight ? (right + 1, wrong) : (right, wrong + 1)
            }
        }
        #expect(right > 0)
        if announced > 65 << 20 { #expect(wrong > 0) }
    }

    @Test func noContentHasNoChunks() throws {
        #expect(try chunks(of: []) == [])
    }

    @Test(arguments: [1, 4096, 256 << 10])
    func smallContentIsOneChunk(size: Int) throws {
        var noise = Noise(seed: Self.seed)
        let bytes = noise.bytes(size)
        #expect(
            try chunks(of: bytes) == [ChunkReference(id: .sha256(bytes), length: UInt32(size))])
    }

    @Test func chunksJoinToTheContent() throws {
        var noise = Noise(seed: Self.seed)
        let bytes = noise.bytes(5_000_017)
        var joined: [UInt8] = []
        let references = try cutContent(
            of: MemoryContent(bytes: bytes), size: UInt64(bytes.count)
        ) { reference, chunk in
            #expect(Int(reference.length) == chunk.count)
            #expect(Digest.sha256(chunk) == reference.id)
            joined += chunk
        }
        #expect(joined == bytes, "seed \(Self.seed)")
        #expect(try chunks(of: bytes) == references)
    }

    /// 100 bytes inserted at the front of 64 MiB move everything but change only the first chunks.
    /// The size stays within 64 MiB, because larger content has other chunk sizes.
    @Test func bytesAtTheFrontCostFewChunks() throws {
        var noise = Noise(seed: Self.seed)
        let bytes = noise.bytes((64 << 20) - 100)
        let before = Set(try chunks(of: bytes).map(\.id))
        let after = try chunks(of: noise.bytes(100) + bytes)
        let new = after.filter { !before.contains($0.id) }
        #expect(after.count > 500)
        #expect(1...4 ~= new.count, "\(new.count) new of \(after.count), seed \(Self.seed)")
    }

    @Test func aChangeInTheMiddleCostsFewChunks() throws {
        var noise = Noise(seed: Self.seed)
        var bytes = noise.bytes(8 << 20)
        let before = Set(try chunks(of: bytes).map(\.id))
        bytes[4 << 20] ^= 1
        let new = try chunks(of: bytes).filter { !before.contains($0.id) }
        #expect(1...3 ~= new.count)
    }

    /// A page that changes in place costs one small block. Content with another beginning is cut as
    /// usual.
    @Test(arguments: [
        (0, Array("SQLite format 3\0".utf8)), (0, [0x51, 0x46, 0x49, 0xfb]),
        (0, Array("vhdxfile".utf8)), (0, Array("KDMV".utf8)), (64, [0x7f, 0x10, 0xda, 0xbe]),
    ])
    func whatIsWrittenInPlaceIsCutIntoBlocks(offset: Int, magic: [UInt8]) throws {
        var noise = Noise(seed: Self.seed)
        var bytes = noise.bytes((1 << 20) + 100)
        #expect(Set(try chunks(of: bytes).map(\.length)).count > 3)
        bytes.replaceSubrange(offset..<offset + magic.count, with: magic)
        let before = try chunks(of: bytes)
        #expect(before.map(\.length) == Array(repeating: 16 << 10, count: 64) + [100])
        bytes[500_000] ^= 1
        let after = try chunks(of: bytes)
        #expect(zip(before, after).count { $0.id != $1.id } == 1)
    }

    @Test func contentThatBecameShorterIsRefused() throws {
        let scratch = Scratch()
        let file = scratch.file()
        defer { close(file) }
        ftruncate(file, 1 << 20)
        for size: UInt64 in [(1 << 20) + 1, 2 << 20, 100 << 20] {
            let error = #expect(throws: VolumeError.self) {
                try cutContent(of: FileContent(descriptor: file), size: size) { _, _ in }
            }
            #expect(error?.code == .busy)
        }
    }

    @Test func errorsOfTheBodyAndTheSourcePass() throws {
        let refused = VolumeError(.full, "no room")
        #expect(throws: refused) {
            try cutContent(of: MemoryContent(bytes: [1]), size: 1) {
                (_, _) throws(VolumeError) in throw refused
            }
        }
        let error = #expect(throws: VolumeError.self) {
            try cutContent(of: FileContent(descriptor: -1), size: 1) { _, _ in }
        }
        #expect(error?.code == .system)
        #expect(throws: VolumeError.self) {
            try cutContent(of: MemoryContent(bytes: []), size: .max) { _, _ in }
        }
    }
}

/// A manifest must not show whether zeros were written or are a hole.
@Suite struct SparseContentTests {
    /// The layout of a file: ranges of random bytes and of zeros.
    struct Layout: Sendable, CustomTestStringConvertible {
        let name: String
        let size: Int
        let noise: [Range<Int>]
        var testDescription: String { name }
    }

    static let layouts = [
        Layout(name: "all a hole, one chunk", size: 200 << 10, noise: []),
        Layout(name: "all a hole, cut", size: (1 << 20) + 123, noise: []),
        Layout(name: "hole, then data", size: 3 << 20, noise: [2 << 20..<3 << 20]),
        Layout(name: "data, then hole", size: (3 << 20) + 5, noise: [0..<100_000]),
        Layout(
            name: "data in the middle, off the blocks", size: 4 << 20,
            noise: [1_234_567..<1_300_001, 3_000_000..<3_000_001]),
        Layout(
            name: "holes shorter than a chunk", size: 2 << 20,
            noise: (0..<16).map { $0 * 131_072..<$0 * 131_072 + 70_000 }),
        Layout(name: "larger chunks", size: (64 << 20) + 4096, noise: [10 << 20..<11 << 20]),
    ]

    @Test(arguments: layouts)
    func sparseEqualsWritten(layout: Layout) throws {
        let scratch = Scratch()
        let file = scratch.file()
        defer { close(file) }
        var noise = Noise(seed: 99)
        var bytes = [UInt8](repeating: 0, count: layout.size)
        ftruncate(file, layout.size)
        for range in layout.noise {
            let piece = noise.bytes(range.count)
            bytes.replaceSubrange(range, with: piece)
            #expect(pwrite(file, piece, piece.count, range.lowerBound) == piece.count)
        }
        let written = try chunks(of: bytes)
        var seen = 0
        let sparse = try cutContent(of: FileContent(descriptor: file), size: UInt64(layout.size)) {
            reference, chunk in
            let range = seen..<seen + chunk.count
            let isEqual = bytes.withUnsafeBytes {
                memcmp($0.baseAddress! + seen, chunk.baseAddress!, chunk.count) == 0
            }
            #expect(isEqual, "bytes \(range)")
            seen += chunk.count
        }
        #expect(sparse == written)
        #expect(seen == layout.size)
    }

    /// Counts the bytes that are read.
    struct CountingContent: ContentSource {
        let file: FileContent
        let counter: Counter

        final class Counter { var bytes = 0 }

        mutating func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64)
            throws(VolumeError) -> Int
        {
            let count = try file.read(into: buffer, at: offset)
            counter.bytes += count
            return count
        }

        mutating func extent(at offset: Int64) -> ContentExtent { file.extent(at: offset) }
    }

    /// 64 GiB of allocated blocks with one megabyte of data in the middle: little more than the
    /// megabyte is read. SEEK_DATA reports such blocks as data after somebody has read them.
    @Test func blocksThatWereNeverWrittenAreAHole() throws {
        let scratch = Scratch()
        let file = scratch.file()
        defer { close(file) }
        let size: Int64 = 64 << 20
        guard posix_fallocate(file, 0, off_t(size)) == 0 else { return }
        let content = FileContent(descriptor: file)
        // Some file systems report such blocks as data in any case.
        guard case .hole = content.extent(at: 0) else { return }
        var bytes = [UInt8](repeating: 0, count: 4 << 20)
        #expect(pread(file, &bytes, bytes.count, 0) == bytes.count)
        #expect(pread(file, &bytes, bytes.count, 30 << 20) == bytes.count)
        // Data that is only in memory counts.
        let written: Int64 = 40 << 20
        #expect(pwrite(file, [1], 1, off_t(written)) == 1)
        var offset: Int64 = 0
        while offset < written {
            guard case .hole(let end) = content.extent(at: offset) else {
                Issue.record("data at \(offset)")
                return
            }
            offset = end
        }
        #expect(offset == written)
        guard case .data(let end) = content.extent(at: written) else {
            Issue.record("no data at \(written)")
            return
        }
        #expect(end - written <= 1 << 20)
        #expect(content.extent(at: end) == .hole(until: size))
    }

    /// Such a file (generic/654 of xfstests) was cut for seconds when a volume should have ended.
    @Test func manyExtentsThatWereNeverWrittenAreSoonLookedThrough() throws {
        let scratch = Scratch()
        let file = scratch.file()
        defer { close(file) }
        let (size, block) = (64 << 20, 4096)
        // Each block is an extent of its own, because its neighbours are elsewhere on the disk.
        for first in [block, 0] {
            for offset in stride(from: first, to: size, by: 2 * block) {
                guard posix_fallocate(file, off_t(offset), off_t(block)) == 0 else { return }
            }
        }
        let content = FileContent(descriptor: file)
        guard case .hole = content.extent(at: 0) else { return }
        var bytes = [UInt8](repeating: 0, count: size)
        #expect(pread(file, &bytes, bytes.count, 0) == bytes.count)
        func processorTime() -> Double {
            var time = timespec()
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
            return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
        }
        let start = processorTime()
        var (offset, steps) = (Int64(0), 0)
        while offset < size, case .hole(let end) = content.extent(at: offset), end > offset {
            (offset, steps) = (end, steps + 1)
        }
        #expect(offset == size)
        #expect(steps < 64, "\(steps)")
        #expect(processorTime() - start < 0.3)
    }

    @Test func holesAreNotRead() throws {
        let scratch = Scratch()
        let file = scratch.file()
        defer { close(file) }
        let size = 64 << 30
        ftruncate(file, size)
        var noise = Noise(seed: 5)
        let bytes = noise.bytes(1 << 20)
        #expect(pwrite(file, bytes, bytes.count, size / 2 + 12_345) == bytes.count)
        let source = CountingContent(
            file: FileContent(descriptor: file), counter: CountingContent.Counter())
        let references = try cutContent(of: source, size: UInt64(size)) { _, _ in }
        #expect(references.reduce(0) { $0 + Int($1.length) } == size)
        #expect(Set(references.map(\.id)).count < 10)
        #expect(1 << 20...40 << 20 ~= source.counter.bytes, "\(source.counter.bytes) bytes read")
    }
}
