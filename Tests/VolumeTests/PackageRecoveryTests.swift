import Glibc
import Model
import Testing

@testable import Volume

/// Saves in a package in the last moments before the daemon was killed, which were not processed.
/// The log has their events, and events about files of which it is unknown before the scan that
/// they are in a package.
@Suite struct PackageRecoveryTests {
    let program = Program(process: 10, name: "TextEdit")

    /// Events in the package are processed on request only.
    private static let slow: Settings = {
        var settings = ProgramTree.fast
        settings.settleSeconds = 3_600
        settings.patienceSeconds = 3_600
        return settings
    }()

    enum Saving: CaseIterable { case inPlace, replaced, unlinked, exchanged, backedUp }

    private func save(
        _ path: String, _ text: String, _ how: Saving, _ tree: ProgramTree
    ) throws {
        switch how {
        case .inPlace:
            let handle = try tree.open(path, O_WRONLY | O_TRUNC, by: program)
            try tree.write(handle, Array(text.utf8))
            tree.close(handle)
        case .replaced: try tree.replace(path, Array(text.utf8), by: program)
        case .unlinked:
            try tree.unlink(path, by: program)
            try tree.save(path, text, by: program)
        case .exchanged:
            try tree.save(path + ".other", text, by: program)
            try tree.rename(path + ".other", path, flags: 2, by: program)
            try tree.unlink(path + ".other", by: program)
        case .backedUp:
            try tree.rename(path, path + "~", by: program)
            try tree.save(path, text, by: program)
        }
    }

    @Test(arguments: ["Doc.rtfd/a", "Doc.rtfd/in/a"], Saving.allCases)
    func savedJustBeforeTheCrash(_ path: String, _ how: Saving) throws {
        let tree = try ProgramTree(settings: Self.slow)
        try tree.mkdir("Doc.rtfd", by: program)
        try tree.mkdir("Doc.rtfd/in", by: program)
        try tree.save(path, "one", by: program)
        try tree.save("Doc.rtfd/b", "beside", by: program)
        #expect(tree.quiet())
        try save(path, "two", how, tree)
        try save(path, "three", how, tree)
        try save(path, "four", how, tree)
        tree.volume.recorder.abandon()
        try tree.reopen(ProgramTree.fast)
        #expect(tree.quiet())
        let history = try #require(try tree.volume.history.document(at: names("Doc.rtfd")))
        let versions = try history.versions.map { try tree.packageFiles($0) }
        #expect(Set(versions.flatMap(\.values)) == ["one", "two", "three", "four", "beside"])
        let inner = String(path.dropFirst("Doc.rtfd/".count))
        #expect(versions.first == [inner: "one", "b": "beside"])
        #expect(versions.last?[inner] == "four")
        try tree.checkInvariants()
        tree.stop()
    }

    enum Replacing: CaseIterable { case exchanged, movedAway, removed }

    /// A program replaces the package before the scan has looked at it.
    @Test(arguments: Replacing.allCases, [true, false])
    func replacedBeforeTheScan(_ how: Replacing, _ wasKilled: Bool) throws {
        let tree = try ProgramTree()
        func write(_ package: String, _ text: String) throws {
            for directory in [package, "\(package)/in"] { try tree.mkdir(directory, by: program) }
            for name in ["a", "b", "in/c"] {
                try tree.save("\(package)/\(name)", "\(text) \(name)", by: program)
            }
        }
        try write("Doc.rtfd", "1")
        #expect(tree.quiet())
        tree.onOpening = { _ in
            do {
                let old = how == .movedAway ? "Doc.old" : "Doc.rtfd.draft"
                try write("Doc.rtfd.draft", "2")
                switch how {
                case .exchanged:
                    try tree.rename("Doc.rtfd.draft", "Doc.rtfd", flags: 2, by: program)
                case .movedAway:
                    try tree.rename("Doc.rtfd", old, by: program)
                    try tree.rename("Doc.rtfd.draft", "Doc.rtfd", by: program)
                case .removed:
                    try tree.removeTree("Doc.rtfd", by: program)
                    try tree.rename("Doc.rtfd.draft", "Doc.rtfd", by: program)
                }
                if how != .removed { try tree.removeTree(old, by: program) }
            } catch { Issue.record(error) }
        }
        if wasKilled { try tree.crash() } else { try tree.remount() }
        #expect(tree.quiet())
        let findings = Examination.findings(in: tree.volume, repair: false, progress: { _, _ in })
        #expect(findings.filter { $0.severity == .damage }.isEmpty, "\(findings)")
        let history = try #require(try tree.volume.history.document(at: names("Doc.rtfd")))
        let newest = try #require(history.versions.last)
        #expect(
            try tree.packageFiles(newest) == ["a": "2 a", "b": "2 b", "in/c": "2 in/c"])
        // The first version is in the history of the name or of a deleted document.
        var known: Set<String> = []
        var keys: [Int64] = []
        try tree.volume.journal.read { try $0.forEachItem { keys.append($0.key) } }
        for key in keys {
            for version in try tree.volume.journal.read({ try $0.versions(of: key) }) {
                known.formUnion(try tree.packageFiles(version).values)
            }
        }
        #expect(known.isSuperset(of: ["1 a", "1 b", "1 in/c"]))
        tree.stop()
    }

    /// One file in the package was destroyed by a loss of power, so the tree's contents are no
    /// version. The versions made from the stash still contain the other files.
    @Test func besideAFileThatALossOfPowerDestroyed() throws {
        let tree = try ProgramTree(settings: Self.slow)
        try tree.mkdir("Doc.rtfd", by: program)
        try tree.mkdir("Doc.rtfd/in", by: program)
        for name in ["a", "in/b", "c"] { try tree.save("Doc.rtfd/\(name)", "1", by: program) }
        #expect(tree.quiet())
        for name in ["a", "in/b"] {
            try tree.replace("Doc.rtfd/\(name)", Array("2 \(name)".utf8), by: program)
            try tree.replace("Doc.rtfd/\(name)", Array("3 \(name)".utf8), by: program)
        }
        tree.volume.recorder.abandon()
        var settings = ProgramTree.fast
        settings.clocks.boot = { "another one" }
        // The history is requested before the scan has found out to which document some contents
        // belong.
        tree.onOpening = {
            _ = $0.recorder.catchUp(with: .path(names("Doc.rtfd")), timeoutSeconds: 0)
        }
        try tree.reopen(settings) {
            let file = open(tree.real("Doc.rtfd/c"), O_WRONLY | O_TRUNC)
            #expect(posix_fallocate(file, 0, 5_000) == 0)
            close(file)
        }
        #expect(tree.quiet())
        let history = try #require(try tree.volume.history.document(at: names("Doc.rtfd")))
        let versions = try history.versions.map { try tree.packageFiles($0) }
        #expect(
            Set(versions.flatMap(\.values)) == ["1", "2 a", "3 a", "2 in/b", "3 in/b"])
        let findings = Examination.findings(in: tree.volume, repair: false, progress: { _, _ in })
        #expect(findings.filter { $0.severity == .damage }.isEmpty, "\(findings)")
        tree.stop()
    }
}
