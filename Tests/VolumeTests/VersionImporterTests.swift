import Glibc
import Model
import Testing

@testable import Volume

/// Versions that are added to a document without having been saved under its name.
@Suite struct VersionImporterTests {
    private let program = Program(process: 7, name: "vim")
    private let actor = Actor(process: 7, uid: 0, program: "vim", session: nil)

    private func history(_ tree: ProgramTree) throws -> [Version] {
        try #require(try tree.volume.history.document(at: names("a"))).versions
    }

    /// A tree with the document "a", saved now, and contents that are to be added.
    private func tree() throws -> ProgramTree {
        let tree = try ProgramTree()
        try tree.save("a", Array("present".utf8), by: program)
        try tree.save(".#other", Array("other".utf8), by: program)
        #expect(tree.quiet())
        return tree
    }

    @Test func theCurrentVersionIsNeverTheParentOfAConflict() throws {
        for isKnown in [false, true] {
            let tree = try tree()
            let current = try #require(try history(tree).first)
            let base = NamedBase(
                size: isKnown ? Int64(current.size) : 1, modified: isKnown ? current.modified : 1)
            let id = try tree.volume.importer.addVersion(
                from: names(".#other"), at: names("a"), as: .unseen(base: base), by: actor)
            let added = try #require(try history(tree).first { $0.id == id })
            #expect(added.kind == .conflict && added.parents == [], "\(isKnown)")
            try tree.checkInvariants()
        }
    }

    @Test func anOlderVersionHasItsTimeAndIsNotMadeFromThePresentOne() throws {
        let tree = try tree()
        let now = try #require(try history(tree).first).saved
        for (saved, isPast) in [(now - 5, true), (Int64.max, false)] {
            let id = try tree.volume.importer.addVersion(
                from: names(".#other"), at: names("a"), saved: saved, by: actor)
            let added = try #require(try history(tree).first { $0.id == id })
            #expect(added.kind == .history && added.parents == [])
            #expect(isPast ? added.saved == saved : added.saved >= now && added.saved < .max)
        }
        #expect(try history(tree).filter { $0.kind == .current }.count == 1)
        try tree.checkInvariants()
    }

    @Test func aConflictOfUnknownOriginIsMadeOnce() throws {
        let tree = try tree()
        let ids = try (0..<2).map { _ in
            try tree.volume.importer.addVersion(
                from: names(".#other"), at: names("a"), as: .conflict, saved: 1, by: actor)
        }
        #expect(ids[0] == ids[1])
        let all = try history(tree)
        #expect(all.count == 2 && all.last?.kind == .conflict && all.last?.parents == [])
        // What is current already is in no conflict.
        try tree.save(".#other", Array("present".utf8), by: program)
        let same = try tree.volume.importer.addVersion(
            from: names(".#other"), at: names("a"), as: .conflict, by: actor)
        #expect(same == all.first?.id)
        try tree.checkInvariants()
    }
}
