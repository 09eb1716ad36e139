import Foundation
import Glibc
import Model
import Support
import Testing

@testable import Volume

/// Btrfs puts the contents of a file that is synced into a log. If the file is then emptied,
/// written again and renamed, the log gets its new size and keeps its old contents. After a loss of
/// power the file holds the beginning of what was synced, which no program wrote.
@Suite(
    .enabled(
        if: geteuid() == 0 && LoopDisk.Kind.btrfs.isPossible,
        "it takes root to mount a disk with Btrfs"))
struct ShortenedFileTests {
    let program = Program(process: 10, name: "emacs")
    private let long = String(repeating: "long ", count: 700)

    /// How a file that was emptied and written again got another name.
    enum Naming: CaseIterable {
        case renamed, replaced, removed, movedInPackage

        var directory: String { self == .movedInPackage ? "p.pages/" : "" }
    }

    /// Saves the document, and others, without which its loss would look like that of the tree.
    private func save(_ naming: Naming, _ tree: ProgramTree) throws {
        if naming == .movedInPackage { try tree.mkdir("p.pages", by: program) }
        try tree.save(naming.directory + "a", long, by: program)
        for number in 0..<10 { try tree.save("other \(number)", "whole", by: program) }
        #expect(tree.quiet())
    }

    private func saveAgain(_ naming: Naming, _ tree: ProgramTree) throws {
        let path = naming.directory + "a"
        try tree.save(path, "short", by: program)
        switch naming {
        case .renamed, .movedInPackage: try tree.rename(path, path + "~", by: program)
        case .replaced: try tree.replace(path, Array("whole".utf8), by: program)
        case .removed: try tree.unlink(path, by: program)
        }
    }

    /// Loses the power after a sync of another file has written the log.
    private func losePower(_ tree: ProgramTree, _ disk: LoopDisk) throws {
        let other = Glibc.open("\(disk.path)/other", O_WRONLY | O_CREAT, 0o600)
        #expect(write(other, "x", 1) == 1)
        #expect(fsync(other) == 0)
        close(other)
        try disk.keep()
        tree.volume.recorder.abandon()
        var settings = ProgramTree.fast
        settings.clocks.boot = { "another one" }
        try tree.reopen(settings) { try disk.restore() }
        #expect(tree.quiet())
    }

    /// The texts of all files in all versions.
    private func texts(_ tree: ProgramTree) throws -> Set<String> {
        let versions = try tree.volume.journal.read { reader in
            var found: [Version] = []
            try reader.forEachItem { found += try reader.versions(of: $0.key) }
            return found
        }
        return try Set(versions.flatMap { Array(try tree.packageFiles($0).values) })
    }

    /// A program that does not sync: the recorder had written the contents to the disk.
    @Test(arguments: Naming.allCases) func afterARecording(_ naming: Naming) throws {
        let disk = try LoopDisk(.btrfs, megabytes: 256)
        let tree = try ProgramTree(store: "\(disk.path)/store")
        try save(naming, tree)
        try saveAgain(naming, tree)
        try losePower(tree, disk)
        #expect(try texts(tree).isSubset(of: [long, "short", "whole"]))
        tree.stop()
    }

    /// The contents are those of a version, and were synced after it was recorded.
    @Test(arguments: Naming.allCases) func afterASyncOfAVersion(_ naming: Naming) throws {
        let disk = try LoopDisk(.btrfs, megabytes: 256)
        let tree = try ProgramTree(store: "\(disk.path)/store")
        try save(naming, tree)
        tree.volume.recorder.abandon()
        let file = Glibc.open(tree.real(naming.directory + "a"), O_RDWR)
        #expect(pwrite(file, long, 1, 0) == 1)
        #expect(fsync(file) == 0)
        close(file)
        try saveAgain(naming, tree)
        try losePower(tree, disk)
        #expect(try texts(tree).isSubset(of: [long, "whole"]))
        if naming == .renamed {
            #expect(tree.contents("a~") == Array(long.utf8.prefix(5)), "Btrfs does this")
            #expect(try VolumeStatus(of: tree.volume).problems.contains { $0.contains("a~") })
            try tree.save("a~", "finished", by: program)
            #expect(tree.quiet())
            #expect(try tree.texts("a~").last == "finished")
            #expect(try VolumeStatus(of: tree.volume).problems == [])
            try tree.checkInvariants()
        }
        tree.stop()
    }
}
