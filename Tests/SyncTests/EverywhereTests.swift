import Control
import FileCoordination
import Foundation
import Glibc
import Support
import Testing

/// Claims that hold on all devices: real mounts of two people, and a real hub.
@Suite("Claims on all devices", .serialized) struct EverywhereTests {
    private func with(_ body: (Fleet) throws -> Void) throws {
        try Fleet.with(1) { fleet in
            try fleet.put(0, "plan.txt", "old\n")
            try fleet.settle()
            try fleet.hub.run("user", "add", "bob")
            try fleet.fsctl(0, "members", "add", "bob", "--role", "editor")
            try fleet.join(as: "bob")
            try fleet.expectEqual()
            try body(fleet)
        }
    }

    /// Runs a command under a claim on the document that holds on all devices.
    private func coordinate(
        _ fleet: Fleet, _ index: Int, _ options: [String] = [], _ command: String
    ) throws -> Command.Result {
        try Command(
            Programs.fsctl,
            arguments: ["coordinate", "--everywhere"] + options
                + [
                    "write", "\(fleet.devices[index].path)/plan.txt", "--", "/bin/sh", "-c",
                    command,
                ]
        ).run()
    }

    @Test("while a claim holds, others do not get it, and what they save is a conflict version")
    func holds() throws {
        try with { fleet in
            let url = URL(filePath: "\(fleet.devices[0].path)/plan.txt")
            let coordinator = FileCoordinator(scope: .volume)
            try coordinator.coordinate(writingItemAt: url) { url in
                #expect(try coordinate(fleet, 1, ["--no-wait"], "true").status == 4)
                let other = FileCoordinator(waits: false, scope: .volume)
                let there = URL(filePath: "\(fleet.devices[1].path)/plan.txt")
                #expect(throws: FileCoordinationError.self) {
                    try other.coordinate(writingItemAt: there) { _ in }
                }
                // A plain program on the other device.
                try fleet.put(1, "plan.txt", "bob\n")
                try fleet.settle([1])
                try Data("ann\n".utf8).write(to: url)
            }
            try fleet.expectEqual()
            #expect(fleet.text(1, "plan.txt") == "ann\n")
            #expect(try fleet.conflicts(0, "plan.txt") == ["bob\n"])
            let result = try coordinate(fleet, 1, [], "echo later > '{}'")
            #expect(result.status == 0, "\(result.errors)")
            try fleet.expectEqual()
            #expect(fleet.text(0, "plan.txt") == "later\n")
            try fleet.offline(1)
            let offline = try coordinate(fleet, 1, [], "true")
            #expect(offline.status != 0 && offline.errors.contains("hub"), "\(offline.errors)")
            try fleet.online(1)
        }
    }

    @Test("Vim on another device saves and lets go of the document, and gets it back afterwards")
    func vim() throws {
        try with { fleet in
            let terminal = try Terminal(
                vim: ["plan.txt"], directory: fleet.devices[0].path, options: "directory=.")
            defer { terminal.close() }
            try wait(seconds: 20, for: "Vim to present the document") {
                try fleet.fsctl(0, "locks").contains("  presents ") ? true : nil
            }
            try terminal.press("Escape")
            try terminal.type("Godraft")
            try terminal.press("Escape")
            try terminal.wait(for: "draft")
            try wait(for: "bob to know that ann edits it") {
                try fleet.fsctl(1, "who", "plan.txt").contains("edits") ? true : nil
            }
            let result = try coordinate(fleet, 1, [], "echo later >> '{}'")
            #expect(result.status == 0, "\(result.errors)")
            try fleet.settle()
            #expect(fleet.text(0, "plan.txt") == "old\ndraft\nlater\n")
            try terminal.wait(for: "later")
            try terminal.type(":qa!")
            try terminal.press("Enter")
            try terminal.waitForEnd()
            #expect(try fleet.conflicts(0, "plan.txt").isEmpty)
        }
    }
}
