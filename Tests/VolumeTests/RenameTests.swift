import CLinux
import Foundation
import Glibc
import Model
import SystemCalls
import Testing

@testable import Volume

@Suite struct RenameTests {
    let program = Program(process: 10, name: "mv")

    @Test(arguments: Pace.allCases) func directoriesTakeTheirDocumentsAlong(pace: Pace) throws {
        let tree = try ProgramTree()
        try tree.mkdir("a", by: program)
        try tree.mkdir("a/b", by: program)
        try tree.save("a/b/doc", "1", by: program)
        pace.pause(tree, 1)
        let id = pace == .slow ? try tree.volume.history.document(at: names("a/b/doc"))?.id : nil
        try tree.rename("a/b", "c", by: program)
        try tree.save("c/doc", "2", by: program)
        pace.pause(tree, 2)
        try tree.rename("a", "c/a", by: program)
        try tree.rename("c", "d", by: program)
        try tree.rename("d/doc", "d/a/doc2", by: program)
        try tree.replace("d/a/doc2", Array("3".utf8), by: program)
        #expect(try tree.texts("d/a/doc2") == ["1", "2", "3"])
        if let id { #expect(try tree.volume.history.document(at: names("d/a/doc2"))?.id == id) }
        try tree.checkInvariants()
    }

    /// [traps 6]
    @Test(arguments: Pace.allCases) func newOverVictimMovedOn(pace: Pace) throws {
        let tree = try ProgramTree()
        try tree.mkdir("dir", by: program)
        try tree.save("victim", "old", by: program)
        let id = try tree.volume.history.document(at: names("victim"))?.id
        try tree.save("new", "new", by: program)
        pace.pause(tree, 1)
        try tree.rename("new", "victim", by: program)
        try tree.rename("victim", "dir/moved", by: program)
        #expect(try tree.texts("dir/moved") == ["old", "new"])
        #expect(try tree.volume.history.document(at: names("dir/moved"))?.id == id)
        try tree.checkInvariants()
    }

    @Test(arguments: Pace.allCases) func aDirectoryMovedWhileItsFilesAreSaved(pace: Pace) throws {
        let tree = try ProgramTree()
        try tree.mkdir("a", by: program)
        try tree.save("a/doc", "0", by: program)
        let handle = try tree.open("a/doc", O_RDWR, by: program)
        try tree.write(handle, Array("1".utf8), at: 0)
        pace.pause(tree, 1)
        try tree.rename("a", "b", by: program)
        try tree.write(handle, Array("2".utf8), at: 0)
        tree.close(handle)
        for text in ["3", "4"] {
            try tree.save("b/doc", text, by: program)
            try tree.rename("b", "a", by: program)
            pace.pause(tree, 4)
            try tree.rename("a", "b", by: program)
        }
        #expect(try tree.texts("b/doc") == ["0", "2", "3", "4"])
        try tree.checkInvariants()
    }

    @Test(arguments: Pace.allCases) func inAndOutOfIgnoredDirectories(pace: Pace) throws {
        let tree = try ProgramTree()
        try tree.save(".concordignore", "build/\n", by: program)
        try tree.mkdir("build", by: program)
        try tree.save("doc", "1", by: program)
        try tree.save("doc", "2", by: program)
        try tree.mkdir("src", by: program)
        try tree.save("src/a", "a", by: program)
        #expect(tree.quiet())
        try tree.rename("doc", "build/doc", by: program)
        try tree.rename("src", "build/src", by: program)
        pace.pause(tree, 1)
        try tree.save("build/doc", "3", by: program)
        pace.pause(tree, 2)
        #expect(try tree.texts("doc") == ["1", "2"])
        #expect(try tree.texts("src/a") == ["a"])
        try tree.rename("build/doc", "doc", by: program)
        try tree.rename("build/src", "src", by: program)
        #expect(tree.quiet())
        #expect(try tree.texts("doc").last == "3")
        #expect(try tree.texts("src/a") == ["a"])
        try tree.checkInvariants()
        try tree.rename("build", "other", by: program)
        try tree.save("other/x", "1", by: program)
        #expect(tree.quiet())
        #expect(try tree.texts("other/x") == ["1"])
        try tree.checkInvariants()
    }

    @Test(arguments: Pace.allCases) func documentsThatChangePlaces(pace: Pace) throws {
        let tree = try ProgramTree()
        try tree.save("a", "A", by: program)
        try tree.save("b", "B", by: program)
        pace.pause(tree, 1)
        try tree.exchange("a", "b", by: program)
        pace.pause(tree, 2)
        #expect(try tree.texts("a") == ["A", "B"])
        #expect(try tree.texts("b") == ["B", "A"])
        try tree.mkdir("d", by: program)
        try tree.save("d/x", "X", by: program)
        try tree.exchange("a", "d", by: program)
        #expect(try tree.texts("d") == ["A", "B"])
        #expect(try tree.texts("a/x") == ["X"])
        try tree.checkInvariants()
    }

    @Test(arguments: Pace.allCases) func aDocumentOverAnotherLeavesBothHistories(pace: Pace) throws
    {
        let tree = try ProgramTree()
        try tree.save("a", "A1", by: program)
        try tree.save("a", "A2", by: program)
        try tree.save("b", "B1", by: program)
        #expect(tree.quiet())
        pace.pause(tree, 1)
        try tree.rename("a", "b", by: program)
        pace.pause(tree, 2)
        #expect(try tree.texts("b") == ["B1", "A2"])
        #expect(try tree.texts("a") == ["A1", "A2"])
        #expect(try tree.volume.history.document(at: names("a"))?.state == .deleted)
        try tree.save("b", "B3", by: program)
        #expect(tree.quiet())
        #expect(try tree.texts("a") == ["A1", "A2"])
        try tree.checkInvariants()
    }

    @Test(arguments: Pace.allCases) func emptyDirectoriesReplaced(pace: Pace) throws {
        let tree = try ProgramTree()
        try tree.mkdir("a", by: program)
        try tree.save("a/x", "1", by: program)
        try tree.mkdir("b", by: program)
        try tree.save("b/gone", "g", by: program)
        pace.pause(tree, 1)
        try tree.unlink("b/gone", by: program)
        try tree.rename("a", "b", by: program)
        #expect(try tree.texts("b/x") == ["1"])
        try tree.checkInvariants()
    }
}
