import Control
import Foundation
import Glibc
import Model
import Support
import SystemCalls
import Testing

/// The rule `lock=hard`: real programs on the mounts of two people, and a real hub.
@Suite("lock=hard in .concordattributes", .serialized) struct HardLockTests {
    private static let plan = "dir/plan.txt"

    /// Runs `body` with a device of ann and one of bob.
    ///
    /// - Parameter seconds: How long a grant lasts without a sign of life; nil for the usual time.
    private func with(
        seconds: Int? = nil, rules: String = "plan.txt lock=hard\n*.rtfd lock=hard\n",
        _ body: (Fleet) throws -> Void
    ) throws {
        let environment = seconds.map { ["CONCORD_GRANT_SECONDS": "\($0)"] } ?? [:]
        try Fleet.with(0, hub: try HubProcess(environment: environment)) { fleet in
            try fleet.join(environment: environment)
            try fleet.shell(0, "mkdir dir; echo old > dir/plan.txt; echo y > other.txt")
            try fleet.put(0, ".concordattributes", rules)
            try fleet.settle()
            try fleet.hub.run("user", "add", "bob")
            try fleet.fsctl(0, "members", "add", "bob", "--role", "editor")
            try fleet.join(environment: environment, as: "bob")
            try fleet.expectEqual()
            try awaitRules(fleet, Self.plan)
            try body(fleet)
        }
    }

    private func awaitRules(_ fleet: Fleet, _ path: String) throws {
        for index in 0..<2 {
            try wait(for: "device \(index) to know the rules") {
                try fleet.fsctl(index, "status", path).contains("Lock") ? true : nil
            }
        }
    }

    private func path(_ fleet: Fleet, _ index: Int, _ path: String = plan) -> String {
        "\(fleet.devices[index].path)/\(path)"
    }

    private func edit(_ fleet: Fleet, _ index: Int, _ path: String = plan) throws -> OpenFile {
        try OpenFile(self.path(fleet, index, path), O_RDWR)
    }

    /// The error of an open for writing; nil if it succeeds.
    private func refusal(_ fleet: Fleet, _ index: Int, _ path: String = plan) -> Errno? {
        Support.refusal { () throws(Errno) in
            try OpenFile(self.path(fleet, index, path), O_RDWR).close()
        }
    }

    private func awaitEdit(_ fleet: Fleet, _ index: Int, _ path: String = plan) throws -> OpenFile {
        let place = self.path(fleet, index, path)
        return try wait(for: "device \(index) to get \(path)") { () throws -> OpenFile? in
            do throws(Errno) { return try OpenFile(place, O_RDWR) } catch {
                guard error == Errno(EBUSY) else { throw error }
                return nil
            }
        }
    }

    private func lock(_ fleet: Fleet, _ index: Int) throws -> String {
        try fleet.fsctl(index, "status", Self.plan)
    }

    @Test("while one device writes a document, writing it elsewhere fails with EBUSY")
    func busy() throws {
        try with { fleet in
            let document = try edit(fleet, 0)
            #expect(try lock(fleet, 0).contains("only this device may edit it now"))
            #expect(refusal(fleet, 1) == Errno(EBUSY))
            let status = try lock(fleet, 1)
            #expect(status.contains("EBUSY, because ann on dev0 edits it"), "\(status)")
            let place = path(fleet, 1)
            #expect(truncate(place, 0) == -1 && errno == EBUSY)
            #expect(open(place, O_WRONLY | O_TRUNC) == -1 && errno == EBUSY)
            try fleet.put(1, "draft", "by bob")
            #expect(rename(path(fleet, 1, "draft"), place) == -1 && errno == EBUSY)
            #expect(rename(place, place + "~") == -1 && errno == EBUSY)
            // Reading does not need it, and neither do other documents.
            #expect(fleet.text(1, Self.plan) == "old\n")
            try fleet.put(1, "other.txt", "z\n")
            // A second program on the same device does not wait.
            try edit(fleet, 0).close()
            try document.truncate(to: 0)
            try document.write("new\n", at: 0)
            document.close()
            let later = try awaitEdit(fleet, 1)
            #expect(try later.text() == "new\n")
            #expect(refusal(fleet, 0) == Errno(EBUSY))
            later.close()
            try awaitEdit(fleet, 0).close()
            // The same without an open.
            try wait(for: "a rename to be allowed") {
                rename(path(fleet, 1, "draft"), place) == 0 ? true : nil
            }
            try wait(for: "the next one to be allowed") {
                truncate(path(fleet, 0), 3) == 0 ? true : nil
            }
            try fleet.expectEqual()
            #expect(fleet.text(1, Self.plan) == "by ")
            #expect(try fleet.conflicts(1, Self.plan).isEmpty)
        }
    }

    @Test("without the hub documents are read-only, and a hub that was restarted knows who has one")
    func withoutHub() throws {
        try with { fleet in
            try fleet.offline(1)
            #expect(refusal(fleet, 1) == Errno(EROFS))
            #expect(truncate(path(fleet, 1), 0) == -1 && errno == EROFS)
            #expect(try lock(fleet, 1).contains("EROFS, because the hub could not be asked"))
            #expect(fleet.text(1, Self.plan) == "old\n")
            try fleet.put(1, "other.txt", "z\n")
            try fleet.online(1)
            let document = try wait(for: "the device to be online") {
                try? edit(fleet, 1)
            }
            try fleet.hub.kill9()
            #expect(refusal(fleet, 0) == Errno(EROFS))
            // A file that is open for writing already can still be written without the hub.
            try document.write("bob\n", at: 0)
            try fleet.hub.start()
            try wait(for: "the hub to be asked") {
                refusal(fleet, 0) == Errno(EBUSY) ? true : nil
            }
            document.close()
            let later = try awaitEdit(fleet, 0)
            #expect(try later.text() == "bob\n")
            later.close()
            try fleet.expectEqual()
            #expect(try fleet.conflicts(0, Self.plan).isEmpty)
        }
    }

    @Test("what a stopped device saves later is a conflict version, although nobody saved before")
    func stopped() throws {
        try with(seconds: 3) { fleet in
            let document = try edit(fleet, 0)
            try document.write("ann\n", at: 0)
            try fleet.devices[0].suspend()
            #expect(refusal(fleet, 1) == Errno(EBUSY))
            let later = try awaitEdit(fleet, 1)
            fleet.devices[0].resume()
            document.close()
            try fleet.settle([0])
            // Without the token, the save would be the next version of what bob has open.
            #expect(fleet.text(0, Self.plan) == "old\n")
            #expect(try fleet.conflicts(0, Self.plan) == ["ann\n"])
            try later.write("bob\n", at: 0)
            later.close()
            try fleet.expectEqual()
            #expect(fleet.text(0, Self.plan) == "bob\n")
            #expect(try fleet.conflicts(1, Self.plan) == ["ann\n"])
        }
    }

    @Test("what a killed device finds when it is mounted again carries the token of before")
    func killed() throws {
        try with(seconds: 3) { fleet in
            let document = try edit(fleet, 0)
            try document.write("ann\n", at: 0)
            try fleet.devices[0].kill9()
            document.close()
            #expect(refusal(fleet, 1) == Errno(EBUSY))
            let later = try awaitEdit(fleet, 1)
            try fleet.devices[0].mount()
            try fleet.settle([0])
            #expect(fleet.text(0, Self.plan) == "old\n")
            #expect(try fleet.conflicts(0, Self.plan) == ["ann\n"])
            try later.write("bob\n", at: 0)
            later.close()
            try fleet.expectEqual()
            #expect(fleet.text(0, Self.plan) == "bob\n")
            #expect(try fleet.conflicts(0, Self.plan) == ["ann\n"])
        }
    }

    @Test("a device that is mounted again goes on with its grant, and gives it back")
    func mountedAgain() throws {
        try with { fleet in
            let document = try edit(fleet, 0)
            try document.write("ann\n", at: 0)
            try fleet.devices[0].kill9()
            document.close()
            try fleet.devices[0].mount()
            let later = try awaitEdit(fleet, 1)
            #expect(try later.text() == "ann\n")
            later.close()
            try fleet.expectEqual()
            #expect(try fleet.conflicts(0, Self.plan).isEmpty)
        }
    }

    @Test("a package is one document") func package() throws {
        try with { fleet in
            try fleet.shell(0, "mkdir -p a.rtfd/sub; echo 1 > a.rtfd/one; echo 2 > a.rtfd/two")
            try fleet.expectEqual()
            let document = try edit(fleet, 0, "a.rtfd/one")
            #expect(refusal(fleet, 1, "a.rtfd/two") == Errno(EBUSY))
            #expect(
                rename(path(fleet, 1, "a.rtfd/two"), path(fleet, 1, "a.rtfd/three")) == -1
                    && errno == EBUSY)
            for (command, name) in [
                ("touch", "new"), ("mkdir", "new"), ("ln -s two", "new"), ("mkfifo", "new"),
                ("ln two", "new"), ("rm", "two"), ("rmdir", "sub"), ("rm -r", "sub"),
            ] {
                let line = "cd a.rtfd; LC_ALL=C \(command) \(name) 2>&1"
                var shell = Command("/bin/sh", "-c", line)
                shell.directory = fleet.devices[1].path
                let said = try shell.run().output
                #expect(said.contains("Device or resource busy"), "\(command): \(said)")
            }
            try fleet.put(0, "a.rtfd/two", "3\n")
            document.close()
            let later = try awaitEdit(fleet, 1, "a.rtfd/two")
            #expect(try later.text() == "3\n")
            later.close()
        }
    }

    @Test("a version takes the document's place only where the document may be edited")
    func replaced() throws {
        try with { fleet in
            try fleet.offline(1)
            try fleet.put(0, "other.txt", "ann\n")
            try fleet.put(1, "other.txt", "bob\n")
            try fleet.settle([0])
            try fleet.online(1)
            try fleet.expectEqual()
            try fleet.put(0, ".concordattributes", "other.txt lock=hard\n")
            try awaitRules(fleet, "other.txt")
            // A version that must be downloaded cannot be renamed.
            let here = try fleet.conflicts(0, "other.txt") == ["ann\n"] ? 0 : 1
            let there = 1 - here
            let document = try edit(fleet, there, "other.txt")
            let name = try #require(fleet.names(here, ".conflicts/other.txt").first)
            let version = path(fleet, here, ".conflicts/other.txt/\(name)")
            let target = path(fleet, here, "other.txt")
            #expect(rename(version, target) == -1 && errno == EBUSY)
            let restore = Programs.fsctl("restore", target, "1")
            let refusal = try restore.run()
            #expect(refusal.status != 0)
            #expect(refusal.errors.contains("edited on another device"), "\(refusal.errors)")
            document.close()
            try awaitEdit(fleet, here, "other.txt").close()
            #expect(rename(version, target) == 0, "\(errno)")
            try fleet.expectEqual()
            #expect(try fleet.conflicts(there, "other.txt").isEmpty)
            try restore.succeed()
            try fleet.expectEqual()
            #expect(fleet.text(there, "other.txt") == "y\n")
        }
    }

    @Test("Vim opens a document that is edited elsewhere, and cannot write it until then")
    func vim() throws {
        try with { fleet in
            let document = try edit(fleet, 0)
            let terminal = try Terminal(
                ["vim", "-u", "NONE", "-i", "NONE", "-n", Self.plan],
                directory: fleet.devices[1].path)
            defer { terminal.close() }
            try terminal.wait(for: "old")
            try terminal.type("Godraft")
            try terminal.press("Escape")
            try terminal.type(":w")
            try terminal.press("Enter")
            try terminal.wait(for: "E212: Can't open file for writing")
            #expect(fleet.text(1, Self.plan) == "old\n")
            document.close()
            try awaitEdit(fleet, 1).close()
            try terminal.press("Enter")
            try terminal.type(":w")
            try terminal.press("Enter")
            try terminal.wait(for: "written")
            try terminal.type(":q")
            try terminal.press("Enter")
            try terminal.waitForEnd()
            try fleet.expectEqual()
            #expect(fleet.text(0, Self.plan) == "old\ndraft\n")
            #expect(try fleet.conflicts(0, Self.plan).isEmpty)
        }
    }
}
