import Foundation
import Support
import Testing

@testable import FileCoordination

/// Seven ways in which work has been lost on one machine. In each of them, what others have saved
/// is current or in conflict and never in the history only, a person hears of it, and one command
/// makes one document of both.
@Suite("Incidents", .serialized) struct IncidentTests {
    private static let old = "one\ntwo\nthree\nfour\nfive\n"
    private static let mine = old.replacing("five", with: "mine")
    private static let theirs = old.replacing("one", with: "theirs")
    private static let both = mine.replacing("one", with: "theirs")

    /// A mounted volume with a document, and a person who watches it.
    private struct Scene {
        let root: String
        var path: String { "\(root)/a.txt" }
        let watcher: Beside

        init(_ root: String) throws {
            self.root = root
            let watcher = try Beside("watch", root)
            self.watcher = watcher
            try wait(for: "the watcher to hear") {
                try Command("touch", "\(root)/b").succeed()
                return watcher.said.contains("b") ? true : nil
            }
        }

        func run(_ script: String) throws { try stranger(script.replacing("PATH", with: path)) }

        var conflicts: [String] {
            get throws {
                let texts = try History.texts(of: path)
                return try zip(History.of(path).versions, texts)
                    .filter { $0.0.kind == "conflict" }.map(\.1)
            }
        }

        /// What the last program wrote is current, byte for byte, and what it has overwritten is in
        /// conflict with it. A person hears of it, while it happens and afterwards.
        func expect(current: String, conflicts expected: [String]) throws {
            #expect(try conflicts == expected)
            #expect(try text(path) == current)
            try watcher.wait(for: "left a version in conflict with the current one of a.txt")
            #expect(try Command(Programs.fsctl, "conflicts", root).run().output.contains("a.txt"))
        }

        /// One command makes one document of both, and nothing is in conflict any more.
        func recover(to both: String) throws {
            try Programs.fsctl("merge", path).succeed()
            #expect(try text(path) == both)
            #expect(try conflicts.isEmpty)
        }
    }

    private func scene(_ body: (Scene) throws -> Void) throws {
        try MountedVolume.with { volume in
            try Data(Self.old.utf8).write(to: URL(filePath: "\(volume.path)/a.txt"))
            try volume.waitForDisk()
            try body(try Scene(volume.path))
        }
    }

    @Test("an editor's buffer over a formatter's output", arguments: ["write", "replace"])
    func formatter(_ verb: String) throws {
        let editor = try PlainProgram()
        try scene { scene in
            try editor.tell("read", scene.path)
            try scene.run("sed -i s/one/theirs/ PATH")
            try editor.tell(verb, scene.path, Self.mine)
            try scene.expect(current: Self.mine, conflicts: [Self.theirs])
            try scene.recover(to: Self.both)
        }
    }

    @Test("an agent's whole-file write from an old read, over what a person saved with Vim")
    func agent() throws {
        let agent = try PlainProgram()
        try scene { scene in
            try agent.tell("read", scene.path)
            try scene.run("vim -es -u NONE -c %s/one/theirs/ -c wq PATH")
            #expect(try text(scene.path) == Self.theirs)
            try agent.tell("write", scene.path, Self.mine)
            try scene.expect(current: Self.mine, conflicts: [Self.theirs])
            try scene.recover(to: Self.both)
        }
    }

    @Test("two agents on one file, each of which saves what it read in the beginning")
    func agents() throws {
        let agents = try [PlainProgram(), PlainProgram()]
        try scene { scene in
            for agent in agents { try agent.tell("read", scene.path) }
            try agents[0].tell("replace", scene.path, Self.theirs)
            #expect(try scene.conflicts.isEmpty)
            try agents[1].tell("write", scene.path, Self.mine)
            try scene.expect(current: Self.mine, conflicts: [Self.theirs])
            // The first one has not read since, either.
            let again = Self.theirs.replacing("three", with: "3")
            try agents[0].tell("write", scene.path, again)
            try scene.expect(current: again, conflicts: [Self.theirs, Self.mine])
            try scene.recover(to: Self.both.replacing("three", with: "3"))
        }
    }

    @Test(
        "a sync client's write under an open editor",
        arguments: ["rsync -a SOURCE PATH", "rsync -a --inplace SOURCE PATH"])
    func client(_ script: String) throws {
        let editor = try PlainProgram()
        let elsewhere = try TemporaryDirectory("elsewhere")
        let source = "\(elsewhere.path)/a.txt"
        try Data(Self.theirs.utf8).write(to: URL(filePath: source))
        try scene { scene in
            try editor.tell("read", scene.path)
            try scene.run(script.replacing("SOURCE", with: source))
            try editor.tell("write", scene.path, Self.mine)
            try scene.expect(current: Self.mine, conflicts: [Self.theirs])
            try scene.recover(to: Self.both)
        }
    }

    @Test(
        "another device's save that arrives under an open editor", arguments: ["write", "replace"])
    func device(_ verb: String) throws {
        let editor = try PlainProgram()
        try Fleet.with(2) { fleet in
            try fleet.put(0, "a.txt", Self.old)
            try fleet.expectEqual()
            let scene = try Scene(fleet.devices[1].path)
            try editor.tell("read", scene.path)
            try fleet.put(0, "a.txt", Self.theirs)
            try fleet.settle([0])
            try wait(for: "their save") { fleet.text(1, "a.txt") == Self.theirs ? true : nil }
            try editor.tell(verb, scene.path, Self.mine)
            try scene.expect(current: Self.mine, conflicts: [Self.theirs])
            try fleet.settle()
            #expect(fleet.text(0, "a.txt") == Self.mine)
            #expect(try fleet.conflicts(0, "a.txt") == [Self.theirs])
            try scene.recover(to: Self.both)
            try fleet.settle()
            #expect(fleet.text(0, "a.txt") == Self.both)
            #expect(try fleet.conflicts(0, "a.txt").isEmpty)
        }
    }

    @Test("git checkout under an open editor") func checkout() throws {
        let editor = try PlainProgram()
        try scene { scene in
            let git = "cd $(dirname PATH); git -c user.name=a -c user.email=a@b"
            try scene.run("\(git) init -q; \(git) add a.txt; \(git) commit -qm 1")
            let edit = "sed -i s/one/theirs/ PATH; \(git) commit -qam 2"
            try scene.run("\(git) checkout -qb other; \(edit); \(git) checkout -q -")
            try editor.tell("read", scene.path)
            try scene.run("\(git) checkout -q other")
            try editor.tell("write", scene.path, Self.mine)
            try scene.expect(current: Self.mine, conflicts: [Self.theirs])
            try scene.recover(to: Self.both)
        }
    }

    @Test("a build script rewrites a configuration that was changed since the script began")
    func build() throws {
        try scene { scene in
            try scene.run(
                """
                bash -c 'mapfile -t lines < PATH
                sed -i s/one/theirs/ PATH
                lines[4]=mine
                printf "%s\\n" "${lines[@]}" > PATH'
                """)
            try scene.expect(current: Self.mine, conflicts: [Self.theirs])
            try scene.recover(to: Self.both)
        }
    }

    @Test("a Document typed into while a shell appends: at other places both are in the document")
    func appended() throws {
        try scene { scene in
            let note = try Note.opened(scene.path)
            // The append of a plain program must not make the document save before it.
            note.isStubborn.withLock { $0 = true }
            try note.type("typed" + Self.old.dropFirst(3))
            for line in 1...12 { try scene.run("echo line \(line) >> PATH") }
            note.isStubborn.withLock { $0 = false }
            try onMain { try await note.autosave() }
            let lines = (1...12).map { "line \($0)\n" }.joined()
            // The person sees both, and there is nothing to recover from.
            try note.wait(for: "both") { $0.text == "typed" + Self.old.dropFirst(3) + lines }
            try wait(for: "no conflict") { try scene.conflicts.isEmpty ? true : nil }
            #expect(try text(scene.path) == note.shown())
            try note.shut()
        }
    }

    @Test("a Document typed into where a shell changes the same line") func sameLine() throws {
        try scene { scene in
            let note = try Note.opened(scene.path)
            note.isStubborn.withLock { $0 = true }
            let typed = "typed" + Self.old.dropFirst(3)
            try note.type(typed)
            try scene.run("sed -i s/one/theirs/ PATH")
            note.isStubborn.withLock { $0 = false }
            try onMain { try await note.autosave() }
            try note.wait(for: "a yellow light") { $0.documentState == .inConflict }
            try scene.expect(current: typed, conflicts: [Self.theirs])
            try Programs.fsctl("resolve", "--keep", "both", scene.path).succeed()
            #expect(try scene.conflicts.isEmpty)
            try note.wait(for: "a green light") { $0.documentState == .normal }
            let all = try Command("sh", "-c", "cat \(scene.root)/a*").succeed()
            #expect(all.contains(typed) && all.contains(Self.theirs))
            try note.shut()
        }
    }
}
