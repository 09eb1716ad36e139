import Foundation
import Support
import Testing

/// How Vim shows a conflict.
@Suite("Vim shows conflicts") struct VimConflictTests {
    private func say(_ line: String, in terminal: Terminal) throws {
        try terminal.press("Escape")
        try terminal.type(line)
        try terminal.press("Enter")
    }

    @Test("both versions side by side; the tab closes when the conflict is resolved anywhere")
    func sideBySide() throws {
        try Fleet.with(2) { fleet in
            let files = ["letter.txt", "note.txt"]
            for file in files { try fleet.put(0, file, "base\n") }
            try fleet.expectEqual()
            try fleet.offline(0)
            for file in files { try fleet.put(0, file, "the desk's\n") }
            try fleet.devices[0].waitForDisk()
            for file in files { try fleet.put(1, file, "the laptop's\n") }
            try fleet.settle([1])
            try fleet.online(0)
            try fleet.settle()
            let terminal = try Terminal(
                vim: files, directory: fleet.devices[1].path, options: "hidden")
            defer { terminal.close() }
            try terminal.wait(for: "the laptop's")
            try wait(seconds: 20, for: "Vim to present it") {
                try Programs.fsctl("locks", fleet.devices[1].path).succeed().contains("presents")
                    ? true : nil
            }
            try say(":ConcordConflict", in: terminal)
            try terminal.wait(for: "the desk's")
            // Resolved on the other device.
            try fleet.shell(0, "rm -f .conflicts/letter.txt/*")
            try wait(seconds: 20, for: "the tab to close") {
                try terminal.screen().contains("the desk's") ? nil : true
            }
            try terminal.wait(for: "the laptop's")
            // And resolved here, in favour of the other version.
            try say(":next", in: terminal)
            try say(":ConcordConflict", in: terminal)
            try terminal.wait(for: "the desk's")
            try say(":wincmd l", in: terminal)
            try say(":ConcordKeep", in: terminal)
            try wait(seconds: 20, for: "it to be settled") {
                fleet.text(0, "note.txt") == "the desk's\n" ? true : nil
            }
            try wait(seconds: 20, for: "the tab to close, and the buffer to follow") {
                try terminal.screen().contains("the laptop's") ? nil : true
            }
            try terminal.wait(for: "the desk's")
            try say(":qa!", in: terminal)
            try terminal.waitForEnd()
            try fleet.settle()
            for index in 0..<2 {
                for file in files { #expect(try fleet.conflicts(index, file).isEmpty) }
            }
        }
    }
}
