import Foundation
import Journal
import Model
import Testing

@testable import Volume

/// Hard links of one file must not make each other expensive. Counted in rows of the journal.
@Suite struct ManyLinksTests {
    static let count =
        ProcessInfo.processInfo.environment["VOLUME_LINKS"].flatMap(Int.init) ?? 600

    private let program = Program(process: 10, name: "cp")

    @Test("a name costs the same however many names its file has")
    func linking() throws {
        let tree = try ProgramTree()
        try tree.save("a", "one text under many names", by: program)
        try tree.mkdir("d", by: program)
        #expect(tree.quiet())
        let linking = try rows(tree) {
            for number in 0..<Self.count { try tree.link("a", "d/\(number)", by: program) }
        }
        #expect(linking < Self.count * 30, "\(linking) rows read for \(Self.count) links")
        let renaming = try rows(tree) {
            for number in 0..<Self.count {
                try tree.rename("d/\(number)", "d/\(number).txt", by: program)
            }
        }
        #expect(renaming < Self.count * 30, "\(renaming) rows read for as many renames")
        #expect(try tree.texts("d/7.txt") == ["one text under many names"])
        let removing = try rows(tree) {
            for number in 0..<Self.count - 1 { try tree.unlink("d/\(number).txt", by: program) }
        }
        #expect(removing < Self.count * 40, "\(removing) rows read for as many removals")
        if Self.count < 1_000 { try tree.checkInvariants() }
        tree.stop()
    }

    /// How many rows are read until everything is recorded.
    private func rows(_ tree: ProgramTree, of body: () throws -> Void) throws -> Int {
        let before = tree.volume.journal.rowCount
        try body()
        #expect(tree.quiet(seconds: 600))
        return tree.volume.journal.rowCount - before
    }
}
