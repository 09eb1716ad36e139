import Control
import FileCoordination
import Foundation
import Support
import Testing

/// A folder of ann's volume that bob sees as a volume of his own: real programs, a real hub and
/// real mounts.
@Suite("A shared folder", .serialized) struct SharedFolderTests {
    /// Runs `body` with a device of ann, whose volume has the directories `shared` and `private`,
    /// and one of bob, who is a member of `shared`.
    private func with(_ role: String, _ body: (Fleet) throws -> Void) throws {
        try Fleet.with(1) { fleet in
            try fleet.shell(
                0,
                """
                mkdir -p shared/sub private/inner; echo plan > shared/plan.txt
                echo note > shared/sub/note.txt; echo salary > private/salary.txt
                """)
            try fleet.settle()
            try fleet.hub.run("user", "add", "bob")
            try fleet.fsctl(0, "members", "add", "bob", "--role", role, "--folder", "shared")
            try fleet.join(as: "bob", volume: "team/shared")
            try fleet.settle()
            #expect(try names(fleet, 1) == ["plan.txt", "sub", "sub/note.txt"])
            try body(fleet)
        }
    }

    /// The paths in a device's mount, or in a directory of it.
    private func names(_ fleet: Fleet, _ index: Int, _ directory: String = ".") throws -> [String] {
        let found = try fleet.attempt(
            index, "cd \(directory) && find . -mindepth 1 -printf '%P\\n'")
        return found.output.split(separator: "\n").map(String.init).sorted()
    }

    /// Waits until bob's mount shows the same as ann's folder.
    private func expectEqual(_ fleet: Fleet) throws {
        try fleet.settle()
        let script = """
            find . -mindepth 1 -printf '%P %y %m\\n' | sort
            find . -type f | sort | xargs -d '\\n' md5sum
            """
        let trees = [
            try fleet.attempt(0, "cd shared && \(script)"), try fleet.attempt(1, script),
        ]
        #expect(trees[0].output == trees[1].output && !trees[0].output.isEmpty)
    }

    @Test("claims that hold on all devices hold for a member of the folder, too")
    func claims() throws {
        try with("editor") { fleet in
            let places = ["shared/plan.txt", "plan.txt"].enumerated().map { index, path in
                URL(filePath: "\(fleet.devices[index].path)/\(path)")
            }
            for (here, there) in [(1, 0), (0, 1)] {
                let other = Programs.fsctl(
                    "coordinate", "--everywhere", "--no-wait", "write", places[there].path, "--",
                    "true")
                let coordinator = FileCoordinator(scope: .volume)
                try coordinator.coordinate(writingItemAt: places[here]) { url in
                    #expect(try other.run().status == 4)
                    try Data("by \(here)\n".utf8).write(to: url)
                }
                try expectEqual(fleet)
                #expect(fleet.text(1, "plan.txt") == "by \(here)\n")
            }
            #expect(try fleet.conflicts(1, "plan.txt").isEmpty)
        }
    }

    @Test("two people work in a folder, and only one of them sees what is beside it")
    func editing() throws {
        try with("editor") { fleet in
            try fleet.shell(1, "mkdir new; echo bob > new/file; echo more >> plan.txt; rm -r sub")
            try expectEqual(fleet)
            #expect(fleet.text(0, "shared/new/file") == "bob\n")
            #expect(fleet.text(0, "shared/plan.txt") == "plan\nmore\n")
            try fleet.shell(
                0, "mv shared/new shared/old; echo ann > shared/ann; echo x > private/x")
            try expectEqual(fleet)
            #expect(try names(fleet, 1) == ["ann", "old", "old/file", "plan.txt"])
            for index in 0..<2 { try fleet.offline(index) }
            try fleet.put(0, "shared/plan.txt", "by ann")
            try fleet.put(1, "plan.txt", "by bob")
            for index in 0..<2 { try fleet.devices[index].waitForDisk() }
            for index in 0..<2 { try fleet.online(index) }
            try expectEqual(fleet)
            let current = try #require(fleet.text(1, "plan.txt"))
            #expect(
                try fleet.conflicts(1, "plan.txt") == [current == "by ann" ? "by bob" : "by ann"])
            let members = try fleet.fsctl(0, "members")
            #expect(members.contains("FOLDER") && members.contains("shared"), "\(members)")
            #expect(try !fleet.fsctl(1, "members").contains("FOLDER"))
            let url = URL(filePath: fleet.devices[0].path)
            let people = try #require(try UbiquityContainer(ofItemAt: url)).members()
            #expect(people.map(\.folder) == [nil, "shared"])
            let volumes = try fleet.fsctl(1, "volumes")
            #expect(volumes.contains("team/shared"), "\(volumes)")
            let link = try fleet.attempt(1, "'\(Programs.fsctl)' share plan.txt")
            #expect(link.status != 0 && link.errors.contains("whole volume"), "\(link)")
            try fleet.hub.run("user", "add", "carl")
            let none = try fleet.hub.attempt([
                "member", "add", "ann", "team", "carl", "--folder", "shared/none",
            ])
            #expect(none.status != 0 && none.errors.contains("no folder"), "\(none)")
            try fleet.hub.run("member", "add", "ann", "team", "carl", "--folder", "shared/old")
            let listed = try fleet.hub.run("member", "list", "ann", "team")
            #expect(listed.contains("\tshared\n") && listed.contains("\tshared/old"), "\(listed)")
            #expect(try fleet.fsctl(1, "members").contains("old"))
        }
    }

    @Test("what is moved into the folder comes, and what is moved out of it goes")
    func moves() throws {
        try with("editor") { fleet in
            try fleet.shell(0, "mv private/salary.txt shared/sub/; mkdir private/empty")
            try expectEqual(fleet)
            #expect(fleet.text(1, "sub/salary.txt") == "salary\n")
            try fleet.shell(0, "mv shared/sub private/inner/")
            try expectEqual(fleet)
            #expect(try names(fleet, 1) == ["plan.txt"])
            try fleet.shell(0, "echo changed > private/inner/sub/note.txt")
            try fleet.shell(0, "mv private/inner shared/")
            try expectEqual(fleet)
            #expect(fleet.text(1, "inner/sub/note.txt") == "changed\n")
            try fleet.shell(1, "mv inner/sub .; rmdir inner")
            try expectEqual(fleet)
            // Where the folder is does not concern those who see only it.
            try fleet.shell(0, "mkdir deep && mv shared deep/")
            try fleet.settle()
            #expect(fleet.text(1, "sub/note.txt") == "changed\n")
            try fleet.shell(1, "echo bob > sub/note.txt")
            try fleet.settle()
            #expect(fleet.text(0, "deep/shared/sub/note.txt") == "bob\n")
        }
    }

    @Test("what bob changed while it was moved out stays his, as a new document")
    func movedOut() throws {
        try with("editor") { fleet in
            try fleet.offline(1)
            try fleet.shell(
                1, "echo bob > plan.txt; echo bob > sub/note.txt; echo new > sub/new.txt")
            try fleet.devices[1].waitForDisk()
            try fleet.shell(0, "mv shared/plan.txt shared/sub private/")
            try fleet.settle([0])
            try fleet.online(1)
            try expectEqual(fleet)
            #expect(fleet.text(0, "private/plan.txt") == "plan\n")
            #expect(fleet.text(0, "private/sub/note.txt") == "note\n")
            #expect(fleet.text(1, "plan.txt") == "bob\n")
            let found = try fleet.attempt(1, "cat $(find . -name note.txt) $(find . -name new.txt)")
            let all = try names(fleet, 1)
            #expect(found.output == "bob\nnew\n", "\(all)")
        }
    }

    @Test("a folder in the trash, and a removed member") func endings() throws {
        try with("editor") { fleet in
            func isRemoved() throws {
                try wait(for: "bob's device to know") {
                    try fleet.report(fleet.devices[1]).hub?.state == "removed" ? true : nil
                }
            }
            #expect(fleet.text(1, "plan.txt") == "plan\n")
            try fleet.shell(0, "mv shared kept; cp -a kept copy")
            try fleet.settle()
            // Otherwise what is in the folder could be deleted before the folder.
            try fleet.offline(0)
            try fleet.shell(0, "rm -r kept")
            try fleet.devices[0].waitForDisk()
            try fleet.online(0)
            try fleet.settle([0])
            try fleet.put(1, "mine.txt", "by bob")
            try isRemoved()
            #expect(fleet.text(1, "plan.txt") == "plan\n")
            try fleet.fsctl(0, "members", "remove", "bob")
            try fleet.fsctl(0, "members", "add", "bob", "--folder", "copy")
            // Another folder is another volume, which the device does not mix with this one.
            try isRemoved()
            #expect(fleet.text(0, "copy/mine.txt") == nil)
            let said = try fleet.attempt(
                0, "'\(Programs.fsctl)' members add x --folder copy/plan.txt")
            #expect(said.status != 0 && said.errors.contains("only folders are shared"), "\(said)")
        }
    }

    @Test("a reader of a folder follows it") func reader() throws {
        try with("reader") { fleet in
            #expect(try fleet.attempt(1, "touch new").status != 0)
            try fleet.shell(0, "echo x > shared/sub/new; mv private/salary.txt shared/")
            try expectEqual(fleet)
            try fleet.devices[1].remount()
            try fleet.shell(0, "rm shared/salary.txt")
            try expectEqual(fleet)
        }
    }
}
