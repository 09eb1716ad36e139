import CLinux
import Foundation
import Glibc
import Model
import Support
import Testing

@testable import Volume

/// A loss of power that destroys a part of what was saved: the end of an append, or everything that
/// XFS had not written. These states are no versions, in packages and in the stash either.
@Suite struct PartialLossTests {
    let program = Program(process: 10, name: "editor")

    /// Events are processed on request only.
    private static func slow(copiedSizeMax: Int64? = nil) -> Settings {
        var settings = ProgramTree.fast
        settings.settleSeconds = 3_600
        settings.patienceSeconds = 3_600
        if let copiedSizeMax { settings.copiedSizeMax = copiedSizeMax }
        return settings
    }

    /// The recorder learns nothing of what programs do from now on. Otherwise it might know that a
    /// file was opened and not that it was closed; then the file would be one that was being saved.
    private func stopRecording(_ tree: ProgramTree) { tree.volume.recorder.abandon() }

    /// `damage` is what the disk has after the loss of power. The log of events is not synced, so
    /// it is lost as well.
    private func losePower(_ tree: ProgramTree, _ damage: () throws -> Void = {}) throws {
        stopRecording(tree)
        var settings = ProgramTree.fast
        settings.clocks.boot = { "another one" }
        try tree.reopen(settings) {
            try removeEventLog(ofStore: tree.store)
            try damage()
        }
        #expect(tree.quiet())
    }

    /// Gives a file blocks up to `size` that were never written.
    private func allocate(_ path: String, _ size: Int = 20_000) {
        let file = Glibc.open(path, O_WRONLY)
        #expect(posix_fallocate(file, 0, off_t(size)) == 0)
        close(file)
    }

    private func size(_ path: String) -> Int {
        var status = stat()
        return lstat(path, &status) == 0 ? status.st_size : -1
    }

    private func text(_ tree: ProgramTree, _ path: String) throws -> String {
        try String(contentsOfFile: tree.real(path), encoding: .utf8)
    }

    private func stashed(_ tree: ProgramTree, _ kind: Stash.Kind) throws -> String {
        let names = try FileManager.default.contentsOfDirectory(atPath: tree.store + "/stash")
        let found = try #require(names.first { Stash.parse($0)?.kind == kind })
        return "\(tree.store)/stash/\(found)"
    }

    // MARK: Packages

    private func package(_ settings: Settings = slow()) throws -> ProgramTree {
        let tree = try ProgramTree(settings: settings)
        try tree.mkdir("Doc.rtfd", by: program)
        try tree.save("Doc.rtfd/a", "one", by: program)
        try tree.save("Doc.rtfd/b", "beside", by: program)
        #expect(tree.quiet())
        #expect(try packageVersions(tree) == [["a": "one", "b": "beside"]])
        return tree
    }

    private func packageVersions(_ tree: ProgramTree) throws -> [[String: String]] {
        try #require(try tree.volume.history.document(at: names("Doc.rtfd"))).versions
            .map { try tree.packageFiles($0) }
    }

    /// The file is the one of the last version again.
    @Test func anAppendToAFileOfAPackage() throws {
        let tree = try package()
        try losePower(tree) { allocate(tree.real("Doc.rtfd/a")) }
        #expect(try packageVersions(tree) == [["a": "one", "b": "beside"]])
        #expect(size(tree.real("Doc.rtfd/a")) == 3)
        try tree.save("Doc.rtfd/b", "new", by: program)
        #expect(tree.quiet())
        #expect(try packageVersions(tree).last == ["a": "one", "b": "new"])
        let findings = Examination.findings(in: tree.volume, repair: false, progress: { _, _ in })
        #expect(findings.filter { $0.severity == .damage }.isEmpty, "\(findings)")
        tree.stop()
    }

    enum Damage: CaseIterable { case lostEnd, emptied }

    /// Nothing else in the package has changed, so it shows its last version again.
    @Test(arguments: Damage.allCases) func allThatWasSavedInAPackage(_ damage: Damage) throws {
        let tree = try package()
        stopRecording(tree)
        try tree.save("Doc.rtfd/a", "changed", by: program)
        try tree.save("Doc.rtfd/b", "changed", by: program)
        try losePower(tree) {
            for name in ["a", "b"] {
                let path = tree.real("Doc.rtfd/\(name)")
                switch damage {
                case .lostEnd: allocate(path)
                case .emptied: #expect(truncate(path, 0) == 0)
                }
            }
        }
        #expect(try packageVersions(tree) == [["a": "one", "b": "beside"]])
        #expect(try text(tree, "Doc.rtfd/a") == "one")
        #expect(try text(tree, "Doc.rtfd/b") == "beside")
        #expect(tree.volume.recorder.reports.report.problems.isEmpty)
        try tree.save("Doc.rtfd/b", "new", by: program)
        #expect(tree.quiet())
        #expect(
            try packageVersions(tree) == [
                ["a": "one", "b": "beside"], ["a": "one", "b": "new"],
            ])
        let findings = Examination.findings(in: tree.volume, repair: false, progress: { _, _ in })
        #expect(findings.filter { $0.severity == .damage }.isEmpty, "\(findings)")
        tree.stop()
    }

    /// The files that were replaced by the lost ones are recorded and shown.
    @Test func whatWasReplacedByWhatIsLost() throws {
        let tree = try package()
        stopRecording(tree)
        for text in ["two", "three"] {
            try tree.replace("Doc.rtfd/a", Array(text.utf8), by: program)
            try tree.replace("Doc.rtfd/b", Array("beside \(text)".utf8), by: program)
        }
        try losePower(tree) {
            for name in ["a", "b"] {
                #expect(truncate(tree.real("Doc.rtfd/\(name)"), 0) == 0)
            }
        }
        #expect(
            try packageVersions(tree) == [
                ["a": "one", "b": "beside"], ["a": "two", "b": "beside two"],
            ])
        #expect(try text(tree, "Doc.rtfd/a") == "two")
        #expect(try text(tree, "Doc.rtfd/b") == "beside two")
        tree.stop()
    }

    /// The other file is from the save of which this one is lost. The package has no new version
    /// until the file is saved, also if the other one is.
    @Test(arguments: Damage.allCases) func aNewContentOfAFileInAPackage(_ damage: Damage) throws {
        let tree = try package()
        stopRecording(tree)
        try tree.save("Doc.rtfd/a", "changed", by: program)
        try tree.save("Doc.rtfd/b", "whole", by: program)
        try losePower(tree) {
            switch damage {
            case .lostEnd: allocate(tree.real("Doc.rtfd/a"))
            case .emptied: #expect(truncate(tree.real("Doc.rtfd/a"), 0) == 0)
            }
        }
        #expect(try packageVersions(tree) == [["a": "one", "b": "beside"]])
        let problems = tree.volume.recorder.reports.report.problems
        #expect(problems.values.contains { $0.words.contains("a in it") }, "\(problems)")
        try tree.save("Doc.rtfd/b", "new", by: program)
        #expect(tree.quiet())
        #expect(try packageVersions(tree) == [["a": "one", "b": "beside"]])
        try tree.save("Doc.rtfd/a", "again", by: program)
        #expect(tree.quiet())
        #expect(
            try packageVersions(tree) == [
                ["a": "one", "b": "beside"], ["a": "again", "b": "new"],
            ])
        tree.stop()
    }

    /// A program did it, and it had become a version before.
    @Test(arguments: Damage.allCases) func whatAProgramDidInAPackage(_ damage: Damage) throws {
        let tree = try package()
        switch damage {
        case .lostEnd:
            let handle = try tree.open("Doc.rtfd/a", O_WRONLY, by: program)
            #expect(posix_fallocate(handle.descriptor, 0, 20_000) == 0)
            tree.close(handle)
        case .emptied: try tree.save("Doc.rtfd/a", "", by: program)
        }
        #expect(tree.quiet())
        try losePower(tree)
        try tree.save("Doc.rtfd/b", "new", by: program)
        #expect(tree.quiet())
        let count = damage == .emptied ? 0 : 20_000
        let versions = try packageVersions(tree)
        #expect(versions.map { $0["a"]?.utf8.count } == [3, count, count])
        #expect(versions.last?["b"] == "new")
        tree.stop()
    }

    // MARK: The stash

    @Test(arguments: [true, false]) func aReplacedFileWithoutItsEnd(_ isPackaged: Bool) throws {
        let tree = try package()
        let path = isPackaged ? "Doc.rtfd/a" : "a"
        try tree.save(path, "one", by: program)
        #expect(try tree.volume.history.document(at: names(isPackaged ? "Doc.rtfd" : path)) != nil)
        stopRecording(tree)
        try tree.append(path, Array("more".utf8), by: program)
        try tree.replace(path, Array("last".utf8), by: program)
        let old = try stashed(tree, .displaced)
        try losePower(tree) { allocate(old) }
        if isPackaged {
            #expect(try packageVersions(tree).map { $0["a"] } == ["one", "last"])
        } else {
            #expect(try tree.texts("a") == ["one", "last"])
        }
        tree.stop()
    }

    /// The version that was recorded ends in blocks that its program allocated and never wrote.
    @Test func aRecordedVersionWithAnAllocatedEnd() throws {
        let tree = try ProgramTree(settings: Self.slow())
        let handle = try tree.open("a", O_CREAT | O_WRONLY, by: program)
        try tree.write(handle, Array("one".utf8))
        #expect(posix_fallocate(handle.descriptor, 0, 20_000) == 0)
        tree.close(handle)
        #expect(try tree.versions("a").map(\.count) == [20_000])
        stopRecording(tree)
        try tree.replace("a", Array("last".utf8), by: program)
        try losePower(tree)
        #expect(try tree.versions("a").map(\.count) == [20_000, 4])
        tree.stop()
    }

    /// Of the old blocks of a file that was overwritten in place, some did not reach the disk.
    @Test(arguments: [true, false]) func oldBlocksThatAreLost(_ areLost: Bool) throws {
        let tree = try ProgramTree(settings: Self.slow(copiedSizeMax: 4))
        stopRecording(tree)
        var noise = Noise(seed: 5)
        let first = noise.bytes(300_000)
        var second = first
        try tree.save("a", first, by: program)
        let handle = try tree.open("a", O_RDWR, by: program)
        for offset in [0, 200_000] {
            let bytes = noise.bytes(1_000)
            try tree.write(handle, bytes, at: Int64(offset))
            second.replaceSubrange(offset..<offset + bytes.count, with: bytes)
        }
        tree.close(handle)
        let old = try stashed(tree, .preImages)
        try losePower(tree) {
            guard areLost else { return }
            let file = Glibc.open(old, O_WRONLY)
            let zeroRange: Int32 = 0x10
            #expect(fsync(file) == 0)
            #expect(cl_fallocate(file, zeroRange, 0, 65_536) == 0)
            close(file)
        }
        #expect(try tree.versions("a") == (areLost ? [second] : [first, second]))
        tree.stop()
    }
}
