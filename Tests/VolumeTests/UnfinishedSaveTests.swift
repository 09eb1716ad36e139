import Foundation
import Glibc
import Model
import Support
import Synchronization
import Testing

@testable import Volume

/// A file system may have put a part of a save on the disk when the power fails: what was flushed
/// while a program was writing. That is nobody's version.
struct UnfinishedSaveTests {
    let program = Program(process: 10, name: "nano")

    /// How the program was writing when the power failed.
    enum Saving: CaseIterable {
        case new, emptied, inPlace, appended, inPackage, replaced
        /// The document had been saved in place often, so nothing of it is moved aside any more.
        case inPlaceAgain

        var file: String { self == .inPackage ? "p.pages/a" : "a" }
        var document: String { self == .inPackage ? "p.pages" : "a" }
    }

    private let first = UnfinishedSaveTests.noise(7, 3_000_000)
    private let part = UnfinishedSaveTests.noise(8, 100_000)

    private static func noise(_ seed: UInt64, _ count: Int) -> [UInt8] {
        var noise = Noise(seed: seed)
        return noise.bytes(count)
    }

    /// Returns what the document's versions held when the program began.
    private func begin(_ how: Saving, _ tree: ProgramTree) throws -> (
        handle: ProgramTree.Handle, before: [[UInt8]]
    ) {
        if how == .inPackage { try tree.mkdir("p.pages", by: program) }
        if how != .new {
            try tree.save(how.file, first, by: program)
            #expect(tree.quiet())
        }
        if how == .inPlaceAgain {
            for number in UInt8(0)..<3 {
                try tree.writeInPlace("a", [number], at: 0, by: program)
                #expect(tree.quiet())
            }
        }
        let before = try contents(tree, how)
        let flags =
            switch how {
            case .new: O_WRONLY | O_CREAT
            case .emptied, .replaced, .inPackage: O_WRONLY | O_TRUNC
            case .inPlace, .inPlaceAgain: O_WRONLY
            case .appended: O_WRONLY | O_APPEND
            }
        let handle = try tree.open(how.file, flags, by: program)
        try tree.write(handle, part)
        return (handle, before)
    }

    private func unfinished(_ tree: ProgramTree) throws -> Int? {
        Int(
            try Command(
                "sqlite3", "\(tree.store)/journal.sqlite", "SELECT count(*) FROM unfinished"
            ).succeed().trimmingCharacters(in: .whitespacesAndNewlines))
    }

    private func waitUntilKnown(_ tree: ProgramTree) throws {
        try wait(seconds: 30, for: "the journal to know the open file") {
            try unfinished(tree) == 1 ? true : nil
        }
    }

    private func losePower(
        _ tree: ProgramTree, keepsLog: Bool, _ handle: ProgramTree.Handle
    ) throws {
        try losePower(tree, keepsLog: keepsLog) {
            Glibc.close(handle.descriptor)
            Glibc.close(handle.path)
        }
    }

    private func losePower(_ tree: ProgramTree, keepsLog: Bool, _ end: () -> Void) throws {
        tree.volume.recorder.abandon()
        var settings = ProgramTree.fast
        settings.clocks.boot = { "another one" }
        try tree.reopen(settings) {
            end()
            if !keepsLog { try removeEventLog(ofStore: tree.store) }
        }
        #expect(tree.quiet())
    }

    private func contents(_ tree: ProgramTree, _ how: Saving) throws -> [[UInt8]] {
        guard let history = try tree.volume.history.document(at: names(how.document)) else {
            return []
        }
        return try history.versions.map { version in
            let content = try tree.volume.versions.content(of: version.id)
            let index = content.manifest.entries.firstIndex { $0.kind == .file } ?? 0
            return try tree.bytes(content, entry: index)
        }
    }

    @Test(arguments: Saving.allCases, [true, false])
    func aPartOfASaveIsNoVersion(_ how: Saving, keepsLog: Bool) throws {
        let tree = try ProgramTree()
        let (handle, before) = try begin(how, tree)
        try waitUntilKnown(tree)
        if how == .replaced {
            try tree.save("b", "other", by: program)
            try tree.rename("b", "a", by: program)
        }
        let held = tree.contents(how.file)
        try losePower(tree, keepsLog: keepsLog, handle)
        let after = try contents(tree, how)
        if how == .replaced {
            #expect(after == before + [Array("other".utf8)])
        } else {
            #expect(after == before)
            #expect(tree.contents(how.file) == held)
            var place = how.document
            for next in [how.document, how.document == "a" ? "q" : "q.pages", how.document] {
                if next != place { try tree.rename(place, next, by: program) }
                place = next
                #expect(tree.quiet())
                let problems = try VolumeStatus(of: tree.volume).problems
                #expect(
                    problems.contains {
                        $0.hasPrefix("\(place) ") && $0.contains("the machine stopped")
                    })
                // The file is as it was when it was looked at, and is not looked at again.
                try tree.remount()
                #expect(tree.quiet())
            }
        }
        #expect(how == .new ? after.isEmpty : after.contains(first))
        try tree.save(how.file, "finished", by: program)
        #expect(tree.quiet())
        #expect(try contents(tree, how).last == Array("finished".utf8))
        try tree.remount()
        #expect(tree.quiet())
        #expect(try VolumeStatus(of: tree.volume).problems == [])
        #expect(try unfinished(tree) == (how == .replaced ? 1 : 0))
        try tree.checkInvariants()
        tree.stop()
    }

    /// What a program has synced is no part, whether the journal knew the open file or not.
    @Test(arguments: [true, false]) func whatIsSyncedIsAVersion(isKnown: Bool) throws {
        let tree = try ProgramTree()
        try tree.save("a", "one", by: program)
        #expect(tree.quiet())
        let handle = try tree.open("a", O_WRONLY | O_TRUNC, by: program)
        try tree.write(handle, Array("tw".utf8))
        if isKnown {
            try tree.sync(handle)
            try waitUntilKnown(tree)
        } else {
            try waitUntilKnown(tree)
            try tree.sync(handle)
        }
        try losePower(tree, keepsLog: false, handle)
        #expect(try tree.texts("a") == ["one", "tw"])
        tree.stop()
    }

    /// The file has another name, and what got its former name is recorded.
    @Test func aRenamedFileStaysUnfinished() throws {
        let tree = try ProgramTree()
        let handle = try tree.open("a", O_WRONLY | O_CREAT, by: program)
        try tree.write(handle, Array("pa".utf8))
        try waitUntilKnown(tree)
        // A program that has it mapped keeps the renamed file from being recorded.
        let held = Glibc.open(tree.real("a"), O_WRONLY)
        tree.close(handle)
        try tree.rename("a", "a~", by: program)
        try tree.save("a", "new", by: program)
        try wait(seconds: 30, for: "the new document to be recorded") {
            try tree.texts("a").last == "new" ? true : nil
        }
        try losePower(tree, keepsLog: false) { Glibc.close(held) }
        #expect(try tree.volume.history.document(at: names("a~"))?.versions.isEmpty ?? true)
        #expect(try tree.texts("a") == ["new"])
        tree.stop()
    }

    /// A program saves as Emacs does while another one is still writing to the document. What that
    /// one has written by then is no content that the document had before, either.
    @Test(arguments: [true, false]) func aRenamedPartIsNoPriorContent(keepsLog: Bool) throws {
        let tree = try ProgramTree()
        let (handle, before) = try begin(.emptied, tree)
        try waitUntilKnown(tree)
        tree.volume.recorder.abandon()
        try tree.rename("a", "a~", by: program)
        try tree.save("a", "new", by: program)
        try losePower(tree, keepsLog: keepsLog, handle)
        #expect(try tree.versions("a") == before + [Array("new".utf8)])
        #expect(try tree.versions("a~").isEmpty)
        tree.stop()
    }

    /// The file's mode changes while it is read. No event says that a program has closed it.
    @Test(arguments: [false, true]) func aFileThatChangesWhileItIsReadIsRecorded(
        inPackage: Bool
    ) throws {
        let tree = try ProgramTree()
        let how: Saving = inPackage ? .inPackage : .new
        if inPackage { try tree.mkdir("p.pages", by: program) }
        try tree.save(how.file, "one", by: program)
        #expect(tree.quiet())
        let path = tree.real(how.file)
        let isDone = Mutex(false)
        let end = DispatchGroup()
        DispatchQueue.global().async(group: end) {
            while !isDone.withLock({ $0 }) {
                chmod(path, 0o600)
                chmod(path, 0o644)
            }
        }
        try tree.writeInPlace(how.file, first, at: 0, by: program)
        usleep(300_000)
        isDone.withLock { $0 = true }
        end.wait()
        #expect(tree.quiet())
        #expect(try contents(tree, how) == [Array("one".utf8), first])
        #expect(try unfinished(tree) == 0)
        tree.stop()
    }

    /// A program opens the file again within the same clock tick as its last save, so its times do
    /// not change.
    @Test(arguments: [Saving.emptied, .inPlace]) func aPartInTheTickOfTheLastSave(
        _ how: Saving
    ) throws {
        var settings = ProgramTree.fast
        if how == .inPlace { settings.copiedSizeMax = 4 }
        let tree = try ProgramTree(settings: settings)
        try tree.save("a", "one", by: program)
        #expect(tree.quiet())
        // Nothing is recorded before the file is open again.
        let handle = try tree.whileRecorderWaits {
            try tree.writeInPlace("a", first, at: 0, by: program)
            var saved = stat()
            #expect(stat(tree.real("a"), &saved) == 0)
            let flags = how == .emptied ? O_WRONLY | O_TRUNC : O_WRONLY
            let handle = try tree.open("a", flags, by: program)
            try tree.write(handle, part)
            let times = [saved.st_atim, saved.st_mtim]
            #expect(utimensat(AT_FDCWD, tree.real("a"), times, 0) == 0)
            return handle
        }
        try tree.save("b", "later", by: program)
        try wait(seconds: 30, for: "a later save to be recorded") {
            try tree.texts("b") == ["later"] ? true : nil
        }
        let versions = try tree.versions("a")
        #expect(!versions.contains { $0.count > 3 && $0 != first })
        tree.close(handle)
        #expect(tree.quiet())
        let last = how == .emptied ? part : part + first[part.count...]
        #expect(try tree.versions("a") == [Array("one".utf8), first, last])
        tree.stop()
    }

    /// A program may set the times of what it has saved to any time.
    @Test func aSaveEndsIt() throws {
        let tree = try ProgramTree()
        let (handle, _) = try begin(.emptied, tree)
        try waitUntilKnown(tree)
        try losePower(tree, keepsLog: false, handle)
        try tree.writeInPlace("a", Array("x".utf8), at: 0, by: program)
        try tree.setTime("a", seconds: 1)
        #expect(tree.quiet())
        #expect(try contents(tree, .emptied).last == Array("x".utf8) + part[1...])
        tree.stop()
    }

    /// What was closed and recorded before, or is a version's contents anyway, is no part.
    @Test func whatIsWholeStaysAVersion() throws {
        let tree = try ProgramTree()
        try tree.save("a", "one", by: program)
        #expect(tree.quiet())
        let handle = try tree.open("a", O_RDWR, by: program)
        try waitUntilKnown(tree)
        tree.close(handle)
        #expect(tree.quiet())
        #expect(try unfinished(tree) == 0)
        let again = try tree.open("a", O_RDWR, by: program)
        try waitUntilKnown(tree)
        try losePower(tree, keepsLog: false, again)
        #expect(try tree.texts("a") == ["one"])
        #expect(try VolumeStatus(of: tree.volume).problems == [])
        try tree.append("a", Array("two".utf8), by: program)
        #expect(tree.quiet())
        #expect(try tree.texts("a") == ["one", "onetwo"])
        tree.stop()
    }

    /// A daemon that is killed leaves what programs have written, and so has the file system.
    @Test func withoutALossOfPowerItIsAVersion() throws {
        let tree = try ProgramTree()
        let (handle, _) = try begin(.emptied, tree)
        try waitUntilKnown(tree)
        try tree.crash {
            Glibc.close(handle.descriptor)
            Glibc.close(handle.path)
        }
        #expect(tree.quiet())
        #expect(try contents(tree, .emptied) == [first, part])
        #expect(try unfinished(tree) == 0)
        tree.stop()
    }
}
