import Control
import Foundation
import Glibc
import Support
import Testing

@testable import Sync

// Programs that are in each other's way, and what leaves no trace.
extension TrapTests {
    /// Holds a document open, and writes `late` to it when it is told to.
    private static let writer = """
        import sys
        with open(sys.argv[1], "r+") as file:
            file.write("held")
            file.flush()
            print("has it", flush=True)
            sys.stdin.readline()
            file.seek(0)
            file.write("late")
        """

    /// [traps 20] The other program neither waits for the stopped one nor loses its save.
    @Test(
        "38: a program is stopped while it writes a document that another one saves",
        arguments: ["replace", "write"])
    func stoppedWriter(_ way: String) throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "doc", "first")
            try fleet.expectEqual()
            let path = "\(fleet.devices[0].path)/doc"
            let holder = try Beside(running: "python3", ["-c", Self.writer, path])
            try holder.wait(for: "has it")
            holder.send(SIGSTOP)
            let other = try PlainProgram()
            try other.tell(way, path, "other")
            if way == "replace" {
                try wait(seconds: 60, for: "the other program's save on the other device") {
                    fleet.text(1, "doc") == "other" ? true : nil
                }
            }
            holder.send(SIGCONT)
            holder.tell("go")
            #expect(try holder.waitForEnd() == 0)
            try fleet.expectSound()
            for index in 0..<2 {
                let contents = try reachableContents(in: fleet.devices[index].path)
                #expect(contents.contains(Data("first".utf8)))
                if way == "replace" {
                    #expect(contents.contains(Data("other".utf8)), "device \(index)")
                    #expect(fleet.text(index, "doc") == "other")
                    #expect(try fleet.conflicts(index, "doc") == ["latet"])
                } else {
                    // Both have written to one file: it is as on any disk.
                    #expect(fleet.text(index, "doc") == "later")
                    // Of saves that follow each other, only the last one is sent.
                    if index == 1 { continue }
                    withKnownIssue("it is a version only when both have closed it") {
                        #expect(contents.contains(Data("other".utf8)))
                    }
                }
            }
        }
    }

    /// [traps 23]
    @Test("39: lock files and drafts of programs that were killed, of both devices")
    func leftLocks() throws {
        try Fleet.with(2) { fleet in
            for name in ["letter.odt", "notes.txt"] { try fleet.put(0, name, "first") }
            try fleet.expectEqual()
            let home = try TemporaryDirectory("locks")
            let dying = """
                import fcntl, os, sys
                document = open(sys.argv[1], "r+")
                for name in (".~lock.letter.odt#", ".notes.txt.swp"):
                    file = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR)
                    os.write(file, b"of a program that was killed")
                    fcntl.lockf(file, fcntl.LOCK_EX)
                os.kill(os.getpid(), 9)
                """
            var program = Command("python3", "-c", dying, "letter.odt")
            program.directory = fleet.devices[0].path
            #expect(try program.run().status != 0)
            // The other device's files are copied, with their names and times.
            try Command(
                "/bin/bash", "-ec",
                "cp -p '\(fleet.devices[0].path)'/.[~n]* '\(home.path)'; "
                    + "cp -p '\(home.path)'/.[~n]* '\(fleet.devices[1].path)'"
            ).succeed()
            for isOffline in [false, true] {
                for index in 0..<2 {
                    if isOffline { try fleet.offline(index) }
                    let locks = try Programs.fsctl("locks", fleet.devices[index].path).succeed()
                    #expect(locks.hasPrefix("Nothing is claimed"), "\(locks)")
                    try fleet.shell(
                        index,
                        """
                        cat letter.odt notes.txt .~lock.letter.odt# .notes.txt.swp > /dev/null
                        rm .~lock.letter.odt#; set -C; echo mine > .~lock.letter.odt#; set +C
                        echo newer > .~lock.letter.odt#
                        echo newer > .swp.tmp; mv .swp.tmp .notes.txt.swp
                        """)
                    let after = try Programs.fsctl("locks", fleet.devices[index].path).succeed()
                    #expect(after.hasPrefix("Nothing is claimed"), "\(after)")
                }
                let (text, name) = isOffline ? ("third", "notes.txt") : ("second", "letter.odt")
                try fleet.put(isOffline ? 1 : 0, name, text)
                for index in 0..<2 where isOffline { try fleet.online(index) }
                try wait(seconds: 60, for: "the save") {
                    fleet.text(isOffline ? 0 : 1, name) == text ? true : nil
                }
            }
            try fleet.join()
            try fleet.settle()
            #expect(try fleet.names(2) == ["letter.odt", "notes.txt"])
            for index in 0..<2 {
                let hub = try fleet.report(fleet.devices[index]).hub
                #expect(hub?.unsent == 0 && hub?.problems.isEmpty == true)
                #expect(fleet.text(index, ".~lock.letter.odt#") == "newer\n")
                try fleet.shell(index, "rm .~lock.letter.odt# .notes.txt.swp")
            }
            try fleet.expectSound()
        }
    }

    /// [traps 24]
    @Test(
        "40: a document is removed under another program's claim, and then saved",
        arguments: ["echo 2 > doc", "echo 2 > .doc.tmp; mv .doc.tmp doc"], [false, true])
    func removedUnderAClaim(save: String, isSent: Bool) throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "echo 1 > doc; echo 1 > kept")
            try fleet.expectEqual()
            let device = fleet.devices[0]
            let presenter = try Beside("present", "\(device.path)/doc")
            try presenter.wait(for: "presenting")
            let holder = try Beside(
                "coordinate", "write", "doc", "--", "bash", "-ec",
                "echo has it; read line; \(save)", directory: device.path)
            try holder.wait(for: "has it")
            if !isSent { try fleet.offline(0) }
            // It goes ahead although the claim lasts.
            try fleet.shell(0, "rm doc")
            #expect(fleet.text(0, "doc") == nil)
            try presenter.wait(for: #"{"kind":"changed"}"#)
            if isSent {
                try wait(seconds: 60, for: "the deletion to arrive") {
                    fleet.text(1, "doc") == nil ? true : nil
                }
            }
            holder.tell("go")
            #expect(try holder.waitForEnd() == 0)
            try device.waitForDisk()
            if !isSent { try fleet.online(0) }
            try fleet.expectSound()
            for index in 0..<2 {
                #expect(fleet.text(index, "doc") == "2\n", "device \(index)")
                #expect(try fleet.names(index) == ["doc", "kept"])
                let contents = try reachableContents(in: fleet.devices[index].path)
                #expect(contents.contains(Data("1\n".utf8)))
            }
        }
    }

    /// [traps 16]
    @Test("41: what is made and removed offline leaves nothing")
    func scratch() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "kept", "0")
            try fleet.expectEqual()
            try fleet.offline(0)
            let device = fleet.devices[0]
            let program = """
                import os, sys
                def step():
                    print("step", flush=True)
                    sys.stdin.readline()
                file = os.open("scratch", os.O_CREAT | os.O_RDWR)
                os.write(file, b"before ")
                step()
                os.unlink("scratch")
                step()
                os.write(file, b"after")
                step()
                assert os.pread(file, 100, 0) == b"before after"
                os.close(file)
                open("named", "w").close()
                os.rename("named", "renamed")
                os.chmod("renamed", 0o600)
                step()
                os.unlink("renamed")
                os.mkdir("folder")
                step()
                os.rename("folder", "moved")
                step()
                os.rmdir("moved")
                """
            let running = try Beside(
                running: "python3", ["-c", program], directory: device.path)
            for round in 1...6 {
                try wait(seconds: 20, for: "step \(round); \(running.said)") {
                    running.said.split(separator: "\n").count == round ? true : nil
                }
                // Each step is in the journal before the next one. `fsctl wait` would wait for the
                // program to close its file.
                try wait(seconds: 20, for: "step \(round) to be recorded") {
                    try fleet.report(device).pendingEvents == 0 ? true : nil
                }
                try fleet.put(1, "kept", "\(round)")
                try fleet.put(1, "other \(round)", "1")
                running.tell("go")
            }
            #expect(try running.waitForEnd() == 0, "\(running.said)")
            try fleet.settle([1])
            let head = try fleet.report(fleet.devices[1]).hub?.head
            try fleet.online(0)
            try fleet.expectSound()
            #expect(try fleet.report(device).hub?.head == head, "nothing of it was sent")
            for index in 0..<2 {
                #expect(try fleet.names(index) == ["kept"] + (1...6).map { "other \($0)" })
                let deleted = try Programs.fsctl(
                    "versions", "--deleted", fleet.devices[index].path
                ).succeed()
                for name in ["scratch", "named", "renamed", "folder", "moved"] {
                    #expect(!deleted.contains(name), "\(deleted)")
                }
            }
        }
    }
}
