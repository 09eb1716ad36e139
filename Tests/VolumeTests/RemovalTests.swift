import Foundation
import Journal
import Model
import Support
import Testing

@testable import Volume

/// Which versions must stay, whatever removes versions.
@Suite struct RemovalTests {
    private func send(_ path: String, of tree: ProgramTree, _ number: UInt64) throws {
        let item = try #require(try tree.item(path))
        try tree.volume.journal.write { t in
            try t.append(OutboxRow(number: number, item: item.id, operation: [1]))
        }
    }

    private func refusal(_ number: Int, _ path: String, of tree: ProgramTree) -> String? {
        do throws(VolumeError) {
            try tree.volume.retention.forget(version: number, at: names(path))
            return nil
        } catch {
            return error.code == .invalid ? error.message : "another error: \(error)"
        }
    }

    @Test func versionsInTheOutboxCannotBeForgotten() throws {
        let tree = try ProgramTree()
        let program = Program(process: 1)
        for text in ["1", "2", "3"] {
            try tree.save("a", text, by: program)
            #expect(tree.quiet())
        }
        try send("a", of: tree, 1)
        let said = try #require(refusal(1, "a", of: tree))
        #expect(said.contains("Version 1 of a waits to be confirmed by the hub"))
        #expect(try tree.texts("a") == ["1", "2", "3"])
        try tree.volume.journal.write { try $0.emptyOutbox() }
        #expect(refusal(1, "a", of: tree) == nil)
        #expect(try tree.texts("a") == ["2", "3"])
        #expect(refusal(3, "a", of: tree)?.contains("is the current version") == true)
        try tree.volume.retention.setLabel("mine", version: 2, at: names("a"))
        #expect(refusal(2, "a", of: tree)?.contains("kept by its label “mine”") == true)
        try tree.checkInvariants()
    }

    @Test("the last version of a deleted document is not called current, and purge is named")
    func theLastOneOfADeletedDocument() throws {
        let tree = try ProgramTree()
        let program = Program(process: 1)
        for text in ["1", "2"] {
            try tree.save("a", text, by: program)
            #expect(tree.quiet())
        }
        try tree.unlink("a", by: program)
        #expect(tree.quiet())
        let said = try #require(refusal(2, "a", of: tree))
        #expect(said.contains("Version 2 of a is the last version of a deleted document"))
        #expect(said.contains("fsctl purge") && !said.contains("current"))
        #expect(refusal(1, "a", of: tree) == nil)
        #expect(try tree.texts("a") == ["2"])
        try tree.checkInvariants()
    }

    /// Versions and the deletion itself stay until the hub knows of it.
    @Test func anUnsentDeletionIsNotExpired() throws {
        var settings = ProgramTree.fast
        settings.retention.deleted = 0
        let tree = try ProgramTree(settings: settings)
        let program = Program(process: 1)
        for name in ["sent", "unsent", "told"] { try tree.save(name, name, by: program) }
        try tree.mkdir("d", by: program)
        #expect(tree.quiet())
        let items = try ["sent", "unsent", "told", "d"].map { try #require(try tree.item($0)) }
        try send("sent", of: tree, 1)
        try tree.volume.journal.write { t in
            try t.addUnsent(items[1].key)
            // The hub knows the item.
            try t.set(MirrorRow(id: items[3].id, base: [1]))
            try t.addUnsent(items[3].key)
        }
        for name in ["sent", "unsent", "told"] { try tree.unlink(name, by: program) }
        try tree.rmdir("d", by: program)
        #expect(tree.quiet())
        try tree.remount()
        func isThere(_ item: Item) throws -> Bool {
            try tree.volume.journal.read { try $0.item(item.key) != nil }
        }
        try wait(for: "the removal") { try isThere(items[2]) ? nil : () }
        #expect(tree.quiet())
        #expect(try isThere(items[0]) && isThere(items[1]) && isThere(items[3]))
        #expect(try tree.volume.journal.read { try $0.versions(of: items[0].key) }.count == 1)
        #expect(try tree.volume.journal.read { try $0.versions(of: items[1].key) }.count == 1)
        try tree.checkInvariants()
    }

    /// The contents of version 2 are overwritten in the tree while the volume is not mounted.
    @Test(arguments: [true, false]) func aLostVersionStaysWhileItIsInTheOutbox(isSent: Bool) throws
    {
        let tree = try ProgramTree()
        let program = Program(process: 1)
        for text in ["1", "2"] {
            try tree.save("a", text, by: program)
            #expect(tree.quiet())
        }
        let before = try versions("a", of: tree)
        if isSent { try send("a", of: tree, 1) }
        try tree.remount {
            try Data("new".utf8).write(to: URL(fileURLWithPath: tree.real("a")))
        }
        #expect(tree.quiet())
        let after = try versions("a", of: tree)
        let kept = isSent ? [1, 2, 3] : [1, 3]
        #expect(after.map(\.number) == kept)
        #expect(after.map(\.id).starts(with: before.map(\.id)) == isSent)
        #expect(try tree.bytes(of: #require(after.last)) == Array("new".utf8))
        let problems = try VolumeStatus(of: tree.volume).problems
        #expect(problems.count == 1 && problems[0].hasPrefix("Version 2 of a was replaced"))
        tree.stop()
    }

    private func versions(_ path: String, of tree: ProgramTree) throws -> [Version] {
        let item = try #require(try tree.item(path))
        return try tree.volume.journal.read { try $0.versions(of: item.key) }
            .sorted { $0.number < $1.number }
    }

    @Test func theBaseOfAConflictStays() throws {
        let tree = try ProgramTree()
        let program = Program(process: 1)
        try tree.save("a", "1", by: program)
        #expect(tree.quiet())
        let item = try #require(try tree.item("a"))
        func version(_ number: Int, _ kind: Version.Kind, from parents: [Version]) -> Version {
            Version(
                number: number, parents: parents.map(\.id), kind: kind, device: .random(),
                deviceName: "d", person: "p", program: "c", name: Name("a"), size: 1,
                modified: 0, saved: Int64(number), content: .sha256([UInt8(number)]))
        }
        let base = version(1, .history, from: [])
        let old = version(2, .history, from: [base])
        let mine = version(3, .current, from: [old])
        let theirs = version(4, .conflict, from: [base])
        var shown = item
        shown.current = mine.id
        let obstacles = try tree.volume.journal.read { reader in
            let all = [base, old, mine, theirs]
            let check = try RemovalCheck(shown, all, reader)
            return all.map(check.obstacle)
        }
        #expect(obstacles == [.mergeBase, nil, .current, .conflict])
    }
}
