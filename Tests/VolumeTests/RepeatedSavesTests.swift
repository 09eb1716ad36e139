import Foundation
import Model
import Support
import Testing

@testable import Volume

/// What a save of a large document costs, in bytes that are read.
@Suite(.serialized) struct RepeatedSavesTests {
    private let program = Program(process: 10, name: "writer")
    private let size = 12 << 20
    private let count = 24

    @Test("a small change of a large file reads what changed, and each save is a version")
    func smallChanges() throws {
        let tree = try ProgramTree()
        var noise = Noise(seed: 1)
        var contents = noise.bytes(size)
        try tree.save("disk.img", contents, by: program)
        #expect(tree.quiet(seconds: 60))
        var expected = [contents]
        let before = try Self.bytesRead()
        for number in 0..<count {
            let offset = number * 400_000
            let piece = noise.bytes(5_000)
            contents.replaceSubrange(offset..<offset + piece.count, with: piece)
            try tree.writeInPlace("disk.img", piece, at: Int64(offset), by: program)
            expected.append(contents)
        }
        #expect(tree.quiet(seconds: 120))
        let read = try Self.bytesRead() - before
        // The file itself is read a few times, and a few chunks for each save.
        #expect(read < 10 * size, "\(read) bytes read for \(count) saves of \(size) bytes")
        #expect(try tree.versions("disk.img") == expected)
        try tree.checkInvariants()
        tree.stop()
    }

    /// The bytes that this process has read by read(2) and similar calls.
    private static func bytesRead() throws -> Int {
        let text = try String(contentsOfFile: "/proc/self/io", encoding: .utf8)
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("rchar") })
        return try #require(Int(line.filter(\.isNumber)))
    }
}
