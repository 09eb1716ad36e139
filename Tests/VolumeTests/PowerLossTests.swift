import CLinux
import Foundation
import Glibc
import Model
import Support
import Synchronization
import SystemCalls
import Testing

@testable import Volume

/// Contents that were confirmed to be on the disk survive a loss of power, whatever was done to the
/// document since.
@Suite(.serialized, .enabled(if: geteuid() == 0, "mounting a disk of its own takes root"))
struct PowerLossTests {
    let program = Program(process: 10, name: "nano")

    /// What a program does to a document whose first version was confirmed to be on the disk.
    enum Overwriting: CaseIterable {
        case emptied, inPlace, inPlaceTwice, truncated, shrunk, replaced, emptiedAgain, unlinked
    }

    /// The power fails when the program's fsync(2) returns.
    private func powerLoss(
        _ tree: ProgramTree, _ disk: LossyDisk, _ body: () throws -> Void
    ) throws {
        #expect(tree.quiet())
        try tree.volume.safety.wait(for: .disk, at: names("a"), timeoutSeconds: 60)
        try body()
        try disk.cutPower()
        try tree.crash { try disk.restorePower() }
        #expect(tree.quiet())
    }

    @Test(arguments: Overwriting.allCases, [5_000, 3_000_000])
    func aConfirmedVersionOutlivesItsOverwriting(_ how: Overwriting, size: Int) throws {
        let disk = try LossyDisk()
        let tree = try ProgramTree(store: disk.path + "/store")
        var noise = Noise(seed: 7)
        let first = noise.bytes(size)
        let second = noise.bytes(size)
        try tree.save("a", first, by: program)
        try powerLoss(tree, disk) { try overwrite("a", second, how, tree) }
        let document = try #require(try tree.volume.history.document(at: names("a")))
        let contents = try document.versions.map { try tree.bytes(of: $0) }
        #expect(contents.contains(first), "\(contents.map(\.count))")
        try tree.checkInvariants()
        tree.stop()
    }

    /// What a loss of power undoes in the tree must not look like a change by a program, which the
    /// hub would be told of. A volume without a hub may get one later.
    enum Naming: CaseIterable { case directory, symlink, moved, removed }

    @Test(arguments: Naming.allCases) func theJournalIsNeverAheadOfTheTree(_ how: Naming) throws {
        let disk = try LossyDisk()
        let tree = try ProgramTree(store: disk.path + "/store", belongsToHub: false)
        try tree.save("a", "text", by: program)
        #expect(tree.quiet())
        try rewriteLog(tree)
        switch how {
        case .directory: try tree.mkdir("d", by: program)
        case .symlink: try tree.symlink("a", "link", by: program)
        case .moved: try tree.rename("a", "b", by: program)
        case .removed: try tree.unlink("a", by: program)
        }
        // Only the events, because a document that is recorded is synced.
        #expect(tree.quiet())
        try disk.cutPower()
        try tree.crash { try disk.restorePower() }
        #expect(tree.quiet())
        let items = ["a", "b", "d", "link"].filter { (try? tree.item($0)) != nil }
        switch how {
        case .directory: #expect(items == ["a", "d"])
        case .symlink: #expect(items == ["a", "link"])
        case .moved: #expect(items == ["b"])
        case .removed: #expect(items == [])
        }
        tree.stop()
    }

    /// From now on the journal's log is written again from its beginning, so syncing it writes
    /// nothing else.
    private func rewriteLog(_ tree: ProgramTree) throws {
        for number in 0..<300 {
            try tree.volume.journal.write { t in try t.set("test", to: "\(number)") }
        }
        try tree.volume.journal.restartLog()
    }

    private func syncAll(on disk: LossyDisk) throws {
        let mounted = try Descriptor(opening: disk.path, flags: O_RDONLY | O_DIRECTORY)
        try check(cl_syncfs(mounted.raw))
    }

    /// The contents of a removed document were recorded and left the stash, and a new document got
    /// their inode number. A loss of power that undoes both must not give them to the new document.
    @Test func aNumberThatIsUsedAgainGivesNobodyOtherContents() throws {
        let disk = try LossyDisk()
        var settings = ProgramTree.fast
        settings.settleSeconds = 1
        settings.patienceSeconds = 5
        let tree = try ProgramTree(
            store: disk.path + "/store", settings: settings, belongsToHub: false)
        try tree.save("kept", "kept", by: program)
        // The packs have both contents, so that recording them once more syncs nothing.
        for text in ["one", "two", "one"] {
            try tree.save("a", text, by: program)
            #expect(tree.quiet())
        }
        let inode = try #require(try tree.item("a")).inode
        try rewriteLog(tree)
        try tree.unlink("a", by: program)
        // This is before the second that the recorder waits for.
        try syncAll(on: disk)
        #expect(tree.quiet())
        var held: [ProgramTree.Handle] = []
        var name = ""
        for number in 0..<200 where name.isEmpty {
            held.append(try tree.open("\(number)", O_CREAT | O_EXCL | O_WRONLY, by: program))
            var status = stat()
            #expect(fstat(held[held.count - 1].descriptor, &status) == 0)
            if UInt64(status.st_ino) == inode { name = "\(number)" }
        }
        try #require(!name.isEmpty, "no file got the inode number again")
        try wait(seconds: 30, for: "the new document to be known") { try tree.item(name) }
        try disk.cutPower()
        for handle in held { tree.close(handle) }
        try tree.crash { try disk.restorePower() }
        #expect(tree.quiet())
        #expect(try owners(tree) == ["a", "kept"])
        tree.stop()
    }

    /// A loss of power has undone in the journal what it has not undone in the tree: a new document
    /// has the inode number of one that the journal still knows, and had a copy made of it.
    @Test func aNumberThatTheJournalKnowsAsAnothersGivesItNothing() throws {
        let tree = try ProgramTree()
        try tree.save("empty", "", by: program)
        try tree.save("b", "one", by: program)
        #expect(tree.quiet())
        let item = try #require(try tree.item("empty"))
        try tree.crash {
            #expect(rename(tree.real("empty"), tree.real("b")) == 0)
            try Data("three".utf8).write(to: URL(filePath: tree.real("b")), options: [])
            var status = stat()
            #expect(lstat(tree.real("b"), &status) == 0 && UInt64(status.st_ino) == item.inode)
            #expect(lstat(tree.real(""), &status) == 0)
            let name = [
                "100", "c", String(item.inode, radix: 16), String(status.st_ino, radix: 16), "1",
                "1", "0", "vim", "b",
            ].joined(separator: "-")
            let copy = URL(filePath: "\(tree.store)/stash/\(name)")
            try Data("two".utf8).write(to: copy)
        }
        #expect(tree.quiet())
        #expect(try owners(tree) == ["b"])
        #expect(try tree.texts("b").contains("two"))
        tree.stop()
    }

    /// A loss of power has destroyed the events of a save, of which the stash has the old contents,
    /// and a program saves something else before the scan has looked.
    @Test func aCopyWhoseEventsAreLostBelongsToItsFile() throws {
        let tree = try ProgramTree(isStepwise: true)
        let recorder = { tree.volume.recorder }
        _ = recorder().begin([])
        try tree.save("a", "one", by: program)
        tree.settle()
        try tree.crash {
            try Data("three".utf8).write(to: URL(filePath: tree.real("new")), options: [])
            var status = stat()
            #expect(lstat(tree.real("new"), &status) == 0)
            #expect(rename(tree.real("new"), tree.real("a")) == 0)
            let copy = "100-c-\(String(status.st_ino, radix: 16))-0-1-1-0-vim-"
            try Data("two".utf8).write(to: URL(filePath: "\(tree.store)/stash/\(copy)"))
        }
        _ = recorder().begin(tree.volume.logged)
        try tree.save("other", "text", by: program)
        tree.settle()
        let key = try #require(try tree.item("a")).key
        let versions = try tree.volume.journal.read { try $0.versions(of: key) }
            .sorted { $0.number < $1.number }
        let texts = versions.compactMap { try? tree.bytes(of: $0) }
            .map { String(decoding: $0, as: UTF8.self) }
        // The only bytes of "one" were replaced while the volume was not open.
        #expect(texts == ["two", "three"])
        recorder().abandon()
    }

    /// The names of all documents that have versions, also of deleted ones.
    private func owners(_ tree: ProgramTree) throws -> [String] {
        try Command(
            "sqlite3", "-readonly", "\(tree.store)/journal.sqlite",
            "SELECT CAST(name AS TEXT) FROM items WHERE latest > 0 ORDER BY 1"
        ).succeed().split(separator: "\n").map(String.init)
    }

    /// How the clocks mislead about the time of a save that a loss of power destroyed.
    enum Misleading: CaseIterable {
        case nothing, clockIsBehind, fileFromTheFuture, daemonIsBehindTheFiles
    }

    @Test(arguments: Misleading.allCases) func aDestroyedSaveIsNoVersion(_ how: Misleading) throws {
        let tree = try ProgramTree()
        for text in ["one", "two"] {
            try tree.save("a", text, by: program)
            #expect(tree.quiet())
        }
        tree.volume.recorder.abandon()
        var settings = ProgramTree.fast
        settings.clocks.boot = { "another one" }
        // A machine without a battery begins in 1970.
        if how == .clockIsBehind { settings.clocks.files = { _ in 86_400_000_000_000 } }
        if how == .daemonIsBehindTheFiles {
            settings.clocks.wall = { 86_400_000_000_000 }
            try Command(
                "sqlite3", "\(tree.store)/journal.sqlite", "UPDATE versions SET saved = 1"
            ).succeed()
        }
        try tree.reopen(settings) {
            let file = open(tree.real("a"), O_WRONLY | O_TRUNC)
            #expect(posix_fallocate(file, 0, 5_000) == 0)
            let time = timespec(tv_sec: how == .fileFromTheFuture ? 4_000_000_000 : 1, tv_nsec: 0)
            if how == .nothing || how == .fileFromTheFuture {
                #expect(futimens(file, [time, time]) == 0)
            }
            close(file)
        }
        #expect(tree.quiet())
        let versions = try #require(try tree.volume.history.document(at: names("a"))).versions
        let contents = versions.compactMap { try? tree.bytes(of: $0) }
        #expect(contents.map(\.count) == ["one".utf8.count])
        tree.stop()
    }

    /// XFS leaves a file empty whose contents were not synced. The document shows its last version
    /// again, unless a program is known to have emptied it.
    @Test(arguments: [true, false]) func anEmptiedDocumentShowsItsLastVersion(_ lostPower: Bool)
        throws
    {
        let tree = try ProgramTree()
        // The contents of "b" are in the packs, so that "a" can show them again.
        for (name, text) in [("b", "two"), ("b", "three"), ("a", "one"), ("a", "two")] {
            try tree.save(name, text, by: program)
            #expect(tree.quiet())
        }
        tree.volume.recorder.abandon()
        var settings = ProgramTree.fast
        if lostPower { settings.clocks.boot = { "another one" } }
        let inode = try #require(try tree.item("a")).inode
        let changed = Mutex<[UInt64]>([])
        tree.onOpening = { volume in
            volume.changedFiles.set { inode in changed.withLock { $0.append(inode) } }
        }
        try tree.reopen(settings) { #expect(truncate(tree.real("a"), 0) == 0) }
        #expect(tree.quiet())
        #expect(
            changed.withLock { $0 } == (lostPower ? [inode] : []),
            "the mount drops what the kernel has cached of it")
        #expect(try sizes(of: "a", tree) == (lostPower ? [3, 3] : [3, 3, 0]))
        var status = stat()
        #expect(lstat(tree.real("a"), &status) == 0 && status.st_size == (lostPower ? 3 : 0))
        try tree.truncate("a", to: 0, by: program)
        #expect(tree.quiet())
        #expect(try sizes(of: "a", tree).last == 0)
        tree.stop()
    }

    /// A file that was appended to has its new size and only zeros at its end. It must be shown as
    /// it was before, unless a program has allocated the end itself.
    @Test(arguments: [true, false]) func anAppendThatIsLostIsNoVersion(_ isLost: Bool) throws {
        let tree = try ProgramTree()
        try tree.save("a", "one", by: program)
        #expect(tree.quiet())
        tree.volume.recorder.abandon()
        var settings = ProgramTree.fast
        settings.clocks.boot = { "another one" }
        try tree.reopen(settings) {
            guard isLost else { return }
            let file = open(tree.real("a"), O_WRONLY)
            #expect(posix_fallocate(file, 0, 20_000) == 0)
            close(file)
        }
        #expect(tree.quiet())
        #expect(try sizes(of: "a", tree) == [3])
        var status = stat()
        #expect(lstat(tree.real("a"), &status) == 0 && status.st_size == 3)
        let handle = try tree.open("a", O_WRONLY, by: program)
        #expect(posix_fallocate(handle.descriptor, 0, 20_000) == 0)
        tree.close(handle)
        #expect(tree.quiet())
        #expect(try sizes(of: "a", tree) == [3, 20_000])
        tree.stop()
    }

    /// The same within a block that the file already had. The program may have changed what the
    /// file held before, too, which was recorded from a copy, and this is not there either.
    @Test(arguments: [false, true])
    func anAppendWithinABlockThatIsLostIsNoVersion(isChanged: Bool) throws {
        let tree = try ProgramTree()
        // The packs have "two", because b had it.
        let saves = [("b", "two"), ("b", "three"), ("a", "one")]
        for (name, text) in saves + (isChanged ? [("a", "two")] : []) {
            try tree.save(name, text, by: program)
            #expect(tree.quiet())
        }
        tree.volume.recorder.abandon()
        var settings = ProgramTree.fast
        settings.clocks.boot = { "another one" }
        try tree.reopen(settings) {
            let file = open(tree.real("a"), O_WRONLY)
            let bytes = Array("one".utf8) + [UInt8](repeating: 0, count: 100)
            #expect(pwrite(file, bytes, bytes.count, 0) == bytes.count)
            close(file)
        }
        try wait(seconds: 30, for: "a to show its last version") {
            var status = stat()
            return lstat(tree.real("a"), &status) == 0 && status.st_size == 3 ? true : nil
        }
        #expect(tree.quiet())
        #expect(try sizes(of: "a", tree) == (isChanged ? [3, 3] : [3]))
        let file = try Descriptor(opening: tree.real("a"), flags: O_RDONLY)
        let shown = PlaceholderMark(of: file.raw)?.version
        #expect(try shown == (isChanged ? tree.item("a")?.current : nil))
        tree.stop()
    }

    /// An arrival was in the tree before the crash and not in the journal, and the hub has another
    /// version by now, so nobody expects it any more.
    ///
    /// Its inode number may be that of the former file, which is free when the arrival is made.
    @Test(arguments: [false, true])
    func aPlaceholderOfAnUnknownVersion(hasFormerNumber: Bool) throws {
        let tree = try ProgramTree()
        for (name, text) in [("b", "two"), ("b", "three"), ("a", "two")] {
            try tree.save(name, text, by: program)
            #expect(tree.quiet())
        }
        let item = try #require(try tree.item("a"))
        try tree.crash {
            let name = hasFormerNumber ? "a" : "new"
            let file = open(tree.real(name), O_RDWR | O_CREAT | O_TRUNC, 0o644)
            try check(rename(tree.real(name), tree.real("a")))
            defer { close(file) }
            try PlaceholderMark(item: item.id, version: .random()).makePlaceholder(
                of: file, size: 7_000, modified: 1_000_000_000, mode: 0o644)
            #expect((FileSnapshot(of: file).inode == item.inode) == hasFormerNumber)
        }
        // Nothing is pending before the scan has begun.
        try wait(seconds: 30, for: "a to show its last version") {
            var status = stat()
            return lstat(tree.real("a"), &status) == 0 && status.st_size == 3 ? true : nil
        }
        #expect(tree.quiet())
        #expect(try sizes(of: "a", tree) == [3])
        let file = try Descriptor(opening: tree.real("a"), flags: O_RDONLY)
        #expect(PlaceholderMark(of: file.raw)?.version == item.current)
        tree.stop()
    }

    /// A placeholder whose mark cannot be understood is no file of zeros.
    @Test(arguments: [5, 40]) func aDamagedMark(length: Int) throws {
        let tree = try ProgramTree()
        // The packs have "two", because b had it.
        for (name, text) in [("b", "two"), ("b", "three"), ("a", "two")] {
            try tree.save(name, text, by: program)
            #expect(tree.quiet())
        }
        try tree.crash {
            let file = open(tree.real("a"), O_WRONLY | O_TRUNC)
            defer { close(file) }
            let bytes = [UInt8](repeating: 7, count: length)
            #expect(cl_setxattr_fd(file, PlaceholderMark.attribute, bytes, length, 0) == 0)
            #expect(ftruncate(file, 7_000) == 0)
            #expect(PlaceholderMark(of: file) != nil)
        }
        try wait(seconds: 30, for: "a to show its last version") {
            var status = stat()
            return lstat(tree.real("a"), &status) == 0 && status.st_size == 3 ? true : nil
        }
        #expect(tree.quiet())
        #expect(try sizes(of: "a", tree) == [3])
        tree.stop()
    }

    private func sizes(of name: String, _ tree: ProgramTree) throws -> [UInt64] {
        try #require(try tree.volume.history.document(at: names(name))).versions
            .sorted { $0.number < $1.number }.map(\.size)
    }

    private func overwrite(
        _ path: String, _ bytes: [UInt8], _ how: Overwriting, _ tree: ProgramTree
    ) throws {
        switch how {
        case .emptied, .emptiedAgain:
            let count = how == .emptied ? 1 : 3
            for _ in 0..<count {
                let handle = try tree.open(path, O_WRONLY | O_TRUNC, by: program)
                try tree.write(handle, bytes)
                try tree.sync(handle)
                tree.close(handle)
            }
        case .inPlace, .inPlaceTwice:
            let handle = try tree.open(path, O_RDWR, by: program)
            try tree.write(handle, Array(bytes[..<1_000]), at: 2_000)
            try tree.sync(handle)
            if how == .inPlaceTwice {
                try tree.write(handle, Array(bytes[(bytes.count - 4_000)...]), at: 100)
                try tree.write(handle, Array(bytes[..<3_000]), at: Int64(bytes.count) - 3_000)
                try tree.sync(handle)
            }
            tree.close(handle)
        case .truncated, .shrunk:
            try tree.truncate(path, to: how == .truncated ? 0 : 1_000, by: program)
            try tree.syncAll(path)
        case .replaced:
            let handle = try tree.open("new", O_CREAT | O_WRONLY, by: program)
            try tree.write(handle, bytes)
            try tree.sync(handle)
            tree.close(handle)
            try tree.rename("new", path, by: program)
            try tree.syncAll(path)
        case .unlinked:
            try tree.unlink(path, by: program)
            try tree.save(path, bytes, by: program)
            try tree.syncAll(path)
        }
    }
}
