import CLinux
import Foundation
import Glibc
import Journal
import Model
import SystemCalls
import Testing

@testable import Volume

@Suite struct DeletionTests {
    let program = Program(process: 10, name: "rm")

    @Test(arguments: Pace.allCases) func versionsOfWhatWasRemovedStay(pace: Pace) throws {
        let tree = try ProgramTree()
        try tree.mkdir("d", by: program)
        try tree.save("d/a", "1", by: program)
        pace.pause(tree, 1)
        try tree.save("d/a", "2", by: program)
        pace.pause(tree, 2)
        try tree.unlink("d/a", by: program)
        #expect(try tree.texts("d/a") == ["1", "2"])
        let deleted = try tree.volume.history.deletedDocuments(in: names("d"))
        #expect(deleted.map(\.name) == [Name("a")])
        #expect(deleted.map(\.versions) == [2])
        #expect(deleted.map(\.size) == [1])
        try tree.checkInvariants()
    }

    @Test(arguments: Pace.allCases) func aWholeTree(pace: Pace) throws {
        let tree = try ProgramTree()
        try tree.mkdir("d", by: program)
        try tree.mkdir("d/e", by: program)
        for index in 0..<40 { try tree.save("d/e/\(index)", "text \(index)", by: program) }
        try tree.symlink("e", "d/link", by: program)
        pace.pause(tree, 2)
        try tree.removeTree("d", by: program)
        #expect(tree.quiet())
        for index in 0..<40 { #expect(try tree.texts("d/e/\(index)") == ["text \(index)"]) }
        #expect(try tree.volume.history.deletedDocuments(in: names("d/e")).count == 40)
        try tree.checkInvariants()
        // The names can be used again.
        try tree.mkdir("d", by: program)
        try tree.save("d/e", "a file now", by: program)
        #expect(try tree.texts("d/e") == ["a file now"])
        try tree.checkInvariants()
    }

    @Test(arguments: Pace.allCases) func whatWasNeverSavedLeavesNothing(pace: Pace) throws {
        let tree = try ProgramTree()
        let handle = try tree.open("tmpfile", O_CREAT | O_RDWR, by: program)
        try tree.write(handle, Array("scratch".utf8))
        pace.pause(tree, 2)
        try tree.unlink("tmpfile", by: program)
        try tree.write(handle, Array("more".utf8))
        tree.close(handle)
        try tree.mkdir("tmpdir", by: program)
        pace.pause(tree, 3)
        try tree.rmdir("tmpdir", by: program)
        try tree.checkInvariants()
        #expect(try rows(tree) == 1)
    }

    private func rows(_ tree: ProgramTree) throws -> Int {
        var count = 0
        try tree.volume.journal.read { try $0.forEachItem { _ in count += 1 } }
        return count
    }

    @Test(arguments: [
        ".doc.txt.swp", "4913", ".~lock.doc.odt#", "x.db-journal", "x.sqlite-wal", "film.part",
        ".goutputstream-X", "~$doc.docx", ".#doc", "#doc#",
    ])
    func localNamesLeaveNothing(name: String) throws {
        let tree = try ProgramTree()
        try tree.save(name, "1", by: program)
        try tree.save(name, "2", by: program)
        try tree.replace(name, Array("3".utf8), temporary: "x.tmp", by: program)
        #expect(try tree.volume.stash.entries().allSatisfy { $0.spot?.name == Name(name) })
        tree.quiet()
        try tree.unlink(name, by: program)
        try tree.checkInvariants()
        #expect(try rows(tree) == 1)
        #expect(try tree.volume.history.document(at: names(name)) == nil)
    }

    /// A download leaves nothing under its temporary name and one version under its final name.
    /// [traps 2]
    @Test(arguments: Pace.allCases) func aDownloadIsOneVersion(pace: Pace) throws {
        let tree = try ProgramTree()
        let program = Program(process: 30, name: "firefox")
        try tree.save("film", "", by: program)
        try tree.save("film.part", "half", by: program)
        pace.pause(tree, 1)
        try tree.append("film.part", Array(" rest".utf8), by: program)
        pace.pause(tree, 2)
        try tree.rename("film.part", "film", by: program)
        #expect(try tree.texts("film") == ["half rest"])
        try tree.checkInvariants()
    }

    @Test func theIgnoreFileAddsToLocalNames() throws {
        let tree = try ProgramTree()
        try tree.save("before.log", "kept", by: program)
        try tree.save(
            ".concordignore", "# comment\n*.log\nbuild/\n/only/here.txt\n!keep.log\n", by: program)
        tree.quiet()
        try tree.save("a.log", "1", by: program)
        try tree.save("keep.log", "1", by: program)
        try tree.mkdir("build", by: program)
        try tree.save("build/x", "1", by: program)
        try tree.save("build/x", "2", by: program)
        try tree.mkdir("build/deep", by: program)
        try tree.replace("build/deep/y", Array("3".utf8), by: program)
        try tree.replace("build/deep/y", Array("4".utf8), by: program)
        try tree.mkdir("only", by: program)
        try tree.save("only/here.txt", "1", by: program)
        try tree.save("only/there.txt", "1", by: program)
        #expect(tree.quiet())
        #expect(try tree.volume.history.document(at: names("a.log")) == nil)
        #expect(try tree.texts("keep.log") == ["1"])
        #expect(try tree.volume.history.document(at: names("build/x")) == nil)
        #expect(try tree.volume.history.document(at: names("build/deep/y")) == nil)
        #expect(try tree.volume.history.document(at: names("only/here.txt")) == nil)
        #expect(try tree.texts("only/there.txt") == ["1"])
        // The ignore file deletes nothing.
        #expect(try tree.texts("before.log") == ["kept"])
        #expect(try tree.volume.stash.entries().isEmpty)
        #expect(tree.contents("a.log") == Array("1".utf8))
        try tree.remount()
        #expect(tree.quiet())
        #expect(try tree.volume.history.document(at: names("build/x")) == nil)
        #expect(try tree.texts("before.log") == ["kept"])
    }

    enum Knowledge: CaseIterable { case told, beingTold }

    /// An empty file has no version, so its row exists only to tell the hub of its deletion.
    @Test(arguments: Knowledge.allCases)
    func anEmptyFileThatTheHubKnows(_ knowledge: Knowledge) throws {
        let tree = try ProgramTree()
        for name in ["a", "b", "c"] { try tree.save(name, "", by: program) }
        // A tree with nothing left in it would be no deletion.
        try tree.save("rest", "text", by: program)
        #expect(tree.quiet())
        let items = try ["a", "b", "c"].map { try #require(try tree.item($0)) }
        try tree.volume.journal.write { t in
            try t.startChangeTracking()
            for (index, item) in items.enumerated() {
                switch knowledge {
                case .told: try t.set(MirrorRow(id: item.id, base: [1]))
                case .beingTold:
                    let number = UInt64(index + 1)
                    try t.append(OutboxRow(number: number, item: item.id, operation: [1]))
                }
                try t.removeUnsent(item.key)
            }
        }
        try tree.unlink("a", by: program)
        // The file is removed before it can be recorded.
        try tree.truncate("b", to: 0, by: program)
        try tree.unlink("b", by: program)
        #expect(tree.quiet())
        try tree.remount { unlink(tree.real("c")) }
        #expect(tree.quiet())
        try tree.volume.journal.read { reader in
            for item in items {
                let found = try #require(try reader.item(id: item.id), "\(item.name)")
                #expect(found.deleted != nil)
                #expect(try reader.hub.isUnsent(found.key))
            }
        }
        tree.stop()
    }
}
