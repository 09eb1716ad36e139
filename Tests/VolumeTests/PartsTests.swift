import CLinux
import ChunkStore
import Foundation
import Glibc
import Journal
import Model
import SystemCalls
import Testing

@testable import Volume

/// Tree, journal and chunks must belong together. A part that is missing, of another store or older
/// is refused or rebuilt, and never causes a deletion.
@Suite struct PartsTests {
    let program = Program(process: 10)
    let files = FileManager.default

    static let rebuilding: Settings = {
        var settings = ProgramTree.fast
        settings.rebuilds = true
        return settings
    }()

    /// A document with three versions, one in a directory, and one that never changed.
    private func specimen() throws -> ProgramTree {
        let tree = try ProgramTree()
        for text in ["one", "two", "three"] {
            try tree.save("letter", text, by: program)
            tree.quiet()
        }
        try tree.mkdir("d", by: program)
        for text in ["old", "new"] {
            try tree.save("d/inner", text, by: program)
            tree.quiet()
        }
        try tree.save("single", "single", by: program)
        tree.quiet()
        return tree
    }

    /// Changes the store, mounts again, and expects a refusal with a message that says what to do.
    private func expectRefusal(
        _ tree: ProgramTree, naming part: String, _ between: () throws -> Void
    ) throws {
        let error = #expect(throws: VolumeError.self) { try tree.remount(between) }
        #expect(error?.code == .damaged)
        #expect(error?.message.contains(part) == true, "\(error?.message ?? "")")
        #expect(error?.message.contains("--rebuild") == true)
    }

    private func problems(_ tree: ProgramTree) throws -> String {
        try VolumeStatus(of: tree.volume).problems.joined(separator: " ")
    }

    private func copy(_ name: String, of tree: ProgramTree, to other: String) throws {
        try? files.removeItem(atPath: tree.store + "/" + other)
        try files.copyItem(atPath: tree.store + "/" + name, toPath: tree.store + "/" + other)
    }

    private func move(_ name: String, _ other: String, in tree: ProgramTree) throws {
        try? files.removeItem(atPath: tree.store + "/" + other)
        try files.moveItem(atPath: tree.store + "/" + name, toPath: tree.store + "/" + other)
    }

    // MARK: The tree

    @Test func aMissingTreeIsRefusedAndDeletesNothing() throws {
        let tree = try specimen()
        try expectRefusal(tree, naming: "/tree is missing") {
            try move("tree", "tree.away", in: tree)
        }
        #expect(!files.fileExists(atPath: tree.store + "/tree"))
        try move("tree.away", "tree", in: tree)
        try tree.reopen(nil)
        #expect(tree.quiet())
        #expect(try tree.texts("letter") == ["one", "two", "three"])
        #expect(try problems(tree) == "")
        try tree.checkInvariants()
    }

    @Test func aMissingTreeIsRebuiltFromTheHistory() throws {
        let tree = try specimen()
        try expectRefusal(tree, naming: "/tree is missing") {
            try files.removeItem(atPath: tree.store + "/tree")
        }
        try tree.reopen(PartsTests.rebuilding)
        #expect(tree.quiet())
        // The current contents were in the tree only.
        #expect(tree.contents("letter") == Array("two".utf8))
        #expect(tree.contents("d/inner") == Array("old".utf8))
        #expect(tree.contents("single") == nil)
        #expect(try problems(tree).contains("rebuilt from the history"))
        #expect(try tree.volume.journal.read { try $0.isTreeRebuilt })
        try tree.remount()
        #expect(try problems(tree) == "")
    }

    @Test func contentsAtTheHubArePlaceholdersInARebuiltTree() throws {
        let tree = try specimen()
        let version = try #require(try tree.item("single")?.current)
        let item = try #require(try tree.item("single")?.id)
        try tree.volume.journal.write { t in try t.setDurability([version], to: .hub) }
        try expectRefusal(tree, naming: "/tree is missing") {
            try files.removeItem(atPath: tree.store + "/tree")
        }
        try tree.reopen(PartsTests.rebuilding)
        #expect(tree.quiet())
        #expect(try tree.item("single")?.id == item)
        #expect(try tree.volume.downloads.isDataless(at: names("single")))
        #expect(try tree.volume.history.deletedDocuments(in: []).isEmpty)
    }

    /// A program was killed after it had made the placeholders, and before it had noted them.
    @Test func aRebuildingThatWasInterruptedIsContinued() throws {
        let tree = try specimen()
        let item = try #require(try tree.item("single"))
        let version = try #require(item.current)
        try tree.volume.journal.write { t in try t.setDurability([version], to: .hub) }
        try expectRefusal(tree, naming: "/tree is missing") {
            try files.removeItem(atPath: tree.store + "/tree")
        }
        try tree.reopen(PartsTests.rebuilding)
        #expect(tree.quiet())
        try tree.volume.journal.write { t in
            try t.removeAbsent(item.key)
            try t.update(item)
        }
        try expectRefusal(tree, naming: "does not carry the mark") {
            try move("tree", "tree.away", in: tree)
            try files.createDirectory(
                atPath: tree.store + "/tree", withIntermediateDirectories: false)
            try files.moveItem(
                atPath: tree.store + "/tree.away/single", toPath: tree.store + "/tree/single")
        }
        try tree.reopen(PartsTests.rebuilding)
        #expect(tree.quiet())
        #expect(try tree.item("single")?.current == version)
        #expect(try tree.volume.downloads.isDataless(at: names("single")))
    }

    @Test func aSymlinkOfALostTreeIsForgottenNotDeleted() throws {
        let tree = try specimen()
        try tree.symlink("letter", "link", by: program)
        tree.quiet()
        let id = try #require(try tree.item("link")?.id)
        try tree.volume.journal.write { t in try t.startChangeTracking() }
        try expectRefusal(tree, naming: "/tree is missing") {
            try files.removeItem(atPath: tree.store + "/tree")
        }
        try tree.reopen(PartsTests.rebuilding)
        #expect(tree.quiet())
        #expect(try tree.volume.journal.read { try $0.item(id: id) } == nil)
    }

    @Test func aTreeWithoutTheMarkIsRefused() throws {
        let tree = try specimen()
        try expectRefusal(tree, naming: "does not carry the mark") {
            try move("tree", "tree.away", in: tree)
            try files.createDirectory(
                atPath: tree.store + "/tree", withIntermediateDirectories: false)
        }
        #expect(try files.contentsOfDirectory(atPath: tree.store + "/tree").isEmpty)
        try move("tree.away", "tree", in: tree)
        try tree.reopen(nil)
        #expect(tree.quiet())
        try tree.checkInvariants()
    }

    @Test func theTreeOfAnotherStoreIsRefused() throws {
        let (tree, other) = (try specimen(), try specimen())
        other.stop()
        try expectRefusal(tree, naming: "of another store") {
            try files.removeItem(atPath: tree.store + "/tree")
            try files.moveItem(atPath: other.store + "/tree", toPath: tree.store + "/tree")
        }
    }

    @Test func anOlderTreeIsRefusedAndCanBeRebuilt() throws {
        let tree = try specimen()
        try tree.remount { try clone("tree", "tree.old", in: tree) }
        for text in ["first", "second"] {
            try tree.save("later", text, by: program)
            tree.quiet()
        }
        try expectRefusal(tree, naming: "is older than the journal") {
            try move("tree", "tree.away", in: tree)
            try move("tree.old", "tree", in: tree)
        }
        try tree.reopen(PartsTests.rebuilding)
        #expect(tree.quiet())
        #expect(tree.contents("later") == Array("first".utf8))
        #expect(tree.contents("letter") == Array("three".utf8))
        #expect(try tree.volume.history.deletedDocuments(in: []).isEmpty)
    }

    /// Copies with extended attributes, as a backup does.
    private func clone(_ name: String, _ other: String, in tree: ProgramTree) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["cp", "-a", "\(tree.store)/\(name)", "\(tree.store)/\(other)"]
        try process.run()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
    }

    /// The copy was made while the volume was in use, and documents were saved after it.
    @Test func aTreeOfTheSameRunIsRefused() throws {
        let tree = try specimen()
        try clone("tree", "tree.old", in: tree)
        try tree.save("later", "later", by: program)
        tree.quiet()
        try expectRefusal(tree, naming: "is older than the journal") {
            try move("tree", "tree.away", in: tree)
            try move("tree.old", "tree", in: tree)
        }
        try move("tree", "tree.old", in: tree)
        try move("tree.away", "tree", in: tree)
        try tree.reopen(nil)
        #expect(tree.quiet())
        #expect(tree.contents("later") == Array("later".utf8))
    }

    // MARK: The journal

    @Test func aMissingJournalIsRefused() throws {
        let tree = try specimen()
        try expectRefusal(tree, naming: "journal.sqlite is missing") {
            try move("journal.sqlite", "away", in: tree)
        }
        #expect(!files.fileExists(atPath: tree.store + "/journal.sqlite"))
        try move("away", "journal.sqlite", in: tree)
        try tree.reopen(nil)
        #expect(try tree.texts("letter") == ["one", "two", "three"])
    }

    @Test func aNewJournalRemovesNothingThatTheOldOneNeeds() throws {
        let tree = try specimen()
        try expectRefusal(tree, naming: "journal.sqlite is missing") {
            try move("journal.sqlite", "away", in: tree)
        }
        try tree.reopen(PartsTests.rebuilding)
        #expect(tree.quiet())
        #expect(try tree.texts("letter") == ["three"])
        #expect(try problems(tree).contains("rebuilt from the working tree"))
        // Sweeps, also after new chunks were added.
        try tree.save("letter", "four", by: program)
        #expect(tree.quiet())
        try sweep(tree)
        #expect(try tree.volume.packs.quarantinedPacks().count == 1)
        #expect(
            Examination.findings(in: tree.volume, repair: false, progress: { _, _ in })
                .contains { $0.message.contains("quarantine") })
        try tree.remount { try move("away", "journal.sqlite", in: tree) }
        #expect(tree.quiet())
        #expect(try tree.texts("letter") == ["one", "two", "three", "four"])
        #expect(try tree.texts("d/inner") == ["old", "new"])
        #expect(try problems(tree).contains("older than the other parts"))
        try tree.remount()
        try tree.checkInvariants()
    }

    /// Sweeps on the recorder's thread.
    private func sweep(_ tree: ProgramTree) throws {
        let recorder = tree.volume.recorder
        recorder.signal.change {
            recorder.tasks.append { recorder in
                #expect(throws: Never.self) { try recorder.retention.sweeper.sweep() }
            }
        }
        #expect(recorder.catchUp(with: nil, timeoutSeconds: 20))
    }

    @Test(arguments: [false, true])
    func anOlderJournalRemovesNothingThatTheNewerOneKnows(wasCopiedInUse: Bool) throws {
        let tree = try specimen()
        if wasCopiedInUse {
            _ = try tree.volume.journal.checkpoint()
            try copy("journal.sqlite", of: tree, to: "older")
        } else {
            try tree.remount { try copy("journal.sqlite", of: tree, to: "older") }
        }
        for text in ["four", "five", "six"] {
            try tree.save("letter", text, by: program)
            tree.quiet()
        }
        try tree.remount {
            try copy("journal.sqlite", of: tree, to: "newer")
            try move("older", "journal.sqlite", in: tree)
        }
        #expect(tree.quiet())
        #expect(try tree.texts("letter") == ["one", "two", "three", "six"])
        for number in 1...2 {
            try tree.volume.retention.forget(version: number, at: names("letter"))
        }
        try sweep(tree)
        try tree.remount { try move("newer", "journal.sqlite", in: tree) }
        #expect(tree.quiet())
        #expect(try tree.texts("letter") == ["one", "two", "three", "four", "five", "six"])
        try tree.remount()
        try tree.checkInvariants()
    }

    @Test func aRepairThatWasKilledBetweenItsRenamesIsFinished() throws {
        let tree = try specimen()
        try tree.remount { try move("journal.sqlite", "journal.sqlite.fresh", in: tree) }
        #expect(try tree.texts("letter") == ["one", "two", "three"])
    }

    // MARK: The stash

    @Test func aMissingStashIsRefusedWhileItIsNeeded() throws {
        let tree = try specimen()
        let remove = { try files.removeItem(atPath: tree.store + "/stash") }
        try tree.remount { try remove() }
        #expect(tree.quiet())
        #expect(try problems(tree) == "")
        // Nothing is recorded before the volume is closed.
        var settings = ProgramTree.fast
        (settings.settleSeconds, settings.patienceSeconds) = (600, 600)
        settings.closingSeconds = 0
        try tree.remount(settings: settings)
        try tree.replace("letter", Array("four".utf8), by: program)
        try expectRefusal(tree, naming: "/stash is missing. It has 1 file with") {
            try move("stash", "away", in: tree)
        }
        #expect(throws: VolumeError.self) { try tree.reopen(nil) }
        try move("away", "stash", in: tree)
        try tree.reopen(ProgramTree.fast)
        #expect(tree.quiet())
        #expect(try tree.texts("letter") == ["one", "two", "three", "four"])
        try tree.checkInvariants()
        try tree.reopen(settings)
        try tree.replace("letter", Array("five".utf8), by: program)
        try expectRefusal(tree, naming: "/stash is missing") { try remove() }
        try tree.reopen(PartsTests.rebuilding)
        #expect(tree.quiet())
        #expect(try problems(tree).contains("stash"))
        #expect(tree.contents("letter") == Array("five".utf8))
    }

    // MARK: The chunks

    @Test func missingChunksAreRefused() throws {
        let tree = try specimen()
        try expectRefusal(tree, naming: "chunks lacks") { try move("chunks", "away", in: tree) }
        try move("away", "chunks", in: tree)
        try tree.reopen(nil)
        #expect(try tree.texts("letter") == ["one", "two", "three"])
        try tree.checkInvariants()
    }

    @Test func aStoreWithoutItsChunksKeepsNewContents() throws {
        let tree = try specimen()
        try expectRefusal(tree, naming: "chunks lacks") {
            try files.removeItem(atPath: tree.store + "/chunks")
        }
        try tree.reopen(PartsTests.rebuilding)
        #expect(tree.quiet())
        // Bytes that were stored before are stored again.
        for text in ["one", "last"] {
            try tree.save("letter", text, by: program)
            #expect(tree.quiet())
        }
        let versions = try #require(try tree.volume.history.document(at: names("letter"))).versions
        #expect(try tree.bytes(of: versions[0]) == Array("one".utf8))
        #expect(try tree.bytes(of: versions[2]) == Array("three".utf8))
        #expect(throws: VolumeError.self) { try tree.bytes(of: versions[1]) }
    }

    @Test func theChunksOfAnotherStoreAreRefusedAndKept() throws {
        let (tree, other) = (try specimen(), try ProgramTree())
        for text in ["x", "y"] {
            try other.save("a", text, by: program)
            other.quiet()
        }
        other.stop()
        try expectRefusal(tree, naming: "chunks lacks") {
            try files.removeItem(atPath: tree.store + "/chunks")
            try files.moveItem(atPath: other.store + "/chunks", toPath: tree.store + "/chunks")
        }
        try tree.reopen(PartsTests.rebuilding)
        #expect(tree.quiet())
        try sweep(tree)
        #expect(try tree.volume.packs.quarantinedPacks().count == 1)
    }

    @Test func aDamagedPackIsNoLossWhereTheTreeHasTheBytes() throws {
        let tree = try ProgramTree()
        for text in ["same", "other", "same"] {
            try tree.save("a", text, by: program)
            tree.quiet()
        }
        let versions = try #require(try tree.volume.history.document(at: names("a"))).versions
        let manifest = try tree.volume.versions.content(of: versions[0].id).manifest
        let first = manifest.entries[0].chunks[0].id
        let place = try #require(try tree.volume.journal.read { try $0.place(of: first) })
        try tree.remount {
            let path = tree.store + "/chunks/" + packName(place.pack)
            #expect(truncate(path, off_t(place.offset) + 4) == 0)
        }
        #expect(try tree.bytes(of: versions[0]) == Array("same".utf8))
        #expect(throws: VolumeError.self) { try tree.bytes(of: versions[1]) }
    }

    // MARK: Marks

    @Test func aStoreOfAnEarlierBuildGetsItsMarksSilently() throws {
        let tree = try specimen()
        try tree.volume.journal.write { t in
            for key in ["parts", "parts.joining", "parts.tree"] { try t.set(key, to: nil) }
        }
        try tree.remount {
            try files.removeItem(atPath: tree.store + "/chunks/mark")
            let root = try Descriptor(opening: tree.store + "/tree", flags: O_RDONLY)
            #expect(cl_removexattr_fd(root.raw, "user.concord.store") == 0)
        }
        #expect(tree.quiet())
        #expect(try problems(tree) == "")
        #expect(try tree.texts("letter") == ["one", "two", "three"])
        let mark = try #require(tree.volume.packs.mark)
        #expect(try tree.volume.journal.read { try $0.value("parts") } == mark.text)
        try expectRefusal(tree, naming: "journal.sqlite is missing") {
            try move("journal.sqlite", "away", in: tree)
        }
    }

    /// A crash or a full disk prevents some of the marks from being written.
    @Test(arguments: ["journal", "chunks"]) func marksThatWereNotFinishedAreNoFault(part: String)
        throws
    {
        let tree = try specimen()
        let mark = try #require(tree.volume.packs.mark)
        let next = StoreStamp(store: mark.store, number: mark.number + 1)
        try tree.volume.journal.write { t in
            try t.set("parts", to: next.text)
            try t.set("parts.joining", to: "1")
        }
        if part == "chunks" { try tree.volume.packs.setMark(next) }
        try tree.remount()
        #expect(tree.quiet())
        #expect(try problems(tree) == "")
        try tree.remount()
        #expect(try problems(tree) == "")
    }
}
