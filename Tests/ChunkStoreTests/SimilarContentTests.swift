import Glibc
import Model
import Testing

@testable import ChunkStore

/// Cutting content with the help of similar content has the same result as cutting it alone, and
/// reads less.
@Suite struct SimilarContentTests {
    struct Edit: CustomTestStringConvertible {
        var name: String
        var size: Int
        var head: [UInt8] = []
        /// The ranges that are overwritten.
        var written: [Range<Int>] = []
        /// The new length of the content.
        var end: Int?

        var testDescription: String { name }
    }

    static let edits = [
        Edit(name: "nothing", size: 3 << 20),
        Edit(name: "in the middle", size: 5 << 20, written: [2_000_000..<2_000_010]),
        Edit(name: "the first byte", size: 2 << 20, written: [0..<1]),
        Edit(name: "the last byte", size: 2 << 20, written: [(2 << 20) - 1..<2 << 20]),
        Edit(
            name: "far apart", size: 6 << 20, written: [100_000..<170_000, 5_000_000..<5_000_001]),
        Edit(name: "shorter", size: 4 << 20, end: 3_000_001),
        Edit(name: "longer", size: 4 << 20, end: 5_000_001),
        Edit(name: "longer and written", size: 4 << 20, written: [9..<99], end: 4_200_000),
        Edit(name: "into smaller chunks", size: 64 << 20 + 5, end: 60 << 20),
        Edit(name: "no longer cut", size: 1 << 20, end: 200_000),
        Edit(
            name: "pages of a database", size: 4 << 20, head: Array("SQLite format 3\0".utf8),
            written: [1_000_000..<1_004_096]),
        Edit(
            name: "no database any more", size: 4 << 20, head: Array("SQLite format 3\0".utf8),
            written: [3..<4]),
    ]

    @Test(arguments: edits) func equals(_ edit: Edit) throws {
        var noise = Noise(seed: 3)
        var old = noise.bytes(edit.size)
        old.replaceSubrange(0..<edit.head.count, with: edit.head)
        var new = old
        for range in edit.written { new.replaceSubrange(range, with: noise.bytes(range.count)) }
        if let end = edit.end {
            new = Array(new.prefix(end))
            if end > edit.size { new += noise.bytes(end - edit.size) }
        }
        let known = try chunks(of: old)
        let similar = SimilarContent(known) { asked in
            edit.written.contains {
                Int64($0.lowerBound) < asked.upperBound && asked.lowerBound < Int64($0.upperBound)
            }
        }
        var read = 0
        let cut = try cutContent(
            of: MemoryContent(bytes: new), size: UInt64(new.count), like: similar
        ) { _, chunk in read += chunk.count }
        #expect(try cut == chunks(of: new))
        if edit.end == nil, edit.head.isEmpty, edit.written.allSatisfy({ $0.lowerBound > 80 }) {
            #expect(read * 2 < edit.size, "\(read) bytes read")
        }
    }
}
