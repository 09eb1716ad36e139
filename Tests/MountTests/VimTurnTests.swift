import Foundation
import Support
import Testing

/// The plugin of Packaging/vim, in a terminal: an open buffer is a presenter of its file.
@Suite("Vim is a presenter", .serialized)
struct VimTurnTests {
    enum Vim: String, CaseIterable {
        case vim, nvim

        /// Neovim is tested if it is installed.
        static let here = allCases.filter {
            $0 == .vim || (try? Command("which", $0.rawValue).succeed()) != nil
        }
    }

    /// Starts Vim with `letter.txt` open, and returns when it presents the file.
    private func edit(
        with vim: Vim, _ body: (MountedVolume, Terminal) throws -> Void
    ) throws {
        try MountedVolume.with { volume in
            try "first\n".write(
                toFile: "\(volume.path)/letter.txt", atomically: false, encoding: .utf8)
            let terminal = try Terminal(
                vim: ["letter.txt"], directory: volume.path, program: vim.rawValue)
            defer { terminal.close() }
            try wait(seconds: 20, for: "Vim to present the letter") {
                try locks(volume).contains("  presents ") ? true : nil
            }
            try body(volume, terminal)
            try say(":qa!", in: terminal)
            try terminal.waitForEnd()
            try wait(seconds: 20, for: "the presenter to end") {
                try locks(volume).hasPrefix("Nothing is claimed") ? true : nil
            }
        }
    }

    private func locks(_ volume: MountedVolume) throws -> String {
        try Programs.fsctl("locks", volume.path).succeed()
    }

    private func say(_ line: String, in terminal: Terminal) throws {
        try terminal.press("Escape")
        try terminal.type(line)
        try terminal.press("Enter")
    }

    /// Adds a last line and does not save it.
    private func add(_ line: String, in terminal: Terminal) throws {
        try terminal.press("Escape")
        try terminal.type("Go" + line)
        try terminal.press("Escape")
        try terminal.wait(for: line)
    }

    /// A message may disappear from the screen at once; the plugin prints it on request.
    private func waitForStatus(_ text: String, in terminal: Terminal) throws {
        try terminal.wait(for: text) { screen in
            if screen.contains(text) { return true }
            try? say(":ConcordStatus", in: terminal)
            return false
        }
    }

    /// The file is read instead of Vim's "written", which a later redraw removes from the screen.
    private func waitForText(_ text: String, of path: String, in terminal: Terminal) throws {
        try terminal.wait(for: "saved text in \(path), beside what is") { _ in
            try String(contentsOfFile: path, encoding: .utf8) == text
        }
    }

    private func coordinate(_ arguments: String..., in volume: MountedVolume) throws -> String {
        var command = Command(Programs.fsctl, arguments: ["coordinate"] + arguments)
        command.directory = volume.path
        return try command.succeed()
    }

    @Test("a reader, coordinated or not, gets the text on the screen", arguments: Vim.here)
    func saves(_ vim: Vim) throws {
        try edit(with: vim) { volume, terminal in
            try add("second", in: terminal)
            let read = try coordinate("read", "letter.txt", "--", "cat", "{}", in: volume)
            #expect(read == "first\nsecond\n")
            try add("third", in: terminal)
            let plain = try Command("cat", "\(volume.path)/letter.txt").succeed()
            #expect(plain == "first\nsecond\nthird\n")
            // The same for a buffer that is hidden behind another.
            try add("fourth", in: terminal)
            try say(":set hidden | enew", in: terminal)
            try terminal.wait(for: "the empty buffer") { !$0.contains("third") }
            let hidden = try coordinate("read", "letter.txt", "--", "cat", "{}", in: volume)
            #expect(hidden.hasSuffix("third\nfourth\n"))
        }
    }

    @Test("a writer makes the buffer read-only, then it shows the new text", arguments: Vim.here)
    func reloads(_ vim: Vim) throws {
        try edit(with: vim) { volume, terminal in
            let writer = try Beside(
                "coordinate", "write", "letter.txt", "--", "sh", "-c",
                "echo has it; read line; echo theirs >>letter.txt", directory: volume.path)
            #expect(try writer.wait(for: "has it") == "has it\n")
            try say(":set readonly?", in: terminal)
            try terminal.wait(for: "  readonly")
            writer.tell("go")
            #expect(try writer.waitForEnd() == 0)
            try terminal.wait(for: "theirs")
            try say(":set readonly?", in: terminal)
            try terminal.wait(for: "noreadonly")
            try terminal.type("u")
            try terminal.wait(for: "the text of before") { !$0.contains("theirs") }
        }
    }

    @Test("a renamed file's buffer is renamed, text and undo stay", arguments: Vim.here)
    func renames(_ vim: Vim) throws {
        try edit(with: vim) { volume, terminal in
            try add("unsaved", in: terminal)
            let new = "\(volume.path)/renamed.txt"
            try Command("mv", "\(volume.path)/letter.txt", new).succeed()
            try waitForStatus("renamed.txt: renamed", in: terminal)
            try say(":w", in: terminal)
            try waitForText("first\nunsaved\n", of: new, in: terminal)
            try terminal.type("5u")
            try terminal.wait(for: "the text of before") { !$0.contains("unsaved") }
            #expect(try locks(volume).contains("renamed.txt"))
        }
    }

    @Test("text of a deleted file stays; what replaces the file is shown", arguments: Vim.here)
    func deletions(_ vim: Vim) throws {
        try edit(with: vim) { volume, terminal in
            let file = "\(volume.path)/letter.txt"
            try "another\n".write(toFile: "\(volume.path)/n", atomically: false, encoding: .utf8)
            _ = try coordinate(
                "write", "--replacing", "letter.txt", "--", "mv", "n", "{}", in: volume)
            try terminal.wait(for: "another")
            try wait(seconds: 20, for: "Vim to present what is new") {
                try locks(volume).contains("  presents ") ? true : nil
            }
            _ = try coordinate("write", "--deleting", "letter.txt", "--", "rm", "{}", in: volume)
            try waitForStatus("its text is still here", in: terminal)
            #expect(!FileManager.default.fileExists(atPath: file))
            try say(":w", in: terminal)
            try waitForText("another\n", of: file, in: terminal)
        }
    }

    @Test("what was changed on both sides is left to the user", arguments: Vim.here)
    func conflicts(_ vim: Vim) throws {
        try edit(with: vim) { volume, terminal in
            try add("mine", in: terminal)
            // A presenter is not asked because of its own child.
            try say(":call system('echo more text >>letter.txt')", in: terminal)
            try wait(seconds: 20, for: "the other text") {
                let text = try String(contentsOfFile: "\(volume.tree)/letter.txt", encoding: .utf8)
                return text.contains("more text") ? true : nil
            }
            var command = Programs.fsctl("coordinate", "read", "letter.txt", "--", "cat", "{}")
            command.directory = volume.path
            let refused = try command.run()
            #expect(refused.status == 13)
            #expect(refused.errors.contains("changed both in Vim and by another program"))
            try terminal.wait(for: "mine")
        }
    }
}
