import FileCoordination
import Foundation
import Glibc
import Support
import Testing

/// The program runs in terminals, on the mounts of two devices.
@Suite("CloudNotes", .serialized) struct CloudNotesTests {
    /// A terminal that shows a device's notes.
    private func notes(_ fleet: Fleet, _ index: Int) throws -> Terminal {
        try Terminal(
            [Programs.path("cloud-notes"), fleet.devices[index].path], directory: "/",
            columns: 100, rows: 20)
    }

    /// Runs `body` with the notes of all devices in terminals, and opens the first note in each.
    private func withOpenNotes(
        _ fleet: Fleet, _ name: String, _ body: ([Terminal]) throws -> Void
    ) throws {
        let terminals = try fleet.devices.indices.map { try notes(fleet, $0) }
        defer { for terminal in terminals { terminal.close() } }
        for terminal in terminals {
            try terminal.wait(for: name)
            try terminal.press("Enter")
            try terminal.wait(for: "● saved")
        }
        try body(terminals)
        for terminal in terminals {
            try terminal.press("C-c")
            try terminal.waitForEnd()
        }
    }

    @Test("text typed on one device appears on the other, and so do new notes and names")
    func typing() throws {
        try Fleet.with(2) { fleet in
            let (one, two) = (try notes(fleet, 0), try notes(fleet, 1))
            defer { for terminal in [one, two] { terminal.close() } }
            try two.wait(for: "No notes yet")
            try one.wait(for: "No notes yet")
            try one.press("n")
            try one.wait(for: "Name of the new note")
            try one.type("letter")
            try one.press("Enter")
            try one.wait(for: "● saved")
            try one.type("dear ")
            try two.wait(for: "letter.txt") { $0.contains("letter.txt") && $0.contains("dear") }
            try two.press("Enter")
            try two.wait(for: "● saved")
            try two.press("End")
            try two.type("reader")
            try one.wait(for: "dear reader")
            try one.press("Enter")
            try one.type("and writer")
            try two.wait(for: "and writer")
            try one.press("C-z", "C-z")
            for terminal in [one, two] {
                try terminal.wait(for: "what was before") {
                    $0.contains("dear reader") && !$0.contains("writer")
                }
            }
            // Both programs show the list again.
            try one.press("Escape")
            try one.wait(for: "n new")
            try one.press("r")
            try one.press("Home")
            try one.type("long ")
            try one.press("Enter")
            try two.wait(for: "long letter.txt")
            try two.press("Escape")
            try one.press("q")
            try two.press("q")
            for terminal in [one, two] { try terminal.waitForEnd() }
            try fleet.expectEqual()
        }
    }

    @Test("A18.17: after edits of both offline the light is yellow until one settles it")
    func conflict() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, ".concordattributes", "* automerge=off\n")
            try fleet.put(0, "a.txt", "old\n")
            try fleet.settle()
            try withOpenNotes(fleet, "a.txt") { terminals in
                try edit(fleet, terminals)
                try terminals[1].press("C-r")
                try terminals[1].wait(for: "both versions") {
                    $0.contains("on dev0") && $0.contains("on dev1") && $0.contains("shown now")
                }
                // The current version comes first; the test chooses the other.
                try terminals[1].press("Down")
                try terminals[1].press("k")
                for terminal in terminals {
                    try terminal.wait(for: "green", seconds: 40) {
                        $0.contains("● saved") && $0.contains("by 0: old")
                    }
                }
            }
            try fleet.expectEqual()
            #expect(try fleet.conflicts(0, "a.txt") == [])
            #expect(fleet.text(1, "a.txt") == "by 0: old\n")
            // The version that was not chosen is in the history.
            let root = fleet.devices[0].path
            #expect(try reachableContents(in: root).contains(Data("by 1: old\n".utf8)))
        }
    }

    @Test("a conflict in which both are kept leaves two notes") func both() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, ".concordattributes", "* automerge=off\n")
            try fleet.put(0, "a.txt", "old\n")
            try fleet.settle()
            try withOpenNotes(fleet, "a.txt") { terminals in
                try edit(fleet, terminals)
                try terminals[0].press("C-r")
                try terminals[0].wait(for: "shown now")
                try terminals[0].press("b")
                for terminal in terminals { try terminal.wait(for: "● saved", seconds: 40) }
            }
            try fleet.expectEqual()
            let texts = ["a.txt", "a 2.txt"].map { fleet.text(1, $0) ?? "" }
            #expect(Set(texts) == ["by 0: old\n", "by 1: old\n"])
        }
    }

    /// Both type while neither can reach the hub. It returns when the light is yellow on both.
    private func edit(_ fleet: Fleet, _ terminals: [Terminal]) throws {
        for index in 0..<2 { try fleet.offline(index) }
        for (index, terminal) in terminals.enumerated() {
            try terminal.type("by \(index): ")
            try terminal.wait(for: "● saving")
            try terminal.wait(for: "● saved")
            try fleet.devices[index].waitForDisk()
        }
        for index in 0..<2 { try fleet.online(index) }
        for terminal in terminals { try terminal.wait(for: "● in conflict", seconds: 40) }
    }

    @Test(
        "A18.17: a full disk: red, and green when there is room, with all that was typed",
        .enabled(if: geteuid() == 0, "mounting a small disk takes root"))
    func fullDisk() throws {
        let disk = try SmallDisk("40m")
        try Fleet.with(1) { fleet in
            try fleet.join(store: "\(disk.path)/store")
            try fleet.put(0, "a.txt", "kept\n")
            try fleet.settle()
            try withOpenNotes(fleet, "a.txt") { terminals in
                // The disk has no room for this text.
                let filler = "head -c 100000000 /dev/zero > '\(disk.path)/filler' || true"
                try Command("/bin/bash", "-c", filler).succeed()
                try terminals[1].type("typed on a full disk: ")
                try terminals[1].wait(for: "red", seconds: 40) { $0.contains("● not saved: ") }
                try terminals[1].type("and more, ")
                try disk.grow(to: "400m")
                try terminals[1].wait(for: "● saved", seconds: 60)
                try terminals[0].wait(for: "typed on a full disk: and more, kept", seconds: 40)
            }
            try fleet.expectEqual()
            #expect(fleet.text(0, "a.txt") == "typed on a full disk: and more, kept\n")
        }
    }

    @Test("a note that gets an attachment is a package, with its text, on both devices")
    func attachment() throws {
        let home = try TemporaryDirectory("attachment")
        let picture = try home.write("a picture", to: "bird.png")
        try Fleet.with(2) { fleet in
            let (one, two) = (try notes(fleet, 0), try notes(fleet, 1))
            defer { for terminal in [one, two] { terminal.close() } }
            try one.wait(for: "No notes yet")
            try one.press("n")
            try one.type("birds")
            try one.press("Enter")
            try one.wait(for: "● saved")
            try one.type("seen today")
            try one.press("C-a")
            try one.wait(for: "File to attach")
            try one.type(picture)
            try one.press("Enter")
            try one.wait(for: "the package") {
                $0.contains("birds.notepkg") && $0.contains("with bird.png")
            }
            try two.wait(for: "the package alone") {
                $0.contains("birds.notepkg") && $0.contains("seen today")
                    && !$0.contains("birds.txt")
            }
            try two.press("Enter")
            try two.wait(for: "with bird.png")
            try two.type("Well ")
            try one.wait(for: "Well seen today")
            for terminal in [one, two] {
                try terminal.press("C-c")
                try terminal.waitForEnd()
            }
            try fleet.expectEqual()
            #expect(try fleet.names(1) == ["birds.notepkg"])
            #expect(fleet.text(1, "birds.notepkg/bird.png") == "a picture")
            #expect(fleet.text(0, "birds.notepkg/text.txt") == "Well seen today")
        }
    }

    @Test("a note deleted on another device is closed, and the list says so") func deletion() throws
    {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "a.txt", "old\n")
            try fleet.settle()
            let terminal = try notes(fleet, 1)
            defer { terminal.close() }
            try terminal.wait(for: "a.txt")
            try terminal.press("Enter")
            try terminal.wait(for: "● saved")
            try fleet.shell(0, "rm a.txt")
            try terminal.wait(for: "a is closed: it was deleted")
            try terminal.wait(for: "No notes yet")
            try terminal.press("q")
            try terminal.waitForEnd()
        }
    }

    @Test("it works in any directory; typed text is saved when the terminal is closed")
    func anyDirectory() throws {
        let home = try TemporaryDirectory("notes")
        let file = try home.write("kept\n", to: "a.md")
        let terminal = try Terminal(
            [Programs.path("cloud-notes"), home.path], directory: "/")
        defer { terminal.close() }
        try terminal.wait(for: "kept")
        try terminal.press("n")
        try terminal.type("a.md")
        try terminal.press("Enter")
        try terminal.wait(for: "a.md exists already")
        try terminal.press("Enter")
        try terminal.wait(for: "● saved")
        try terminal.type("日本 ")
        try terminal.wait(for: "日本 kept")
        terminal.close()
        try wait(for: "what was typed") {
            try String(contentsOfFile: file, encoding: .utf8) == "日本 kept\n" ? true : nil
        }
    }

    @Test("letters that arrive together are commands and text as if they came one by one")
    func typedAhead() throws {
        let home = try TemporaryDirectory("notes")
        try home.write("kept\n", to: "a.md")
        let terminal = try Terminal(
            [Programs.path("cloud-notes"), home.path], directory: "/")
        defer { terminal.close() }
        try terminal.wait(for: "kept")
        try terminal.type("na.md")
        try terminal.press("Enter")
        try terminal.wait(for: "a.md exists already")
        try terminal.type("nb.md")
        try terminal.press("Enter")
        try terminal.wait(for: "● saved")
        let names = try FileManager.default.contentsOfDirectory(atPath: home.path)
        #expect(Set(names) == ["a.md", "b.md"])
    }

    @Test("it says that it needs a directory and a terminal") func refusals() throws {
        let program = Programs.path("cloud-notes")
        #expect(try Command(program).run().status == 64)
        #expect(try Command(program, "--help").succeed().contains("DIRECTORY"))
        let missing = try Command(program, "/nowhere").run()
        #expect(missing.status == 66 && missing.errors.contains("/nowhere is not a directory"))
        let piped = try Command(program, "/tmp").run()
        #expect(piped.status == 1 && piped.errors.contains("needs a terminal"))
    }
}
