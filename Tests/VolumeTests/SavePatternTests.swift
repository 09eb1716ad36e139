import CLinux
import Foundation
import Glibc
import Model
import SystemCalls
import Testing

@testable import Volume

/// A way in which a program saves `doc.txt`; the file exists before.
struct SavePattern: Sendable, CustomTestStringConvertible {
    let name: String
    let save: @Sendable (ProgramTree, [UInt8], Program) throws -> Void

    var testDescription: String { name }

    static let all: [SavePattern] = [
        SavePattern(name: "truncate and write") { try $0.save("doc.txt", $1, by: $2) },
        SavePattern(name: "temporary renamed over") { try $0.replace("doc.txt", $1, by: $2) },
        SavePattern(name: "temporary of a local name renamed over") {
            try $0.replace("doc.txt", $1, temporary: ".goutputstream-ABC", by: $2)
        },
        SavePattern(name: "backup, create, unlink backup (vim)") { tree, bytes, program in
            try tree.rename("doc.txt", "doc.txt~", by: program)
            try tree.save("doc.txt", bytes, by: program)
            try tree.unlink("doc.txt~", by: program)
        },
        SavePattern(name: "backup kept (emacs)") { tree, bytes, program in
            try tree.rename("doc.txt", "doc.txt~", by: program)
            try tree.save("doc.txt", bytes, by: program)
        },
        SavePattern(name: "backup of a local name kept") { tree, bytes, program in
            try tree.rename("doc.txt", "doc.txt.tmp", by: program)
            try tree.save("doc.txt", bytes, by: program)
        },
        SavePattern(name: "backup by renaming, temporary renamed in (LibreOffice)") {
            tree, bytes, program in
            try tree.save("lu123.tmp", bytes, by: program)
            try tree.rename("doc.txt", "doc.bak", by: program)
            try tree.rename("lu123.tmp", "doc.txt", by: program)
            try tree.unlink("doc.bak", by: program)
        },
        SavePattern(name: "unlink and create") { tree, bytes, program in
            try tree.unlink("doc.txt", by: program)
            try tree.save("doc.txt", bytes, by: program)
        },
        SavePattern(name: "exchange with a temporary") { tree, bytes, program in
            try tree.save("doc.new", bytes, by: program)
            try tree.exchange("doc.new", "doc.txt", by: program)
            try tree.unlink("doc.new", by: program)
        },
        SavePattern(name: "unlink and link a temporary in") { tree, bytes, program in
            try tree.save("doc.new", bytes, by: program)
            try tree.unlink("doc.txt", by: program)
            try tree.link("doc.new", "doc.txt", by: program)
            try tree.unlink("doc.new", by: program)
        },
        SavePattern(name: "backup is a hard link, written in place") { tree, bytes, program in
            try? tree.unlink("doc.orig", by: program)
            try tree.save("doc.txt", bytes, by: program)
        },
        SavePattern(name: "truncate(2), then write without O_TRUNC") { tree, bytes, program in
            try tree.truncate("doc.txt", to: 0, by: program)
            try tree.writeInPlace("doc.txt", bytes, at: 0, by: program)
        },
        SavePattern(name: "cp and mv by another process") { tree, bytes, program in
            var other = program
            other.process += 1
            try tree.save("copy", bytes, by: other)
            other.process += 1
            try tree.rename("copy", "doc.txt", by: other)
        },
    ]
}

/// How long a program waits between its saves.
enum Pace: CaseIterable, Sendable {
    /// Faster than the recorder: all events are processed together.
    case hurried
    /// The recorder runs at random moments.
    case jittering
    /// Each save is recorded before the next.
    case slow

    func pause(_ tree: ProgramTree, _ round: Int) {
        switch self {
        case .hurried: break
        case .jittering: usleep(UInt32([0, 11, 23, 40, 5, 70, 20][round % 7]) * 1000)
        case .slow: tree.quiet()
        }
    }
}

@Suite struct SavePatternTests {
    @Test(arguments: SavePattern.all, Pace.allCases)
    func tenSavesAreTenVersions(pattern: SavePattern, pace: Pace) throws {
        let tree = try ProgramTree()
        let program = Program(process: 100, name: "vim")
        try tree.save("doc.txt", "one\n", by: program)
        let id = try #require(try tree.volume.history.document(at: names("doc.txt"))).id
        if pattern.name.hasPrefix("backup is a hard link") {
            try tree.link("doc.txt", "doc.orig", by: program)
        }
        var expected = ["one\n"]
        for round in 2...10 {
            pace.pause(tree, round)
            let text = "save number \(round)\n" + String(repeating: "x", count: round)
            try pattern.save(tree, Array(text.utf8), program)
            expected.append(text)
        }
        let history = try #require(try tree.volume.history.document(at: names("doc.txt")))
        #expect(history.id == id)
        #expect(try tree.texts("doc.txt") == expected)
        try checkChain(history, program.name)
        try tree.checkInvariants()
        #expect(try tree.texts("doc.txt") == expected)
        tree.stop()
    }

    private func checkChain(_ history: DocumentHistory, _ program: String) throws {
        var parent: Identifier?
        for (index, version) in history.versions.enumerated() {
            #expect(version.number == index + 1)
            #expect(version.parents == (parent.map { [$0] } ?? []))
            #expect(version.kind == (index == history.versions.count - 1 ? .current : .history))
            #expect(version.program == program)
            #expect(version.person == "root")
            #expect(version.name == Name("doc.txt"))
            parent = version.id
        }
        let saved = history.versions.map(\.saved)
        #expect(saved == saved.sorted())
    }

    @Test(arguments: Pace.allCases, [100, 300_000, 3_000_000])
    func writingInPlace(pace: Pace, size: Int) throws {
        let tree = try ProgramTree()
        let program = Program(process: 7)
        var noise = Noise(seed: 1)
        var bytes = noise.bytes(size)
        try tree.save("data.db", bytes, by: program)
        var expected = [bytes]
        for round in 2...10 {
            pace.pause(tree, round)
            let offset = Int(noise.next() % UInt64(size - 20))
            let patch = noise.bytes(round == 5 ? size / 3 : 20)
            try tree.writeInPlace("data.db", patch, at: Int64(offset), by: program)
            let end = offset + patch.count
            if end > bytes.count { bytes += [UInt8](repeating: 0, count: end - bytes.count) }
            bytes.replaceSubrange(offset..<end, with: patch)
            expected.append(bytes)
        }
        #expect(try tree.versions("data.db") == expected)
        try tree.checkInvariants()
        #expect(try tree.versions("data.db") == expected)
        tree.stop()
    }

    @Test(arguments: Pace.allCases, [10, 2_000_000])
    func appending(pace: Pace, size: Int) throws {
        let tree = try ProgramTree()
        let program = Program(process: 7)
        var noise = Noise(seed: 2)
        var bytes = noise.bytes(size)
        try tree.save("log", bytes, by: program)
        var expected = [bytes]
        for round in 2...10 {
            pace.pause(tree, round)
            let more = noise.bytes(50)
            try tree.append("log", more, by: program)
            bytes += more
            expected.append(bytes)
        }
        #expect(try tree.versions("log") == expected)
        try tree.checkInvariants()
        tree.stop()
    }

    /// Large files are truncated and rewritten, and truncated in pieces, faster than they are
    /// recorded.
    @Test(arguments: Pace.allCases)
    func largeFilesTruncated(pace: Pace) throws {
        let tree = try ProgramTree()
        let program = Program(process: 7)
        var noise = Noise(seed: 3)
        var expected: [[UInt8]] = []
        for round in 0..<4 {
            pace.pause(tree, round)
            expected.append(noise.bytes(1_500_000 + round))
            try tree.save("big", expected.last!, by: program)
        }
        for size in [1_400_000, 1_600_000, 1_200_000] {
            pace.pause(tree, size)
            try tree.truncate("big", to: Int64(size), by: program)
            var bytes = expected.last!.prefix(size)
            bytes += [UInt8](repeating: 0, count: size - bytes.count)
            expected.append(Array(bytes))
        }
        #expect(try tree.versions("big") == expected)
        try tree.checkInvariants()
        tree.stop()
    }
}
