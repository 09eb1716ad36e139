import CLinux
import ChunkStore
import Foundation
import Model
import Support
import Testing

@testable import Volume

@Suite struct ThinningTests {
    private static let hour: Int64 = 3600
    private static let day: Int64 = 24 * 3600
    /// A Monday, 00:00 UTC.
    private static let now: Int64 = 1_900_000_800 / (7 * 86_400) * (7 * 86_400) + 4 * 86_400

    struct Row: Sendable, CustomTestStringConvertible {
        var name: String
        /// Seconds before now.
        var ages: [Int64]
        var kept: [Int64]
        var isExpired = false
        var testDescription: String { name }
    }

    static let rows = [
        Row(name: "nothing", ages: [], kept: []),
        Row(
            name: "all of the last day", ages: [day - 1, 100, 10, 1], kept: [day - 1, 100, 10, 1]),
        Row(
            name: "the newest of each hour of the last week",
            ages: [
                day + 3 * hour + 1, day + 2 * hour + 3599, day + 2 * hour + 1800,
                day + 2 * hour + 1,
            ],
            kept: [day + 3 * hour + 1, day + 2 * hour + 1]),
        Row(
            name: "the newest of each day of the last month",
            ages: [9 * day - 1, 8 * day + 5 * hour, 8 * day + 2, 8 * day - 2],
            kept: [8 * day + 2, 8 * day - 2]),
        Row(
            name: "the newest of each week after",
            ages: [45 * day, 44 * day, 43 * day, 42 * day, 35 * day], kept: [42 * day, 35 * day]),
        Row(name: "one alone is kept at any age", ages: [4000 * day], kept: [4000 * day]),
        Row(name: "from the future", ages: [-5, -6], kept: [-5, -6]),
        Row(name: "long deleted", ages: [100 * day, 5], kept: [], isExpired: true),
    ]

    @Test(arguments: rows) func excess(row: Row) {
        let versions = row.ages.enumerated().map { version($0.offset + 1, age: $0.element) }
        let excess = Set(
            Retention().excess(
                of: versions, at: ThinningTests.now * 1_000_000_000, isExpired: row.isExpired))
        let kept = versions.filter { !excess.contains($0.id) }.map {
            ThinningTests.now - $0.saved / 1_000_000_000
        }
        #expect(kept == row.kept)
    }

    @Test func currentConflictAndLabelledVersionsStay() {
        let old = 40 * ThinningTests.day
        var versions = (1...6).map { version($0, age: old + 10 - Int64($0)) }
        versions[0].label = "mine"
        versions[1].kind = .conflict
        versions[2].kind = .current
        let time = ThinningTests.now * 1_000_000_000
        var excess = Retention().excess(of: versions, at: time, isExpired: false)
        #expect(Set(excess) == Set([versions[3].id, versions[4].id]))
        excess = Retention().excess(of: versions, at: time, isExpired: true)
        #expect(!excess.contains(versions[0].id))
    }

    private func version(_ number: Int, age: Int64) -> Version {
        Version(
            number: number, kind: .history, device: .random(), deviceName: "d", person: "p",
            program: "c", name: Name("a"), size: 1, modified: 0,
            saved: (ThinningTests.now - age) * 1_000_000_000, content: .sha256([]))
    }

    /// Deleted documents are removed when they have expired, with their bytes; others stay.
    @Test func deletedDocumentsExpire() throws {
        var settings = ProgramTree.fast
        settings.retention.deleted = 0
        let tree = try ProgramTree(settings: settings)
        let program = Program(process: 1)
        try tree.save("kept", "1", by: program)
        try tree.save("gone", String(repeating: "g", count: 5000), by: program)
        try tree.save("mine", "m", by: program)
        try tree.mkdir("d", by: program)
        try tree.save("d/x", "x", by: program)
        #expect(tree.quiet())
        try tree.volume.retention.setLabel("mine", version: 1, at: names("mine"))
        for name in ["gone", "mine", "d/x"] { try tree.unlink(name, by: program) }
        try tree.rmdir("d", by: program)
        #expect(tree.quiet())
        usleep(1_100_000)
        try tree.remount()
        try wait(for: "the removal") {
            try tree.volume.history.document(at: names("gone")) == nil ? () : nil
        }
        #expect(try tree.volume.history.document(at: names("d")) == nil)
        #expect(try tree.texts("mine") == ["m"])
        #expect(try tree.texts("kept") == ["1"])
        try tree.checkInvariants()
    }
}
