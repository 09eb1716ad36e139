import CLinux
import Foundation
import Glibc
import Journal
import Logging
import Model
import SystemCalls
import Testing

@testable import Volume

/// The parts of the recorder, each on its own: no volume, no thread and no tree is needed.
@Suite struct RecorderPartsTests {
    /// A journal and a stash in a directory, and a writer for them.
    private final class Desk {
        let scratch = Scratch()
        let stash: Stash
        let writer: JournalWriter
        private let directory: Descriptor

        init(_ settings: Settings = Settings()) throws {
            directory = try Descriptor(
                opening: scratch.path, in: AT_FDCWD, flags: O_RDONLY | O_DIRECTORY)
            stash = Stash(directory: directory.raw, firstSequence: 1)
            let journal = try Journal.open(path: scratch.path + "/journal", mayCreate: true)
            writer = JournalWriter(
                journal: journal, stash: stash, settings: settings, debounce: Debounce(settings))
        }

        /// A file of the stash, as a save of a document leaves it.
        func stashed(_ inode: UInt64) throws -> Stash.Entry {
            let snapshot = FileSnapshot(
                inode: inode, mode: 0o100644, size: 1, modified: 1, changed: 1)
            let name = stash.newName(
                .displaced, snapshot, spot: nil, actor: Agent(process: 1, uid: 0, program: "x"))
            try Data([1]).write(to: URL(fileURLWithPath: scratch.path + "/" + name))
            return try #require(Stash.parse(name))
        }

        func holds(_ entry: Stash.Entry) -> Bool {
            FileManager.default.fileExists(atPath: scratch.path + "/" + entry.file)
        }

        func insert(_ name: String, _ kind: Item.Kind, in parent: Int64 = Item.root, inode: UInt64)
            throws -> Int64
        {
            try writer.journal.write { t in
                try t.insert(Item(parent: parent, name: Name(name), kind: kind, inode: inode))
            }
        }
    }

    private struct Failure: Error {}

    @Test("a failed transaction leaves the journal and the recorder's state as they were")
    func failure() throws {
        let desk = try Desk()
        let key = try desk.insert("letter", .file, inode: 7)
        let entry = try desk.stashed(7)
        var commits = 0
        desk.writer.didCommit = { commits += 1 }
        #expect(throws: VolumeError.self) {
            try desk.writer.transact { t in
                desk.writer.state.pending.attach(entry, to: key)
                desk.writer.state.locations[9] = .directory(key)
                try t.set("key", to: "value")
                throw Failure()
            }
        }
        #expect(desk.writer.state.pending.all.isEmpty)
        #expect(desk.writer.state.locations[9] == nil)
        let value = try desk.writer.journal.read { try $0.value("key") }
        #expect(value == nil)
        #expect(commits == 0)
    }

    @Test("an open file is noted again if the transaction that noted it has failed")
    func unfinished() throws {
        let desk = try Desk()
        let key = try desk.insert("letter", .file, inode: 7)
        let journal = desk.writer.journal
        var files = UnfinishedFiles()
        files.contents.opened(7)
        func write(fails: Bool) {
            files.mark()
            do {
                try journal.write { t in
                    try files.write(t) { _ in false }
                    if fails { throw Failure() }
                }
            } catch {
                files.revert()
                return
            }
            files.removeMark()
        }
        func isNoted() throws -> Bool { try journal.read { try UnfinishedFile.areLeft(in: $0) } }

        files.begin(7, of: key)
        write(fails: true)
        #expect(!files.contents.isNoted(7) && files.contents.hasUnnoted)
        write(fails: false)
        #expect(try isNoted() && files.contents.isNoted(7))

        _ = files.contents.closed(7)
        files.end(7)
        write(fails: true)
        #expect(try isNoted() && files.contents.isNoted(7))
        write(fails: false)
        #expect(try !isNoted() && !files.contents.isNoted(7))
    }

    @Test("what a transaction attaches to a document is found by the next daemon")
    func restart() throws {
        let desk = try Desk()
        let key = try desk.insert("letter", .file, inode: 7)
        let entry = try desk.stashed(7)
        try desk.writer.transact { _ in desk.writer.state.pending.attach(entry, to: key) }
        let settings = Settings()
        let next = JournalWriter(
            journal: desk.writer.journal, stash: desk.stash, settings: settings,
            debounce: Debounce(settings))
        try next.transact { try next.readPriorContents($0) }
        #expect(next.state.pending[key]?.priorContents.compactMap(\.entry) == [entry])
    }

    @Test(
        "a stash file is removed only after the transaction in which its last document lets it go")
    func unneeded() throws {
        let desk = try Desk()
        let key = try desk.insert("letter", .file, inode: 7)
        let entry = try desk.stashed(7)
        try desk.writer.transact { _ in desk.writer.state.pending.attach(entry, to: key) }
        desk.writer.removeUnneededStashFiles()
        #expect(desk.holds(entry))
        #expect(throws: VolumeError.self) {
            try desk.writer.transact { _ in
                desk.writer.state.pending[key] = nil
                throw Failure()
            }
        }
        desk.writer.removeUnneededStashFiles()
        #expect(desk.holds(entry))
        try desk.writer.transact { _ in desk.writer.state.pending[key] = nil }
        #expect(desk.holds(entry))
        desk.writer.removeUnneededStashFiles()
        #expect(!desk.holds(entry))
    }

    @Test("the stash file of a moved-aside inode goes to the document that had it elsewhere")
    func dependents() throws {
        let desk = try Desk()
        let key = try desk.insert("letter", .file, inode: 8)
        desk.writer.state.pending.touch(key) { $0.priorContents.append(.present(in: 7)) }
        let entry = try desk.stashed(7)
        let isContent = desk.writer.state.pending.transferContent(entry)
        #expect(isContent)
        #expect(desk.writer.state.pending[key]?.priorContents.map(\.place) == [.stash(entry)])
        #expect(desk.writer.state.pending.dependents[7] == nil)
    }

    @Test("work is retried at once while the journal finds space, but not for ever")
    func retries() {
        let pauses = WorkPauses(takeRetry: { true })
        for _ in 0..<3 {
            pauses.pause(seconds: 3600)
            #expect(!pauses.isPaused)
        }
        pauses.pause(seconds: 3600)
        #expect(pauses.isPaused)
        pauses.endAll()
        pauses.succeeded()
        pauses.pause(seconds: 3600)
        #expect(!pauses.isPaused)
    }

    @Test("a pause of recording is no pause of the events, and outlives one of all work")
    func recordingPause() {
        let pauses = WorkPauses(takeRetry: { false })
        pauses.pause(.recording, seconds: 3600)
        #expect(!pauses.isPaused && pauses.isRecordingPaused)
        pauses.pause(seconds: 3600)
        #expect(pauses.isPaused)
        pauses.endPauseOfAll()
        #expect(!pauses.isPaused && pauses.isRecordingPaused)
        pauses.endAll()
        #expect(!pauses.isRecordingPaused)
    }

    @Test("the time of closing is that of the first call, and work is given up after it")
    func closing() {
        let closing = ClosingTime()
        #expect(!closing.isOverdue && !closing.isLastWork)
        closing.begin(seconds: -1)
        closing.begin(seconds: 3600)
        #expect(closing.isOverdue)
        #expect(throws: VolumeError.self) { try closing.check() }
        #expect(!closing.isLastWork)
        closing.beginLastWork()
        #expect(closing.isLastWork)
    }

    @Test("a problem is reported until it is over")
    func reports() {
        let reports = RecorderReports(log: Logger(label: "test"))
        reports.tell("disk", "The disk is full.")
        reports.tell("disk", "The disk is fuller.")
        #expect(reports.report.problems.mapValues(\.words) == ["disk": "The disk is fuller."])
        reports.untell("disk")
        #expect(reports.report.problems.isEmpty)
    }

    @Test("directories are ordinary, packages, parts of packages, ignored or unknown")
    func roles() throws {
        let desk = try Desk()
        let root = try Descriptor(
            opening: desk.scratch.path, in: AT_FDCWD, flags: O_RDONLY | O_DIRECTORY)
        try Data("build/\n".utf8).write(
            to: URL(fileURLWithPath: desk.scratch.path + "/.concordignore"))
        let roles = DirectoryRoles(
            writer: desk.writer, tree: root.raw, ignoreFile: IgnoreFile(tree: root.raw))
        let folder = try desk.insert("folder", .directory, inode: 20)
        let package = try desk.insert("Doc.rtfd", .package, in: folder, inode: 21)
        let build = try desk.insert("build", .directory, inode: 22)
        let found = try desk.writer.journal.read { reader in
            try [20, 21, 22, 23].map { try roles.location(of: $0, reader) }
        }
        #expect(
            found == [.directory(folder), .package(package, []), .ignored(build, []), .unknown])
        let inner = Location.package(package, []).inside(Name("pictures"))
        #expect(inner == .package(package, [Name("pictures")]))
        #expect(inner.path(from: .package(package, [])) == [Name("pictures")])
        #expect(inner.path(from: .directory(folder)) == nil)
        let path = try roles.path(of: inner)
        #expect(path == [Name("folder"), Name("Doc.rtfd"), Name("pictures")])
        desk.writer.state.locations[24] = inner
        roles.forgetLocations(below: 21)
        #expect(desk.writer.state.locations[24] == nil)
        #expect(desk.writer.state.locations[20] == .directory(folder))
    }

    // MARK: What events make of a document's contents

    private func entry(_ sequence: UInt64, _ kind: Stash.Kind, inode: UInt64, modified: Int64 = 1)
        -> Stash.Entry
    {
        Stash.Entry(
            file: "\(sequence)", sequence: sequence, kind: kind, inode: inode, spot: nil,
            saved: Int64(sequence), modified: modified,
            actor: Agent(process: 1, uid: 0, program: "x"))
    }

    private func save(_ time: Int64) -> PendingDocument.Save {
        PendingDocument.Save(actor: Agent(process: 1, uid: 0, program: "x"), time: time)
    }

    @Test("contents that were recovered come before those of this start, in their order")
    func recovered() {
        var work = PendingDocument(now: 0)
        work.save = save(1)
        work.replace(by: .stash(entry(8, .displaced, inode: 7)))
        work.insert(recovered: entry(3, .displaced, inode: 5))
        work.insert(recovered: entry(4, .displaced, inode: 6))
        #expect(work.priorContents.compactMap { $0.entry?.sequence } == [3, 4, 8])
        #expect(work.priorContents.map(\.isRecovered) == [true, true, false])
        #expect(work.priorContents.map(\.save) == [nil, nil, save(1)])
        #expect(work.save == nil)
    }

    @Test("a file that was written after it had left the document holds no content of it")
    func written() {
        var work = PendingDocument(now: 0)
        let snapshot = FileSnapshot(inode: 7, mode: 0o100644, size: 4, modified: 1, changed: 1)
        work.replace(by: .elsewhere(snapshot))
        var same = work
        let isSame = same.moveToStash(entry(1, .displaced, inode: 7))
        #expect(isSame)
        #expect(same.priorContents.map(\.isBase) == [false])
        let isContent = work.moveToStash(entry(1, .displaced, inode: 7, modified: 2))
        #expect(!isContent)
        #expect(work.priorContents.map(\.isBase) == [true])
    }

    @Test("a pre-image log needs the file that it was made of, until that is in the stash")
    func preImages() {
        var work = PendingDocument(now: 0)
        work.replace(by: .stash(entry(1, .preImages, inode: 7)))
        #expect(work.readsThrough(7))
        #expect(!work.readsThrough(8))
        work.replace(by: .stash(entry(2, .displaced, inode: 7)))
        #expect(!work.readsThrough(7))
        var other = PendingDocument(now: 0)
        other.replace(by: PriorContent.present(in: 7).place)
        let isContent = other.moveToStash(entry(3, .preImages, inode: 7))
        #expect(isContent)
        #expect(other.priorContents.map(\.isBase) == [false, true])
    }

    @Test("a copy made at open is taken back if the program changed nothing")
    func takenBack() {
        var work = PendingDocument(now: 0)
        work.save = save(1)
        work.replace(by: .stash(entry(1, .copied, inode: 7)))
        var other = work
        other.takeBackCopy(of: 8)
        #expect(other.priorContents.count == 1)
        var late = work
        late.supersede(version: nil)
        late.takeBackCopy(of: 7)
        #expect(late.priorContents.count == 1, "a version from the hub came in between")
        work.takeBackCopy(of: 7)
        #expect(work.priorContents.isEmpty && work.save == save(1))
    }

    @Test("what is saved after it was replaced becomes a conflict version")
    func late() {
        var work = PendingDocument(now: 0)
        work.save = save(1)
        work.replace(by: .stash(entry(1, .displaced, inode: 7)))
        work.insert(copy: entry(2, .copied, inode: 7), ofDisplaced: 7)
        #expect(work.priorContents.map(\.save) == [save(1), nil], "the copy is the older save")
        work.note(save(2), ofDisplaced: 7, isLate: true)
        #expect(work.priorContents.map(\.becomesConflict) == [false, true])
        #expect(work.priorContents.map(\.save) == [save(1), save(2)])
    }

    @Test("a version from the hub makes conflict versions of what is not recorded, once")
    func superseded() {
        let (first, second) = (Identifier.random(), Identifier.random())
        var work = PendingDocument(now: 0)
        work.replace(by: .stash(entry(1, .displaced, inode: 7)))
        work.supersede(version: first)
        work.replace(by: .stash(entry(2, .displaced, inode: 8)))
        work.supersede(version: second)
        #expect(work.priorContents.map(\.base) == [first, second])
        #expect(work.priorContents.map(\.isLate) == [true, true])
        work.noteUnseen(base: first, mergesOnlyManually: true)
        #expect(work.priorContents.map(\.isUnseen) == [false, true])
        #expect(work.priorContents[1].mergesOnlyManually)
    }
}
