import CLinux
import Foundation
import Glibc
import Journal
import Model
import Support
import SystemCalls
import Testing

@testable import Volume

/// Changes of the store while it is not open, and recovery from a crash.
@Suite struct RecoveryTests {
    let program = Program(process: 10, name: "vim")

    private func put(_ tree: ProgramTree, _ path: String, _ text: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: tree.real(path)))
    }

    @Test func directEdits() throws {
        let tree = try ProgramTree()
        for directory in ["dir", "dir/deep", "old"] { try tree.mkdir(directory, by: program) }
        for name in [
            "edited", "replaced", "moved", "removed", "dir/x", "dir/deep/y", "old/z", "a", "b",
        ] {
            try tree.save(name, "1 \(name)", by: program)
            try tree.save(name, "2 \(name)", by: program)
        }
        #expect(tree.quiet())
        let ids = try ["moved", "dir/x", "dir/deep/y"].map {
            try tree.volume.history.document(at: names($0))?.id
        }
        let files = FileManager.default
        try tree.remount {
            try put(tree, "edited", "3 edited")
            try put(tree, "new", "new")
            try put(tree, "replaced.new", "3 replaced")
            rename(tree.real("replaced.new"), tree.real("replaced"))
            try files.moveItem(atPath: tree.real("moved"), toPath: tree.real("old/moved2"))
            try files.removeItem(atPath: tree.real("removed"))
            try files.moveItem(atPath: tree.real("dir"), toPath: tree.real("old/dir2"))
            try put(tree, "old/dir2/deep/new", "new")
            rename(tree.real("a"), tree.real("b"))
        }
        #expect(tree.quiet())
        #expect(try tree.texts("new") == ["new"])
        #expect(try tree.texts("edited") == ["1 edited", "3 edited"])
        #expect(try tree.texts("replaced") == ["1 replaced", "3 replaced"])
        #expect(try tree.texts("old/moved2") == ["1 moved", "2 moved"])
        #expect(try tree.texts("removed") == ["1 removed"])
        #expect(try tree.texts("old/dir2/x") == ["1 dir/x", "2 dir/x"])
        #expect(try tree.texts("old/dir2/deep/y") == ["1 dir/deep/y", "2 dir/deep/y"])
        #expect(try tree.texts("old/dir2/deep/new") == ["new"])
        #expect(try tree.texts("b") == ["1 b", "2 a"])
        #expect(try tree.texts("a") == ["1 a", "2 a"])
        let now = try ["old/moved2", "old/dir2/x", "old/dir2/deep/y"].map {
            try tree.volume.history.document(at: names($0))?.id
        }
        #expect(now == ids)
        try tree.checkInvariants()
    }

    /// The daemon is killed between a program's close and the kernel's release of the file, or
    /// while the program has it open.
    @Test(arguments: [true, false]) func aKillBeforeTheSave(isNew: Bool) throws {
        let tree = try ProgramTree()
        if !isNew {
            try tree.save("a", "one", by: program)
            #expect(tree.quiet())
        }
        let agent = Program(process: 11, name: "agent")
        let handle = try tree.open("a", O_RDWR | O_CREAT, by: agent)
        try tree.write(handle, Array("two".utf8))
        try tree.crash {
            // With the mount, the program's file ends, too.
            Glibc.close(handle.descriptor)
            Glibc.close(handle.path)
        }
        #expect(tree.quiet())
        #expect(try tree.programs("a").last == "agent")
        #expect(try tree.texts("a") == (isNew ? ["two"] : ["one", "two"]))
    }

    /// How much of the events before a crash the journal has.
    enum Known: CaseIterable { case nothing, directories, all }

    /// The directory in which a document was saved and removed is replaced by another one right
    /// before the daemon is killed.
    @Test(arguments: Known.allCases, [true, false])
    func aSaveOfWhichEvenTheDirectoryIsGone(_ known: Known, isReplaced: Bool) throws {
        let tree = try ProgramTree()
        if known == .nothing {
            #expect(tree.quiet())
            tree.volume.recorder.abandon()
        }
        for name in ["x", "y"] { try tree.mkdir(name, by: program) }
        if known == .directories {
            #expect(tree.quiet())
            tree.volume.recorder.abandon()
        }
        if isReplaced {
            try tree.replace("y/b", Array("text".utf8), by: program)
        } else {
            try tree.save("y/b", "text", by: program)
        }
        try tree.unlink("y/b", by: program)
        try tree.rename("x", "y", by: program)
        if known == .all { #expect(tree.quiet()) }
        try tree.crash()
        #expect(tree.quiet())
        // Another directory has the path now, so the document is found by its id.
        let found = try Command(
            "sqlite3", "-readonly", "\(tree.store)/journal.sqlite",
            """
            SELECT CAST(p.name AS TEXT) || '/' || CAST(i.name AS TEXT) || '/' || lower(hex(i.id))
            FROM items i JOIN items p ON p.key = i.parent WHERE i.latest > 0
            """
        ).succeed().split(separator: "\n").map { $0.split(separator: "/").map(String.init) }
        #expect(found.map { $0.prefix(2) } == [["y", "b"]])
        let id = try #require(found.first?.last.flatMap { Identifier($0) })
        let versions = try #require(try tree.volume.history.document(id)).versions
        #expect(try versions.map { try tree.bytes(of: $0) } == [Array("text".utf8)])
        try tree.checkInvariants()
    }

    /// The journal of a new volume does not know the root before the first scan.
    @Test func aSaveBeforeTheFirstScanOfANewVolume() throws {
        let tree = try ProgramTree(starts: false)
        try tree.mkdir("d", by: program)
        try tree.save("d/a", "text", by: program)
        try tree.unlink("d/a", by: program)
        try tree.rmdir("d", by: program)
        try tree.crash()
        #expect(tree.quiet())
        let found = try Command(
            "sqlite3", "-readonly", "\(tree.store)/journal.sqlite",
            """
            SELECT CAST(p.name AS TEXT) || '/' || CAST(i.name AS TEXT) FROM items i
            JOIN items p ON p.key = i.parent WHERE i.latest > 0
            """
        ).succeed()
        #expect(found == "d/a\n")
        try tree.checkInvariants()
    }

    /// Two scans may miss the same file before its absence is handled.
    @Test func anItemMissedByTwoScans() throws {
        let tree = try ProgramTree()
        try tree.mkdir("dir", by: program)
        for name in ["dir/empty", "dir/other"] { try tree.save(name, "", by: program) }
        try tree.save("dir/kept", "1", by: program)
        #expect(tree.quiet())
        // The ignore file requires another scan as soon as the first one has ended.
        tree.onOpening = {
            #expect(throws: Never.self) { try tree.save(LocalNames.fileName, "*.x", by: program) }
            _ = $0.recorder.catchUp(with: nil, timeoutSeconds: 0)
        }
        try tree.remount {
            try FileManager.default.removeItem(atPath: tree.real("dir/empty"))
        }
        #expect(tree.quiet())
        #expect(try tree.item("dir/empty") == nil)
        #expect(try tree.item("dir/other") != nil)
        try tree.checkInvariants()
    }

    enum Way: CaseIterable { case replace, replaceLinked, exchange, unlink }

    /// Events before the end of the first scan are processed after it. The scan sees only the last
    /// of several saves; the earlier ones must become versions all the same.
    @Test(arguments: Way.allCases) func savedBeforeTheFirstLook(_ way: Way) throws {
        let tree = try ProgramTree()
        try tree.save("known", "1", by: program)
        #expect(tree.quiet())
        tree.onOpening = { _ in
            #expect(throws: Never.self) {
                for name in ["new", "known"] {
                    try tree.writeInPlace(name, Array("2".utf8), at: 0, by: program)
                    try save(tree, name, way)
                }
            }
        }
        try tree.remount { try put(tree, "new", "1") }
        #expect(tree.quiet())
        let (known, new) = (try tree.texts("known"), try tree.texts("new"))
        #expect(known == ["1", "2", "3"])
        // A document that the scan finds under another name still has its history there.
        let elsewhere = way == .replaceLinked ? try tree.texts("link to new").prefix(1) : []
        #expect(elsewhere + new == ["1", "2", "3"])
        try tree.checkInvariants()
    }

    private func save(_ tree: ProgramTree, _ name: String, _ way: Way) throws {
        switch way {
        case .replace: break
        case .replaceLinked: try tree.link(name, "link to " + name, by: program)
        case .exchange:
            try tree.save("draft", "3", by: program)
            try tree.exchange("draft", name, by: program)
            return try tree.unlink("draft", by: program)
        case .unlink:
            try tree.unlink(name, by: program)
            return try tree.save(name, "3", by: program)
        }
        try tree.replace(name, Array("3".utf8), by: program)
    }

    /// If nothing has changed, nothing is read or written.
    @Test func aRemountWithoutChangesCostsNothing() throws {
        let tree = try ProgramTree()
        try tree.mkdir("Doc.rtfd", by: program)
        for index in 0..<50 {
            try tree.save("\(index)", "text \(index)", by: program)
            try tree.save("Doc.rtfd/\(index)", "text \(index)", by: program)
        }
        #expect(tree.quiet())
        try tree.remount()
        #expect(tree.quiet())
        #expect(try tree.volume.history.document(at: names("Doc.rtfd"))?.versions.count == 1)
        #expect(try tree.volume.history.document(at: names("7"))?.versions.count == 1)
        #expect(tree.volume.journal.transactionCount < 10)
        try tree.checkInvariants()
    }

    @Test("a tree with nothing left in it is no deletion", arguments: [1, 15, 30])
    func theBrake(count: Int) throws {
        let tree = try ProgramTree()
        for index in 0..<count { try tree.save("\(index)", "text \(index)", by: program) }
        // A directory and a symlink that are left do not count.
        try tree.mkdir("d", by: program)
        try tree.symlink("0", "link", by: program)
        #expect(tree.quiet())
        // Another directory in place of the tree is refused (`PartsTests`).
        let away = tree.store + "/away"
        func move(_ from: String, _ to: String) throws {
            for name in try FileManager.default.contentsOfDirectory(atPath: from)
            where name != "d" && name != "link" {
                #expect(rename("\(from)/\(name)", "\(to)/\(name)") == 0)
            }
        }
        mkdir(away, 0o755)
        try tree.remount { try move(tree.real(""), away) }
        #expect(tree.quiet())
        let problems = try VolumeStatus(of: tree.volume).problems
        #expect(problems.contains { $0.contains("\(count) of \(count) documents are missing") })
        #expect(tree.volume.scan.missingDocuments == count)
        let last = "\(count - 1)"
        #expect(try tree.volume.history.document(at: names(last))?.state == .current)
        let key = try #require(try tree.item(last)).key
        #expect(try !tree.volume.journal.read { try $0.hub.isUnsent(key) })
        try tree.remount { try move(away, tree.real("")) }
        #expect(tree.quiet())
        #expect(tree.volume.scan.missingDocuments == 0)
        #expect(try tree.texts(last) == ["text \(last)"])
        // A person says that they were deleted.
        try tree.remount { try move(tree.real(""), away) }
        #expect(tree.quiet())
        #expect(tree.volume.scan.missingDocuments == count)
        try tree.volume.scan.acceptMissing()
        #expect(tree.quiet())
        #expect(tree.volume.scan.missingDocuments == 0)
        #expect(try tree.item(last) == nil)
        let left = try VolumeStatus(of: tree.volume).problems
        #expect(!left.contains { $0.contains("are missing") })
        try tree.checkInvariants()
    }

    @Test("of few documents, some may be deleted while the volume is not mounted")
    func deletedByHand() throws {
        let tree = try ProgramTree()
        for index in 0..<15 { try tree.save("\(index)", "text", by: program) }
        #expect(tree.quiet())
        try tree.remount { for index in 1..<15 { unlink(tree.real("\(index)")) } }
        #expect(tree.quiet())
        #expect(tree.volume.scan.missingDocuments == 0)
        #expect(try tree.item("7") == nil && tree.item("0") != nil)
        try tree.checkInvariants()
    }

    @Test func aSecondProcessIsRefusedByName() throws {
        let tree = try ProgramTree()
        let error = #expect(throws: VolumeError.self) { _ = try ProgramTree(store: tree.store) }
        #expect(error?.code == .busy)
        #expect(error?.message.contains("process \(getpid())") == true)
    }

    /// The owner of a store removes names in it until it has ended, so a process that waits for the
    /// store must not read them: it once found a name that was gone, and reported that there was no
    /// store.
    @Test func aProcessWithoutTheLockDoesNotReadTheStore() throws {
        let tree = try ProgramTree()
        let part = tree.store + "/part"
        #expect(FileManager.default.createFile(atPath: part, contents: nil))
        #expect(chmod(part, 0o644) == 0)
        let error = #expect(throws: VolumeError.self) { _ = try ProgramTree(store: tree.store) }
        #expect(error?.code == .busy)
        var status = stat()
        #expect(stat(part, &status) == 0 && status.st_mode & 0o777 == 0o644)
    }

    /// Who has saved a content is still known after a crash, if the event was processed before.
    @Test func savesProcessedJustBeforeACrashSurviveIt() throws {
        var settings = ProgramTree.fast
        settings.settleSeconds = 0.01
        settings.postponeSeconds = 100
        let tree = try ProgramTree(settings: settings)
        try tree.save("a", "1", by: program)
        #expect(tree.quiet())
        let blocker = try tree.open("a", O_RDWR, by: program)
        tree.close(blocker)
        for text in ["2", "3"] { try tree.save("a", text, by: program) }
        try tree.rename("a", "a~", by: program)
        try tree.save("a", "4", by: program)
        try tree.crash()
        #expect(tree.quiet())
        #expect(try tree.texts("a").last == "4")
        let all = Set(try tree.texts("a") + tree.texts("a~"))
        #expect(all == ["1", "2", "3", "4"])
        try tree.checkInvariants()
    }

    /// On a new disk, directories and files get the same inode numbers in another order.
    @Test("a copied store is recognized although its root has the old inode number")
    func copiedRoot() throws {
        let tree = try ProgramTree()
        for name in ["a", "b"] { try tree.save(name, "text of \(name)", by: program) }
        #expect(tree.quiet())
        tree.volume.recorder.abandon()
        try tree.reopen(nil) {
            let copy = tree.store + ".copy"
            try Command("cp", "-a", tree.store, copy).succeed()
            try Command("rm", "-r", tree.store).succeed()
            try Command("mv", copy, tree.store).succeed()
            var status = stat()
            #expect(lstat(tree.real(""), &status) == 0)
            try Command(
                "sqlite3", "\(tree.store)/journal.sqlite",
                "UPDATE items SET inode = \(status.st_ino) WHERE key = \(Item.root)"
            ).succeed()
        }
        #expect(tree.quiet())
        #expect(tree.volume.recorder.state.isCopy)
        #expect(try tree.texts("a") == ["text of a"] && tree.texts("b") == ["text of b"])
        try tree.remount()
        #expect(tree.quiet())
        #expect(!tree.volume.recorder.state.isCopy)
        tree.stop()
    }
}
