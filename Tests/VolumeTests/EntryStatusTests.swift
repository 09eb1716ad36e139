import Foundation
import Journal
import Model
import Testing

@testable import Volume

/// The states of all entries of a directory, which programs ask for when they list documents.
@Suite("Entry statuses") struct EntryStatusTests {
    private let program = Program(process: 10)

    @Test("the journal is asked once for some hundred documents, not for each")
    func cost() throws {
        let tree = try ProgramTree()
        for (directory, count) in [("few", 20), ("many", 420)] {
            try tree.mkdir(directory, by: program)
            for number in 0..<count {
                try tree.save("\(directory)/\(number)", "text", by: program)
            }
        }
        #expect(tree.quiet(seconds: 60))
        try tree.volume.journal.write {
            try $0.set("hub.volume", to: Identifier.random().description)
        }
        func statements(_ path: String, _ count: Int) throws -> Int {
            let before = tree.volume.journal.statementCount
            #expect(try tree.volume.states.statuses(in: names(path)).count == count)
            return tree.volume.journal.statementCount - before
        }
        #expect(try statements("few", 20) == statements("many", 420))
        tree.stop()
    }

    @Test("what holds for the documents below directories is found in one pass for all directories")
    func directories() throws {
        let tree = try ProgramTree()
        func fill(_ directory: String, _ count: Int) throws {
            try tree.mkdir(directory, by: program)
            for number in 0..<count {
                try tree.mkdir("\(directory)/\(number)", by: program)
                try tree.save("\(directory)/\(number)/a", "text", by: program)
            }
        }
        try fill("few", 3)
        try fill("many", 60)
        #expect(tree.quiet(seconds: 60))
        try tree.volume.journal.write { t in
            try t.set("hub.volume", to: Identifier.random().description)
            for number in 0..<60 {
                let item = try #require(
                    try tree.volume.items.item(at: names("many/\(number)/a"), t))
                try t.addUnsent(item.key)
            }
        }
        func statements(_ path: String) throws -> Int {
            let before = tree.volume.journal.statementCount
            _ = try tree.volume.states.statuses(in: names(path))
            return tree.volume.journal.statementCount - before
        }
        // Two for each unsent document, to find the directory that contains it.
        #expect(try statements("many") <= statements("few") + 2 * 60)
        tree.stop()
    }

    @Test(
        "each entry has the state that it has when it is asked for alone", arguments: [false, true])
    func agreement(hasHub: Bool) throws {
        let tree = try ProgramTree()
        let documents = ["plain", "absent", "unsent", "sent", "refused", "due", "written"]
        try tree.mkdir("d", by: program)
        for name in documents { try tree.save("d/\(name)", name, by: program) }
        try tree.save("d/empty", "", by: program)
        try tree.mkdir("d/p.rtfd", by: program)
        try tree.save("d/p.rtfd/part", "part", by: program)
        for name in ["link", "unsent-link"] { try tree.symlink("plain", "d/\(name)", by: program) }
        let directories = ["safe", "unsent", "deep", "written", "itself", "gone"]
        for name in directories {
            try tree.mkdir("d/\(name)-directory", by: program)
            try tree.mkdir("d/\(name)-directory/inner", by: program)
            try tree.save("d/\(name)-directory/inner/a", name, by: program)
        }
        #expect(tree.quiet())
        try tree.volume.journal.write { t in
            func item(_ path: String) throws -> Item {
                try #require(try tree.volume.items.item(at: names("d/" + path), t))
            }
            func mirror(_ path: String, _ state: MirrorRow.State) throws {
                try t.set(MirrorRow(id: item(path).id, base: [1], state: state))
            }
            if hasHub { try t.set("hub.volume", to: Identifier.random().description) }
            let absent = try item("absent")
            try t.setAbsent(absent.key, version: try #require(absent.current))
            for path in [
                "unsent", "unsent-link", "unsent-directory/inner/a", "deep-directory/inner",
                "itself-directory",
            ] {
                try t.addUnsent(try item(path).key)
            }
            try t.append(OutboxRow(number: 1, item: item("sent").id, operation: [1]))
            try mirror("refused", .refused)
            try mirror("due", .due)
            try mirror("safe-directory/inner/a", .settled)
            for path in ["written", "written-directory/inner/a"] {
                var written = try item(path)
                written.changed = 0
                try t.update(written)
            }
            var gone = try item("gone-directory/inner/a")
            gone.deleted = 1
            try t.update(gone)
            try t.addUnsent(gone.key)
        }
        let entries = try tree.volume.states.statuses(in: names("d"))
        #expect(entries.count == documents.count + 2 + 2 + directories.count)
        // `status(at:)` would first record what is asked for.
        try tree.volume.journal.read { reader in
            for entry in entries {
                let path = names("d") + [entry.name]
                let item = try tree.volume.items.existing(path, reader)
                let versions = try reader.versions(of: item.key)
                let current = versions.first { $0.id == item.current }
                let durability = try tree.volume.safety.durability(
                    of: item, current, at: path, reader)
                #expect(entry.kind == item.kind, "\(entry.name)")
                #expect(
                    try entry.state == tree.volume.states.state(of: item, reader), "\(entry.name)")
                #expect(entry.durability == durability, "\(entry.name)")
                #expect(entry.isConflicted == versions.contains { $0.kind == .conflict })
            }
        }
        #expect(Set(entries.map(\.state)).count >= 5)
        #expect(Set(entries.map(\.durability)).count == (hasHub ? 3 : 2))
    }
}
