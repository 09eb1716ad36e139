import CLinux
import Foundation
import Glibc
import Journal
import Model
import SystemCalls
import Testing

@testable import Volume

/// What a person can remove for good, and what must stay.
@Suite(.serialized) struct PurgeTests {
    let program = Program(process: 10, name: "cp")

    private func save(_ count: Int, _ path: String, in tree: ProgramTree) throws -> [[UInt8]] {
        var noise = Noise(seed: UInt64(count))
        return try (0..<count).map { _ in
            let bytes = noise.bytes(300_000)
            try tree.save(path, bytes, by: program)
            #expect(tree.quiet())
            return bytes
        }
    }

    private func wish(_ fill: (inout Purge) -> Void) -> Purge {
        var wish = Purge()
        fill(&wish)
        return wish
    }

    @Test func pastVersionsOfADocumentAreRemoved() throws {
        let tree = try ProgramTree()
        let saved = try save(5, "a", in: tree)
        try tree.volume.retention.setLabel("mine", version: 2, at: names("a"))
        let packed = tree.volume.packs.bytes()
        let rehearsal = try tree.volume.retention.purge(
            at: names("a"), wish { $0.isRehearsal = true })
        #expect(rehearsal.versions == 3 && rehearsal.bytes >= 900_000)
        #expect(try tree.versions("a") == saved)
        let report = try tree.volume.retention.purge(at: names("a"), Purge())
        #expect(report.versions == 3 && report.contents == 0 && report.bytes >= 900_000)
        #expect(report.kept == [.obstacle(.named("")): 1])
        #expect(tree.volume.packs.bytes() <= packed - 900_000)
        #expect(try tree.versions("a") == [saved[1], saved[4]])
        try tree.checkInvariants()
        tree.stop()
    }

    /// A purge of a directory includes deleted documents; versions not sent to the hub stay.
    @Test func deletedDocumentsOfADirectoryAreRemoved() throws {
        let tree = try ProgramTree()
        try tree.mkdir("d", by: program)
        let saved = try save(2, "d/a", in: tree)
        _ = try save(2, "d/gone", in: tree)
        _ = try save(2, "d/sent", in: tree)
        let other = try save(2, "b", in: tree)
        let sent = try #require(try tree.item("d/sent"))
        try tree.volume.journal.write { try $0.addUnsent(sent.key) }
        try tree.unlink("d/gone", by: program)
        try tree.unlink("d/sent", by: program)
        #expect(tree.quiet())
        let report = try tree.volume.retention.purge(at: names("d"), Purge())
        #expect(report.versions == 4 && report.kept == [.obstacle(.notSent): 1])
        #expect(try tree.versions("d/a") == [saved[1]])
        #expect(try tree.versions("b") == other)
        let deleted = try tree.volume.history.deletedDocuments(in: names("d"))
        #expect(deleted.map(\.name) == [Name("sent")])
        // The deleted document is also found by its name alone.
        try tree.volume.journal.write { try $0.removeUnsent(sent.key) }
        #expect(try tree.volume.retention.purge(at: names("d/sent"), Purge()).versions == 1)
        #expect(try tree.volume.history.deletedDocuments(in: names("d")).isEmpty)
        #expect(throws: VolumeError.self) {
            try tree.volume.retention.purge(at: names("d/never"), Purge())
        }
        try tree.checkInvariants()
        tree.stop()
    }

    @Test func theOldestAreRemovedFirstAndNoMoreThanRequested() throws {
        let tree = try ProgramTree()
        let saved = try save(6, "a", in: tree)
        let early = wish { $0.before = 1 }
        #expect(try tree.volume.retention.purge(at: [], early) == PurgeReport())
        let report = try tree.volume.retention.purge(at: [], wish { $0.bytes = 500_000 })
        #expect(report.versions == 2 && report.bytes >= 500_000)
        #expect(try tree.versions("a") == Array(saved.dropFirst(2)))
        let history = try #require(try tree.volume.history.document(at: names("a")))
        // The third version was displaced when the fourth was saved.
        let late = wish { $0.before = history.versions[1].saved + 1 }
        #expect(try tree.volume.retention.purge(at: [], late).versions == 1)
        #expect(try tree.versions("a") == Array(saved.dropFirst(3)))
        try tree.checkInvariants()
        tree.stop()
    }

    @Test func documentsThatTheCallerMayNotWriteStay() throws {
        let tree = try ProgramTree()
        let mine = try save(2, "mine", in: tree)
        let other = try save(2, "other", in: tree)
        _ = try save(2, "gone", in: tree)
        try tree.unlink("gone", by: program)
        #expect(tree.quiet())
        let report = try tree.volume.retention.purge(at: [], Purge()) { $0 == names("mine") }
        #expect(report.versions == 1 && report.kept == [.denied: 3])
        #expect(try tree.versions("mine") == [mine[1]])
        #expect(try tree.versions("other") == other)
        #expect(try tree.volume.history.deletedDocuments(in: []).map(\.name) == [Name("gone")])
        tree.stop()
    }

    /// A disk that has no space to record what was deleted, and where nothing is removed
    /// automatically.
    @Test func aPurgeWorksOnAFullDisk() throws {
        let scratch = Scratch()
        guard mount("tmpfs", scratch.path, "tmpfs", 0, "size=24m") == 0 else {
            print("not root: no small file system, not tested")
            return
        }
        do {
            let tree = try ProgramTree(store: scratch.path + "/store")
            var noise = Noise(seed: 9)
            try tree.save("kept", "1", by: program)
            try tree.save("big", noise.bytes(14_000_000), by: program)
            #expect(tree.quiet())
            try tree.unlink("big", by: program)
            let directory = try Descriptor(opening: scratch.path, flags: O_RDONLY | O_DIRECTORY)
            let before = try #require(DiskSpace(of: directory.raw)).free
            let report = try tree.volume.retention.purge(at: names("big"), Purge())
            #expect(report.contents == 1 && report.bytes >= 14_000_000)
            let after = try #require(DiskSpace(of: directory.raw)).free
            // What was recorded before the disk was full stays in the packs until a sweep.
            #expect(after - before >= 13_000_000)
            #expect(try tree.volume.history.deletedDocuments(in: []).isEmpty)
            #expect(try tree.texts("kept") == ["1"])
            try tree.checkInvariants()
            tree.stop()
        }
        umount2(scratch.path, Int32(MNT_DETACH))
    }
}
