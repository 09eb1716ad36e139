import Control
import FileCoordination
import Foundation
import Glibc
import Support
import Testing

/// A volume of two people: real programs, a real hub and real mounts of two accounts.
@Suite("A shared volume", .serialized) struct SharedVolumeTests {
    /// Runs `body` with a device of ann and one of bob, who is a member of her volume.
    private func with(_ role: String, _ body: (Fleet) throws -> Void) throws {
        try Fleet.with(1) { fleet in
            try fleet.put(0, "plan.txt", "by ann")
            try fleet.settle()
            try fleet.hub.run("user", "add", "bob")
            try fleet.fsctl(0, "members", "add", "bob", "--role", role)
            try fleet.join(as: "bob")
            try fleet.settle()
            #expect(fleet.text(1, "plan.txt") == "by ann")
            try body(fleet)
        }
    }

    @Test("two people edit one document: both versions live, and both see who saved them")
    func editors() throws {
        try with("editor") { fleet in
            try fleet.put(1, "from-bob.txt", "by bob")
            try fleet.expectEqual()
            #expect(try fleet.persons(0, "from-bob.txt") == ["bob"])
            #expect(try fleet.persons(1, "from-bob.txt") == ["bob"])
            for index in 0..<2 { try fleet.offline(index) }
            try fleet.put(0, "plan.txt", "changed by ann")
            try fleet.put(1, "plan.txt", "changed by bob")
            for index in 0..<2 { try fleet.devices[index].waitForDisk() }
            for index in 0..<2 { try fleet.online(index) }
            try fleet.expectEqual()
            let current = try #require(fleet.text(0, "plan.txt"))
            let other = current == "changed by ann" ? "changed by bob" : "changed by ann"
            for index in 0..<2 {
                #expect(fleet.text(index, "plan.txt") == current)
                #expect(try fleet.conflicts(index, "plan.txt") == [other])
                let persons = try fleet.persons(index, "plan.txt", kinds: ["current", "conflict"])
                #expect(persons == ["ann", "bob"])
                let said = try fleet.fsctl(index, "versions", "plan.txt")
                #expect(said.contains("ann") && said.contains("bob"))
            }
            let members = try fleet.fsctl(1, "members")
            #expect(members.contains("ann") && members.contains("owner"))
            #expect(try fleet.fsctl(1, "volumes").contains("editor"))
            let url = URL(filePath: fleet.devices[1].path)
            let listed = try #require(try UbiquityContainer(ofItemAt: url)).members()
            #expect(listed.map(\.name) == ["ann", "bob"])
            #expect(listed.map(\.role) == [.owner, .editor])
            #expect(listed.map(\.isCurrentUser) == [false, true])
            #expect(listed[0].since <= listed[1].since && listed[1].since <= .now)
            #expect(try fleet.hub.run("member", "list", "ann", "team").contains("bob\teditor"))
            #expect(try fleet.hub.run("member", "list").contains("ann\t2\tteam"))
        }
    }

    @Test("a reader's mount is read-only, and follows what others change") func reader() throws {
        try with("reader") { fleet in
            try fleet.shell(0, "mkdir dir; echo x > dir/file; ln -s plan.txt link")
            try fleet.expectEqual()
            for words in [
                "echo x > new", "echo x >> plan.txt", "mkdir new", "rm plan.txt", "rmdir dir",
                "mv plan.txt other", "chmod 600 plan.txt", "touch plan.txt", "ln plan.txt hard",
                "ln -s x symbolic", "truncate -s 1 plan.txt", "setfattr -n user.a -v b plan.txt",
                "mkfifo pipe", "exec 3<>plan.txt",
            ] {
                var command = Command("/bin/bash", "-c", words)
                command.directory = fleet.devices[1].path
                let result = try command.run()
                #expect(
                    result.status != 0 && result.errors.contains("Read-only file system"),
                    "\(words): \(result.errors)")
            }
            try fleet.shell(0, "mv dir elsewhere; rm link; echo new > plan.txt; chmod 600 plan.txt")
            try fleet.expectEqual()
            #expect(fleet.text(1, "plan.txt") == "new\n")
            let said = try fleet.fsctl(1, "status")
            #expect(said.contains("team of ann") && said.contains("read-only"), "\(said)")
            // The setting outlives the daemon, also while the hub cannot be reached.
            try fleet.offline(1)
            try fleet.devices[1].remount()
            #expect(try fleet.attempt(1, "touch new").status != 0)
            try fleet.online(1)
            try fleet.fsctl(0, "members", "role", "bob", "editor")
            try wait(for: "bob to be an editor") {
                try fleet.attempt(1, "echo bob > new").status == 0 ? true : nil
            }
            try fleet.expectEqual()
            #expect(fleet.text(0, "new") == "bob\n")
        }
    }

    @Test("what a reader has changed before stays on the machine, until the reader may send it")
    func demoted() throws {
        try with("editor") { fleet in
            // This program keeps its file open while its user becomes a reader.
            let descriptor = open("\(fleet.devices[1].path)/plan.txt", O_WRONLY | O_CLOEXEC)
            #expect(descriptor >= 0)
            try fleet.fsctl(0, "members", "role", "bob", "reader")
            try wait(for: "bob to be a reader") {
                try fleet.report(fleet.devices[1]).hub?.role == "reader" ? true : nil
            }
            #expect(try fleet.attempt(1, "touch new").status != 0)
            #expect(pwrite(descriptor, "by bob", 6, 0) == 6)
            close(descriptor)
            try wait(for: "the change to be recorded") {
                try fleet.report(fleet.devices[1]).hub?.unsent == 1 ? true : nil
            }
            let said = try fleet.fsctl(1, "status")
            #expect(said.contains("1 change") && said.contains("stay on this machine"), "\(said)")
            let refused = try fleet.attempt(1, "'\(Programs.fsctl)' signout --at .")
            #expect(refused.status != 0 && refused.errors.contains("only read"), "\(refused)")
            #expect(fleet.text(0, "plan.txt") == "by ann")
            try fleet.hub.run("member", "role", "ann", "team", "bob", "editor")
            try fleet.expectEqual()
            #expect(fleet.text(0, "plan.txt") == "by bob")
        }
    }

    @Test("removing a member ends the access; what was not sent stays") func removed() throws {
        try with("editor") { fleet in
            try fleet.fsctl(0, "members", "remove", "bob")
            func isRemoved() throws {
                try wait(for: "bob's device to know") {
                    try fleet.report(fleet.devices[1]).hub?.state == "removed" ? true : nil
                }
            }
            try isRemoved()
            try fleet.put(0, "secret.txt", "not for bob")
            try fleet.put(1, "mine.txt", "by bob")
            try fleet.settle([0])
            try fleet.devices[1].remount()
            try isRemoved()
            #expect(fleet.text(1, "mine.txt") == "by bob" && fleet.text(1, "secret.txt") == nil)
            let said = try fleet.fsctl(1, "status")
            #expect(
                said.contains("not a member") && said.contains("stay on this machine"), "\(said)")
            let refused = try fleet.attempt(1, "'\(Programs.fsctl)' signout --at .")
            #expect(refused.status != 0 && refused.errors.contains("--force"), "\(refused)")
            let members = try fleet.attempt(1, "'\(Programs.fsctl)' members --at .")
            #expect(members.status != 0 && !members.output.contains("ann"), "\(members)")
            try fleet.fsctl(0, "members", "add", "bob")
            try fleet.expectEqual()
            #expect(fleet.text(0, "mine.txt") == "by bob")
            #expect(fleet.text(1, "secret.txt") == "not for bob")
            try fleet.hub.run("member", "remove", "ann", "team", "bob")
            try isRemoved()
            try fleet.put(1, "later.txt", "by bob")
            try fleet.fsctl(1, "signout", "--force")
            #expect(fleet.text(1, "later.txt") == "by bob")
        }
    }

    @Test("each wrong name gets a sentence, and does not use up the code") func names() throws {
        try Fleet.with(1) { fleet in
            try fleet.hub.run("user", "add", "bob")
            let code = try fleet.hub.invite("bob")
            let device = try MountedVolume(options: ["name=own"])
            defer { device.cleanUp() }
            func signIn(_ words: String...) throws -> Command.Result {
                try Command(
                    Programs.fsctl,
                    arguments: ["signin", fleet.hub.address, "--code", code, "--at", device.path]
                        + words
                ).run()
            }
            let early = try signIn("--volume", "team", "--owner", "ann")
            #expect(early.status != 0 && early.errors.contains("Nobody has shared"), "\(early)")
            for (words, sentence) in [
                (["members", "add", "carl"], "There is no user carl"),
                (["members", "add", "bob", "--role", "boss"], "editor or reader"),
                (["members", "role", "bob", "reader"], "not a member"),
                (["members", "remove", "ann"], "owner cannot be removed"),
            ] {
                let said = try Command(
                    Programs.fsctl, arguments: words + ["--at", fleet.devices[0].path]
                ).run()
                #expect(said.status != 0 && said.errors.contains(sentence), "\(words): \(said)")
            }
            for (words, sentence) in [
                (["member", "add", "ann", "none", "bob"], "has no volume"),
                (["member", "add", "carl", "team", "bob"], "There is no user carl"),
                (["member", "add", "ann", "team", "bob", "--role", "owner"], "editor or reader"),
                (["member", "list", "ann"], "name is missing"),
            ] {
                let said = try fleet.hub.attempt(words)
                #expect(said.status != 0 && said.errors.contains(sentence), "\(words): \(said)")
            }
            try fleet.hub.run("member", "add", "ann", "team", "bob", "--role", "reader")
            let misspelt = try signIn("--volume", "taem", "--owner", "ann")
            #expect(misspelt.errors.contains("You may use \"team\" of ann"), "\(misspelt)")
            let joined = try signIn("--volume", "team", "--owner", "ann")
            #expect(joined.status == 0, "\(joined)")
            try device.unmount()
        }
    }
}

extension Fleet {
    /// Runs fsctl in a device's mount.
    @discardableResult
    func fsctl(_ index: Int, _ words: String...) throws -> String {
        var command = Command(Programs.fsctl, arguments: words)
        command.directory = devices[index].path
        return try command.succeed()
    }

    func attempt(_ index: Int, _ script: String) throws -> Command.Result {
        var command = Command("/bin/bash", "-c", script)
        command.directory = devices[index].path
        return try command.run()
    }

    /// The people who saved versions of a document, sorted.
    fileprivate func persons(
        _ index: Int, _ path: String, kinds: Set<String>? = nil
    ) throws -> [String] {
        let place = try MountedPath(FilePath("\(devices[index].path)/\(path)"))
        let history = try ControlClient(socket: place.socket).ask(
            Request(.versions, path: place.components), as: HistoryReport.self)
        let meant = history.versions.filter { kinds?.contains($0.kind) ?? true }
        return meant.map(\.person).sorted()
    }
}
