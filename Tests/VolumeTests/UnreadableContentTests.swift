import CLinux
import ChunkStore
import Foundation
import Glibc
import Journal
import Model
import SystemCalls
import Testing

@testable import Volume

/// Contents that cannot be read for a moment, because the daemon has too many files open for
/// instance, are not taken for contents that do not exist. A descriptor that is not open and a
/// symlink stand for that: they give errors other than ENOENT.
@Suite struct UnreadableContentTests {
    /// The parts of the recorder that read contents, without a volume.
    private final class Parts {
        let scratch = Scratch()
        let stash: Stash
        let writer: JournalWriter
        let chunks: ChunkKeeper
        let contents: ContentReader
        let removal: StashRemoval
        private let directory: Descriptor

        /// - Parameter tree: A descriptor of the tree; -1 for one that cannot be read.
        init(tree: Int32 = -1) throws {
            directory = try Descriptor(opening: scratch.path, flags: O_RDONLY | O_DIRECTORY)
            stash = Stash(directory: directory.raw, firstSequence: 1)
            let settings = Settings()
            let (journal, closing) = (
                try Journal.open(path: scratch.path + "/journal", mayCreate: true), ClosingTime()
            )
            writer = JournalWriter(
                journal: journal, stash: stash, settings: settings, debounce: Debounce(settings))
            let packs = try PackStore(directory: scratch.path + "/packs")
            let room = Room(directory: directory.raw, settings: settings)
            chunks = ChunkKeeper(
                writer: writer, packs: packs, stash: stash, tree: tree, room: room,
                settings: settings, closing: closing)
            let roles = DirectoryRoles(
                writer: writer, tree: tree, ignoreFile: IgnoreFile(tree: directory.raw))
            contents = ContentReader(
                writer: writer, roles: roles, stash: stash, tree: tree, powerLoss: nil,
                closing: closing, cuts: PackageCuts(), settings: settings, chunks: chunks,
                notShown: CallbackSlot(), isReady: CallbackSlot())
            let sweeper = PackSweeper(
                journal: journal, packs: packs, tree: tree, closing: closing)
            removal = StashRemoval(
                writer: writer, stash: stash,
                versions: VersionRemoval(writer: writer, sweeper: sweeper))
        }

        func document(inode: UInt64) throws -> Item {
            try writer.journal.write { t in
                let key = try t.insert(
                    Item(parent: Item.root, name: Name("letter"), kind: .file, inode: inode))
                return try #require(try t.item(key))
            }
        }

        func path(_ entry: Stash.Entry) -> String { scratch.path + "/" + entry.file }

        func stashed(_ kind: Stash.Kind, inode: UInt64, _ bytes: [UInt8]) throws -> Stash.Entry {
            let snapshot = FileSnapshot(
                inode: inode, mode: 0o100644, size: Int64(bytes.count), modified: 1, changed: 1)
            let name = stash.newName(
                kind, snapshot, spot: nil, actor: Actor(process: 1, uid: 0, program: "x"))
            let entry = try #require(Stash.parse(name))
            try Data(bytes).write(to: URL(filePath: path(entry)))
            return entry
        }

        /// Opening the file gives ELOOP while `body` runs.
        func whileUnreadable(_ entry: Stash.Entry, _ body: () throws -> Void) throws {
            let aside = scratch.path + "/aside"
            try check(rename(path(entry), aside))
            try check(symlink("nowhere", path(entry)))
            defer {
                unlink(path(entry))
                rename(aside, path(entry))
            }
            try body()
        }
    }

    @Test("a save in a file that cannot be opened waits", arguments: [false, true])
    func elsewhere(isLog: Bool) throws {
        let parts = try Parts()
        let item = try parts.document(inode: 7)
        var work = PendingDocument(now: 0)
        work.attempts = 9
        let prior =
            isLog
            ? PriorContent(place: .stash(try parts.stashed(.preImages, inode: 7, [1, 2])))
            : .present(in: 7)
        work.priorContents = [prior]
        #expect(throws: VolumeError.self) {
            var recording = Recording(item: item, work: work)
            _ = try parts.contents.openPriorContents(&recording, nil)
        }
    }

    @Test("a save in a file that is gone is given up after some attempts")
    func gone() throws {
        let empty = Scratch()
        let root = try Descriptor(opening: empty.path, flags: O_PATH | O_DIRECTORY)
        let parts = try Parts(tree: root.raw)
        var recording = Recording(
            item: try parts.document(inode: 7), work: PendingDocument(now: 0))
        recording.work.priorContents = [.present(in: 7)]
        #expect(try parts.contents.openPriorContents(&recording, nil) == nil)
        recording.work.attempts = 9
        #expect(try parts.contents.openPriorContents(&recording, nil)?.isEmpty == true)
    }

    @Test("a version stays whose bytes are in a stash file that cannot be opened")
    func lostBytes() throws {
        let parts = try Parts()
        let bytes = Array("the last version".utf8)
        let entry = try parts.stashed(.displaced, inode: 8, bytes)
        var work = PendingDocument(now: 0)
        work.isFound = true
        var recording = Recording(item: try parts.document(inode: 7), work: work)
        var places: [Digest: ChunkLocation] = [:]
        try parts.whileUnreadable(entry) {
            #expect(throws: VolumeError.self) {
                try parts.chunks.settleLost(&recording, [.sha256(bytes)], &places)
            }
        }
        // Nothing of the failure is remembered.
        try parts.chunks.settleLost(&recording, [.sha256(bytes)], &places)
        #expect(Array(places.keys) == [.sha256(bytes)])
        #expect(recording.lost.isEmpty)
    }

    @Test("a stash file that cannot be opened does not give way, and one that is gone does")
    func removal() throws {
        let parts = try Parts()
        let item = try parts.document(inode: 7)
        let entry = try parts.stashed(.displaced, inode: 7, [1, 2, 3])
        try parts.writer.transact { _ in
            parts.writer.state.pending.attach(entry, to: item.key)
        }
        try parts.whileUnreadable(entry) {
            #expect(parts.removal.bytesFreed(by: entry) == nil)
            let (removed, kept) = try parts.removal.remove(1 << 40)
            #expect(removed.contents == 0 && kept == 1)
        }
        #expect(parts.writer.state.pending[item.key]?.priorContents.compactMap(\.entry) == [entry])
        #expect(unlink(parts.path(entry)) == 0)
        #expect(parts.removal.bytesFreed(by: entry) == 0)
    }

    @Test(
        "a package with a file that cannot be read is not open in a program",
        arguments: [VolumeError.Code.system, .busy])
    func package(code: VolumeError.Code) throws {
        let scratch = Scratch()
        try Data([1]).write(to: URL(filePath: scratch.path + "/a"))
        let directory = try Descriptor(opening: scratch.path, flags: O_PATH | O_DIRECTORY)
        var builder = PackageBuilder(
            known: [:], nil, unchangedSince: 0,
            mayGoOn: { () throws(VolumeError) in throw VolumeError(code, "no") })
        try builder.add(directory: directory.raw, path: [])
        #expect(builder.isBusy && builder.entries.isEmpty)
        #expect((builder.failure == nil) == (code == .busy))
        #expect((builder.changing == nil) == (code == .system))
    }
}
