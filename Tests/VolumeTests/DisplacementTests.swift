import CLinux
import Foundation
import Glibc
import Model
import Support
import SystemCalls
import Testing

@testable import Volume

/// Documents replaced or removed while programs have them open.
@Suite struct DisplacementTests {
    let program = Program(process: 10, name: "vim")
    let other = Program(process: 20, name: "cp")

    @Test("a file whose stash file has the longest possible name is copied")
    func aLongName() throws {
        let scratch = Scratch()
        let directory = try Descriptor(opening: scratch.path, flags: O_RDONLY | O_DIRECTORY)
        try Data([1, 2]).write(to: URL(filePath: scratch.path + "/a"))
        let file = try Descriptor(opening: scratch.path + "/a", flags: O_PATH)
        let snapshot = FileSnapshot(of: file.raw)
        let actor = Actor(process: 1, uid: 0, program: "cp")
        let stash = Stash(directory: directory.raw, firstSequence: 1)
        let empty = stash.newName(
            .copied, snapshot, spot: DirectoryEntry(directory: 1, name: Name("")), actor: actor)
        let name = stash.newName(
            .copied, snapshot,
            spot: DirectoryEntry(
                directory: 1, name: Name(String(repeating: "n", count: 249 - empty.utf8.count))),
            actor: actor)
        #expect(name.utf8.count == 249)
        try stash.copy(of: file.raw, snapshot, into: name)
        let copy = try Data(contentsOf: URL(filePath: scratch.path + "/" + name))
        #expect(copy == Data([1, 2]))
    }

    @Test func readersKeepTheirVersion() throws {
        let tree = try ProgramTree()
        try tree.save("a", "old", by: program)
        let reader = try tree.open("a", O_RDONLY, by: other)
        try tree.replace("a", Array("new".utf8), by: program)
        #expect(try tree.read(reader) == Array("old".utf8))
        #expect(try tree.texts("a") == ["old", "new"])
        try tree.checkInvariants()
        #expect(try tree.read(reader) == Array("old".utf8))
        tree.close(reader)
    }

    @Test(
        "a release reported after the replacement that followed it makes no conflict",
        arguments: [true, false])
    func aReleaseThatIsHeardLate(isRemoved: Bool) throws {
        let tree = try ProgramTree()
        try tree.save("a", Array("old".utf8), by: program)
        #expect(tree.quiet())
        let writer = try tree.open("a", O_WRONLY | O_TRUNC, by: program)
        try tree.write(writer, Array("mine".utf8))
        let released = tree.nextUnique()
        if isRemoved {
            try tree.unlink("a", by: program)
            try tree.save("a", Array("new".utf8), by: program)
        } else {
            try tree.replace("a", Array("new".utf8), by: program)
        }
        tree.close(writer, unique: released)
        #expect(tree.quiet())
        let history = try #require(try tree.volume.history.document(at: names("a")))
        #expect(!history.versions.contains { $0.kind == .conflict })
        #expect(
            try tree.versions("a") == ["old", "mine", "new"].map { Array($0.utf8) })
    }

    /// Without passthrough the daemon has the file open for writing until then.
    @Test("what replaced a file is recorded after the file's release, if that is on its way")
    func aReleaseThatIsHeardAfterTheNextSave() throws {
        var settings = ProgramTree.fast
        settings.releaseSeconds = 600
        let tree = try ProgramTree(settings: settings)
        try tree.save("a", "first", by: program)
        try tree.unlink("a", by: program)
        let writer = try tree.open("a", O_CREAT | O_EXCL | O_RDWR, by: program)
        try tree.write(writer, Array("second".utf8))
        let closed = tree.nextUnique()
        try tree.unlink("a", by: program)
        try tree.save("a", "third", by: program)
        _ = tree.volume.recorder.catchUp(with: .path(names("a")), timeoutSeconds: 20)
        tree.close(writer, unique: closed)
        #expect(tree.quiet())
        let texts = try tree.texts("a")
        #expect(texts == ["first", "second", "third"])
        let history = try #require(try tree.volume.history.document(at: names("a")))
        #expect(!history.versions.contains { $0.kind == .conflict })
        try tree.checkInvariants()
    }

    @Test("a save whose file is removed before its release is served is kept")
    func aSaveThatIsRemovedBeforeItsRelease() throws {
        let tree = try ProgramTree()
        let writer = try tree.open("a", O_CREAT | O_EXCL | O_RDWR, by: program)
        try tree.write(writer, Array("saved".utf8))
        let closed = tree.nextUnique()
        try tree.unlink("a", by: program)
        _ = tree.volume.recorder.catchUp(with: .path(names("a")), timeoutSeconds: 20)
        tree.close(writer, unique: closed)
        #expect(tree.quiet())
        let deleted = try tree.volume.history.deletedDocuments(in: [])
        #expect(deleted.map(\.name) == [Name("a")])
        let id = try #require(deleted.first).id
        let history = try #require(try tree.volume.history.document(id))
        #expect(try history.versions.map { try tree.bytes(of: $0) } == [Array("saved".utf8)])
        try tree.checkInvariants()
    }

    @Test("a file that its creator removes while it is open is no document")
    func aTemporaryFileWithoutAName() throws {
        let tree = try ProgramTree()
        let writer = try tree.open("a", O_CREAT | O_EXCL | O_RDWR, by: program)
        try tree.write(writer, Array("some".utf8))
        try tree.unlink("a", by: program)
        try tree.write(writer, Array("more".utf8))
        tree.close(writer)
        #expect(tree.quiet())
        #expect(try tree.volume.history.deletedDocuments(in: []).isEmpty)
        let stash = try FileManager.default.contentsOfDirectory(atPath: tree.store + "/stash")
        #expect(stash.isEmpty)
        try tree.checkInvariants()
    }

    @Test(arguments: Pace.allCases, [20, 2_000_000])
    func aWriterOfWhatWasReplacedMakesAConflict(pace: Pace, size: Int) throws {
        let tree = try ProgramTree()
        var noise = Noise(seed: 5)
        let old = noise.bytes(size)
        try tree.save("a", old, by: program)
        pace.pause(tree, 1)
        let writer = try tree.open("a", O_RDWR, by: program)
        try tree.write(writer, [1, 2, 3], at: 0)
        try tree.replace("a", Array("replaced".utf8), by: other)
        if pace == .slow {
            usleep(500_000)
            // The new content is recorded although a program still writes the old one.
            if size == 20 {
                #expect(try tree.versions("a") == [old, Array("replaced".utf8)])
            }
        } else {
            pace.pause(tree, 2)
        }
        try tree.write(writer, [4, 5, 6], at: 3)
        tree.close(writer)
        #expect(tree.quiet())
        var mine = old
        mine.replaceSubrange(0..<6, with: [1, 2, 3, 4, 5, 6])
        let history = try #require(try tree.volume.history.document(at: names("a")))
        let conflicts = history.versions.filter { $0.kind == .conflict }
        #expect(conflicts.count == 1)
        let conflict = try #require(conflicts.first)
        #expect(try tree.bytes(of: conflict) == mine)
        #expect(conflict.program == "vim")
        let current = try #require(history.versions.first { $0.kind == .current })
        #expect(try tree.bytes(of: current) == Array("replaced".utf8))
        let base = try #require(history.versions.first { $0.kind == .history })
        #expect(try tree.bytes(of: base) == old)
        #expect(conflict.parents == [base.id])
        #expect(current.parents == [base.id])
        #expect(tree.contents("a") == Array("replaced".utf8))
        try tree.checkInvariants()
    }

    @Test func aCreatorThatStillWritesTheReplacedFileMakesAConflict() throws {
        let tree = try ProgramTree()
        let writer = try tree.open("a", O_CREAT | O_RDWR, by: program)
        try tree.write(writer, Array("half".utf8))
        try tree.replace("a", Array("whole".utf8), by: other)
        try tree.write(writer, Array(" and half".utf8))
        tree.close(writer)
        #expect(tree.quiet())
        let history = try #require(try tree.volume.history.document(at: names("a")))
        #expect(history.versions.filter { $0.kind == .current }.map(\.size) == [5])
        let conflicts = history.versions.filter { $0.kind == .conflict }
        #expect(try conflicts.map { try tree.bytes(of: $0) } == [Array("half and half".utf8)])
        try tree.checkInvariants()
    }

    @Test func aWriterThatChangedNothingMakesNoConflict() throws {
        let tree = try ProgramTree()
        try tree.save("a", "old", by: program)
        let writer = try tree.open("a", O_RDWR, by: program)
        try tree.replace("a", Array("new".utf8), by: other)
        tree.close(writer)
        #expect(tree.quiet())
        #expect(try tree.texts("a") == ["old", "new"])
        let history = try #require(try tree.volume.history.document(at: names("a")))
        #expect(history.versions.map(\.kind) == [.history, .current])
        try tree.checkInvariants()
    }

    @Test func aWriterOfARemovedFileSavesTheDeletedDocument() throws {
        let tree = try ProgramTree()
        try tree.save("a", "old", by: program)
        let writer = try tree.open("a", O_RDWR, by: program)
        try tree.unlink("a", by: other)
        try tree.write(writer, Array("OLD".utf8), at: 0)
        tree.close(writer)
        #expect(tree.quiet())
        #expect(try tree.texts("a") == ["old", "OLD"])
        #expect(try tree.volume.history.document(at: names("a"))?.state == .deleted)
        try tree.checkInvariants()
    }

    /// Another user's file may not be linked; it is moved aside without a copy all the same.
    @Test(.enabled(if: geteuid() == 0, "acting as somebody else takes root"))
    func whatCannotBeLinkedIsMoved() throws {
        let tree = try ProgramTree(starts: false)
        try tree.save("a", "old", by: program)
        try tree.save("a.new", "new", by: program)
        var status = stat()
        lstat(tree.real("a"), &status)
        chmod(tree.real("a"), 0o644)
        for directory in ["", "/tree", "/stash"] { chown(tree.store + directory, 65534, 65534) }
        cl_thread_fsids(65534, 65534)
        let renamed = Result { try tree.rename("a.new", "a", by: program) }
        cl_thread_fsids(0, 0)
        try renamed.get()
        let entries = try tree.volume.stash.entries()
        #expect(entries.map(\.kind) == [.displaced])
        #expect(entries.map(\.inode) == [UInt64(status.st_ino)])
        tree.volume.start()
        #expect(tree.quiet())
        #expect(try tree.texts("a") == ["old", "new"])
        try tree.checkInvariants()
    }

    /// A program goes on appending to a rotated log; the new log has its versions all the same.
    @Test func rotatedLogs() throws {
        let tree = try ProgramTree()
        let daemon = try tree.open("log", O_CREAT | O_RDWR, by: program)
        try tree.write(daemon, Array("1\n".utf8))
        try tree.rename("log", "log.1", by: other)
        try tree.save("log", "2\n", by: other)
        try wait(for: "a version of the new log") {
            try tree.texts("log").last == "2\n" ? true : nil
        }
        try tree.write(daemon, Array("3\n".utf8))
        tree.close(daemon)
        #expect(tree.quiet())
        #expect(try tree.texts("log.1") == ["1\n3\n"])
        try tree.checkInvariants()
    }
}
