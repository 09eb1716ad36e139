import CLinux
import Foundation
import Glibc
import Journal
import Model
import Support
import Testing

@testable import Volume

/// The working tree is changed while the store is not open, which also happens in the moments
/// before a daemon is killed. `CONCORD_SEED` repeats one run.
@Suite struct DirectEditTests {
    static let seeds: [UInt64] = {
        if let seed = ProcessInfo.processInfo.environment["CONCORD_SEED"].flatMap(UInt64.init) {
            return [seed]
        }
        let isSoak = ProcessInfo.processInfo.environment["CONCORD_SOAK_MINUTES"] != nil
        return Array(1...(isSoak ? 3_000 : 40))
    }()

    private let program = Program(process: 10, name: "vim")

    @Test("a scan does not change access times")
    func accessTimes() throws {
        let tree = try ProgramTree()
        for directory in ["d", "P.rtfd"] { try tree.mkdir(directory, by: program) }
        for name in ["d/x", "P.rtfd/x", ".concordignore"] {
            try tree.save(name, "x", by: program)
        }
        #expect(tree.quiet())
        let paths = ["", "d", "d/x", "P.rtfd", "P.rtfd/x", ".concordignore"].map(tree.real)
        try tree.remount {
            try Command("touch", arguments: ["-a", "-d", "2001-01-01"] + paths).succeed()
            try Command("chmod", arguments: ["o+r"] + paths).succeed()
        }
        #expect(tree.quiet())
        for path in paths {
            var status = stat()
            #expect(stat(path, &status) == 0 && status.st_atim.tv_sec < 1_000_000_000, "\(path)")
        }
    }

    @Test("everything that was moved or changed is found, and nothing is lost", arguments: seeds)
    func movedAbout(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let destroys = seed.isMultiple(of: 2)
        let tree = try ProgramTree()
        let directories = ["d", "d/d", "d/e", "e", "e/d", "e/d/f", "f", "P.rtfd"]
        for directory in directories { try tree.mkdir(directory, by: program) }
        for directory in directories + ["."] {
            for name in ["x", "y"] where random.below(4) > 0 {
                try tree.save("\(directory)/\(name)", "\(directory) \(name)", by: program)
            }
        }
        #expect(tree.quiet())
        for _ in 0..<2 {
            let before = try versions(tree)
            var log: [String] = []
            try tree.remount {
                for _ in 0..<(1 + random.below(20)) {
                    log.append(disturb(tree, &random, destroys: destroys))
                }
            }
            if Self.seeds.count == 1 { print(log.joined(separator: "\n") + "\n") }
            if destroys {
                // The last contents of a document exist only in the tree, so they may be lost here.
                #expect(tree.quiet())
                try tree.checkTree()
            } else {
                try tree.checkInvariants()
                #expect(try before.isSubset(of: versions(tree)), "versions are gone")
            }
        }
        tree.stop()
    }

    @Test("a caller that waits for a document which the scan has not reached is not refused")
    func waitingForTheScan() throws {
        let tree = try ProgramTree()
        try tree.remount {
            for number in 0..<2_000 {
                let file = URL(fileURLWithPath: tree.real("f\(number)"))
                try Data("\(number)".utf8).write(to: file)
            }
        }
        try tree.volume.safety.wait(for: .disk, at: [Name("f1999")], timeoutSeconds: 60)
        #expect(try tree.volume.states.status(at: [Name("f1998")]).size == 4)
        #expect {
            try tree.volume.safety.wait(for: .disk, at: [Name("absent")], timeoutSeconds: 60)
        } throws: { ($0 as? VolumeError)?.code == .notFound }
        tree.stop()
    }

    @Test("a directory is moved, and a name in it is used for something else")
    func otherKinds() throws {
        let tree = try ProgramTree()
        for directory in ["d", "d/x", "d/z"] { try tree.mkdir(directory, by: program) }
        for name in ["d/y", "d/x/a", "d/z/b"] { try tree.save(name, name, by: program) }
        #expect(tree.quiet())
        let before = try versions(tree)
        try tree.remount {
            rename(tree.real("d"), tree.real("e"))
            rename(tree.real("e/x"), tree.real("f"))
            rename(tree.real("e/y"), tree.real("e/x"))
            rename(tree.real("e/z"), tree.real("f/z"))
            mkdir(tree.real("e/y"), 0o755)
            mkdir(tree.real("e/z"), 0o755)
            for name in ["e/y/c", "e/z/b"] {
                try Data("new".utf8).write(to: URL(fileURLWithPath: tree.real(name)))
            }
        }
        try tree.checkInvariants()
        #expect(try before.isSubset(of: versions(tree)))
        for (now, text) in [("f/a", "d/x/a"), ("e/x", "d/y"), ("f/z/b", "d/z/b")] {
            #expect(try tree.texts(now) == [text])
        }
        tree.stop()
    }

    @Test("a new file is not mistaken for the earlier file with the same inode number")
    func inodeUsedAgain() throws {
        // ext4 reuses the lowest free inode number.
        let disk = try LoopDisk(.ext4, megabytes: 64)
        let tree = try ProgramTree(store: "\(disk.path)/store")
        try tree.save("a", "text of a", by: program)
        #expect(tree.quiet())
        let id = try #require(try tree.item("a")).id
        var (before, after) = (stat(), stat())
        #expect(stat(tree.real("a"), &before) == 0)
        try tree.remount {
            unlink(tree.real("a"))
            for number in 0..<1_000 where after.st_ino != before.st_ino {
                rename(tree.real("b"), tree.real("c\(number)"))
                try Data("text of b".utf8).write(to: URL(fileURLWithPath: tree.real("b")))
                #expect(stat(tree.real("b"), &after) == 0)
            }
        }
        try #require(after.st_ino == before.st_ino)
        #expect(tree.quiet())
        #expect(try tree.texts("b") == ["text of b"])
        #expect(try tree.item("b")?.id != id)
        tree.stop()
    }

    @Test("a symlink with another target is another item", arguments: [true, false])
    func retargeted(isCopied: Bool) throws {
        let tree = try ProgramTree()
        for name in ["a", "b"] { try tree.symlink("old", name, by: program) }
        try tree.symlink("same", "c", by: program)
        #expect(tree.quiet())
        // From here on, changes are noted for the hub.
        try tree.volume.journal.write { t in
            try t.startChangeTracking()
            for key in try t.hub.unsent(after: 0, limit: 100) { try t.removeUnsent(key) }
        }
        let before = try ["a", "b", "c"].map { try #require(try tree.item($0)).id }
        let retarget = {
            // The file system may reuse the inode number.
            unlink(tree.real("a"))
            symlink("new", tree.real("a"))
            unlink(tree.real("b"))
            symlink("elsewhere", tree.real("b"))
        }
        if isCopied { try tree.crash(copied: true, retarget) } else { try tree.remount(retarget) }
        #expect(tree.quiet())
        let after = try ["a", "b", "c"].map { try #require(try tree.item($0)) }
        #expect(after[0].id != before[0] && after[1].id != before[1] && after[2].id == before[2])
        try tree.volume.journal.read { reader in
            let isUnsent = try after.map { try reader.hub.isUnsent($0.key) }
            #expect(isUnsent == [true, true, false])
        }
        try tree.checkInvariants()
        tree.stop()
    }

    @Test("a replaced file is reported: which version of which document is lost")
    func replaced() throws {
        let tree = try ProgramTree()
        try tree.mkdir("d", by: program)
        for name in ["d/a", "b", "c"] {
            for text in ["one", "two"] { try tree.save(name, "\(text) of \(name)", by: program) }
        }
        #expect(tree.quiet())
        try tree.remount {
            try Data("new".utf8).write(
                to: URL(fileURLWithPath: tree.real("d/a")), options: .atomic)
            try Data("other".utf8).write(to: URL(fileURLWithPath: tree.real("b")))
        }
        #expect(tree.quiet())
        let problems = try VolumeStatus(of: tree.volume).problems
        #expect(problems.count == 2)
        for name in ["d/a", "b"] {
            #expect(problems.contains { $0.hasPrefix("Version 2 of \(name) was replaced") })
            #expect(try tree.texts(name).first == "one of \(name)")
        }
        #expect(try tree.texts("c") == ["one of c", "two of c"])
        // It is reported once.
        try tree.remount()
        #expect(tree.quiet())
        #expect(try VolumeStatus(of: tree.volume).problems == [])
        tree.stop()
    }

    private func versions(_ tree: ProgramTree) throws -> Set<Identifier> {
        try tree.volume.journal.read { reader in
            var items: [Int64] = []
            try reader.forEachItem { items.append($0.key) }
            return Set(try items.flatMap { try reader.versions(of: $0).map(\.id) })
        }
    }

    /// A path that changes during the scan is reported as no problem, and no save is forgotten
    /// because of it.
    @Test func aFileInTheWayOfAPathIsNoProblem() throws {
        let tree = try ProgramTree()
        let program = Program(process: 10, name: "git")
        try tree.mkdir("dir", by: program)
        try tree.save("dir/x", "1", by: program)
        #expect(tree.quiet())
        let handle = try tree.open("dir/x", O_WRONLY | O_TRUNC, by: program)
        try tree.write(handle, Array("2".utf8))
        #expect(rename(tree.real("dir"), tree.real("elsewhere")) == 0)
        try Data("file".utf8).write(to: URL(fileURLWithPath: tree.real("dir")))
        tree.close(handle)
        #expect(tree.quiet())
        #expect(try VolumeStatus(of: tree.volume).problems == [])
        // The name `dir` is a file now, so the directory counts as deleted, not as moved.
        let found = try ["elsewhere/x", "dir"].map { try tree.texts($0) }
        #expect(found == [["2"], ["file"]])
        let kept = try tree.volume.journal.read { reader in
            var items: [Int64] = []
            try reader.forEachItem { items.append($0.key) }
            return try items.flatMap { try reader.versions(of: $0) }
        }
        #expect(try kept.contains { try tree.bytes(of: $0) == Array("1".utf8) })
        try tree.checkInvariants()
    }

    /// Makes a random change. A change that fails was not possible.
    private func disturb(
        _ tree: ProgramTree, _ random: inout SeededRandom, destroys: Bool
    ) -> String {
        // Files of a package are identified only by their names, so packages are changed only if
        // loss is allowed.
        let names = ["d", "e", "f", "g", "h", "x", "y"] + (destroys ? ["P.rtfd"] : [])
        func path() -> String {
            let parts = (0...random.below(3)).map { _ in names[random.below(names.count)] }
            return parts.joined(separator: "/")
        }
        let (one, other) = (path(), path())
        let (from, to) = (tree.real(one), tree.real(other))
        switch random.below(8) {
        case 0:
            mkdir(from, 0o755)
            return "mkdir \(one)"
        case 1:
            let file = open(from, O_WRONLY | O_CREAT | (destroys ? O_TRUNC : O_EXCL), 0o644)
            guard file >= 0 else { return "" }
            let text = Array("new \(random.below(1000))".utf8)
            write(file, text, text.count)
            close(file)
            return "write \(one)"
        case 2 where destroys:
            try? FileManager.default.removeItem(atPath: from)
            return "rm -r \(one)"
        case 3:
            _ = cl_renameat2(AT_FDCWD, from, AT_FDCWD, to, 2)  // RENAME_EXCHANGE
            return "exchange \(one) \(other)"
        default:
            _ = cl_renameat2(AT_FDCWD, from, AT_FDCWD, to, destroys ? 0 : 1)  // RENAME_NOREPLACE
            return "mv \(one) \(other)"
        }
    }
}
