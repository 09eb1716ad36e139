import Foundation
import Glibc
import Model
import Testing

@testable import Volume

/// An append costs only what it adds.
@Suite struct AppendTests {
    private let program = Program(process: 10, name: "log")

    private func stashedBytes(_ tree: ProgramTree) throws -> Int64 {
        try tree.volume.stash.entries().reduce(0) { sum, entry in
            var status = stat()
            let path = tree.store + "/stash/" + entry.file
            return lstat(path, &status) == 0 ? sum + Int64(status.st_blocks) * 512 : sum
        }
    }

    @Test func nothingIsCopiedAheadOfAnAppend() throws {
        var settings = ProgramTree.fast
        // Nothing is recorded before everything is written.
        settings.settleSeconds = 60
        settings.patienceSeconds = 60
        let tree = try ProgramTree(settings: settings)
        var noise = Noise(seed: 1)
        var bytes = noise.bytes(600_000)
        try tree.save("a", bytes, by: program)
        var expected = [bytes]
        #expect(try tree.versions("a") == expected)
        for number in 0..<20 {
            let line = Array("line \(number)\n".utf8)
            try tree.append("a", line, by: program)
            bytes += line
            expected.append(bytes)
        }
        #expect(try tree.volume.stash.entries().count == 20)
        #expect(try stashedBytes(tree) < 200_000)
        #expect(try tree.versions("a") == expected)
        let item = try #require(try tree.item("a"))
        #expect(item.inPlace == 0)
        tree.stop()
    }

    /// After fcntl(2), a file that was opened for appending may be written elsewhere or be emptied.
    @Test func anAppenderThatOverwritesLosesNothing() throws {
        let tree = try ProgramTree()
        var noise = Noise(seed: 2)
        let first = noise.bytes(300_000)
        try tree.save("a", first, by: program)
        #expect(tree.quiet())
        let handle = try tree.open("a", O_WRONLY | O_APPEND, by: program)
        try tree.write(handle, [1, 2, 3])
        try tree.write(handle, [4, 5, 6], at: 100_000)
        tree.close(handle)
        var second = first + [1, 2, 3]
        second.replaceSubrange(100_000..<100_003, with: [4, 5, 6])
        #expect(try tree.versions("a") == [first, second])
        try tree.append("a", [7], by: program)
        try tree.save("a", "new", by: program)
        #expect(try tree.versions("a") == [first, second, second + [7], Array("new".utf8)])
        try tree.checkInvariants()
    }

    @Test func appendsOutliveAKilledDaemon() throws {
        let tree = try ProgramTree()
        var noise = Noise(seed: 3)
        let first = noise.bytes(300_000)
        try tree.save("a", first, by: program)
        #expect(tree.quiet())
        try tree.append("a", [1], by: program)
        try tree.append("a", [2], by: program)
        try tree.crash()
        #expect(tree.quiet())
        #expect(try tree.versions("a") == [first, first + [1], first + [1, 2]])
        try tree.checkInvariants()
        tree.stop()
    }
}
