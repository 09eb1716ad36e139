import CLinux
import Foundation
import Glibc
import Support
import Testing

/// How a device answers the owner files of editors while another device has the document open: real
/// mounts of two people, a real hub, and the editors that are installed.
@Suite("Owner files", .serialized) struct OwnerFileTests {
    /// Runs `body` with a device of ann and one of bob.
    private func with(_ body: (Fleet) throws -> Void) throws {
        try Fleet.with(1) { fleet in
            try fleet.shell(0, "mkdir dir; echo old > dir/plan.txt; echo y > dir/other.txt")
            try fleet.settle()
            try fleet.hub.run("user", "add", "bob")
            try fleet.fsctl(0, "members", "add", "bob", "--role", "editor")
            try fleet.join(as: "bob")
            try fleet.expectEqual()
            try body(fleet)
        }
    }

    /// A program of ann's that has the document open for writing.
    private func edit(_ fleet: Fleet) throws -> Int32 {
        let file = open("\(fleet.devices[0].path)/dir/plan.txt", O_RDWR | O_CLOEXEC)
        try #require(file >= 0)
        return file
    }

    /// Waits until bob's device (1), or ann's (0), knows whether the other has the document open.
    /// The device is asked for it, and no owner file is read.
    private func awaitLease(_ fleet: Fleet, _ isOpen: Bool, on device: Int = 1) throws {
        let path = "\(fleet.devices[device].path)/dir/plan.txt"
        try wait(for: "device \(device) to know whether the other has it open: \(isOpen)") {
            (cl_path_getxattr(path, "user.concord.who", nil, 0) > 0) == isOpen ? true : nil
        }
    }

    private func text(_ path: String) -> String? {
        try? String(contentsOfFile: path, encoding: .utf8)
    }

    /// The errno of a call that fails, or 0.
    private func failure(_ result: Int32) -> Int32 {
        guard result < 0 else { return 0 }
        return errno
    }

    private static let exclusive = O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC

    @Test("LibreOffice's lock file is there as long as the other has the document open")
    func lockFile() throws {
        try with { fleet in
            let directory = "\(fleet.devices[1].path)/dir"
            let lock = "\(directory)/.~lock.plan.txt#"
            #expect(failure(access(lock, F_OK)) == ENOENT)
            for round in 1...2 {
                let document = try edit(fleet)
                try awaitLease(fleet, true)
                let fields = try #require(text(lock), "round \(round)").split(separator: ",")
                #expect(fields.prefix(3) == ["ann (dev0)", "ann", "dev0"], "\(fields)")
                #expect(fields.count == 5 && fields[4].hasSuffix(";"))
                var status = stat()
                #expect(stat(lock, &status) == 0)
                var original = stat()
                #expect(stat("\(directory)/plan.txt", &original) == 0)
                #expect(status.st_mode == original.st_mode)
                #expect(Int(status.st_size) == text(lock)?.utf8.count)
                #expect(try fleet.names(1, "dir") == ["other.txt", "plan.txt"])
                // The holder has no owner file but its own, and other documents have none.
                let own = "\(fleet.devices[0].path)/dir/.~lock.plan.txt#"
                #expect(failure(access(own, F_OK)) == ENOENT)
                #expect(failure(access("\(directory)/.~lock.other.txt#", F_OK)) == ENOENT)
                close(document)
                try awaitLease(fleet, false)
                #expect(failure(access(lock, F_OK)) == ENOENT)
            }
        }
    }

    @Test("an answered owner file can be neither made nor replaced, nor Vim's written")
    func refusals() throws {
        try with { fleet in
            let document = try edit(fleet)
            try awaitLease(fleet, true)
            let directory = "\(fleet.devices[1].path)/dir"
            for name in [".~lock.plan.txt#", ".#plan.txt", ".plan.txt.swp"] {
                let path = "\(directory)/\(name)"
                #expect(failure(open(path, Self.exclusive, 0o644)) == EEXIST, "\(name)")
                #expect(failure(symlink("mine", path)) == EEXIST, "\(name)")
                #expect(failure(mkdir(path, 0o755)) == EEXIST, "\(name)")
                #expect(failure(link("\(directory)/other.txt", path)) == EEXIST, "\(name)")
                #expect(failure(rename("\(directory)/other.txt", path)) == EACCES, "\(name)")
                if name == ".plan.txt.swp" {
                    for flags in [O_WRONLY, O_RDWR, O_RDONLY | O_TRUNC, O_WRONLY | O_CREAT] {
                        #expect(failure(open(path, flags, 0o644)) == EACCES, "\(name) \(flags)")
                    }
                }
            }
            #expect(text("\(directory)/other.txt") == "y\n")
            // What the other device shows does not come back to it, and is on no disk.
            close(document)
            try fleet.settle()
            #expect(try fleet.names(0, "dir") == ["other.txt", "plan.txt"])
        }
    }

    @Test("who had the document first finds no owner file of those who came later")
    func first() throws {
        try with { fleet in
            let paths = fleet.devices.map { "\($0.path)/dir" }
            let document = try edit(fleet)
            defer { close(document) }
            try awaitLease(fleet, true)
            let later = open("\(paths[1])/plan.txt", O_RDWR | O_CLOEXEC)
            try #require(later >= 0)
            defer { close(later) }
            try awaitLease(fleet, true, on: 0)
            for name in [".~lock.plan.txt#", ".plan.txt.swp"] {
                #expect(failure(access("\(paths[0])/\(name)", F_OK)) == ENOENT, "\(name)")
                #expect(failure(access("\(paths[1])/\(name)", F_OK)) == 0, "\(name)")
            }
        }
    }

    @Test("a program that reads the other's owner file and makes none does not edit the document")
    func shows() throws {
        try with { fleet in
            let directory = "\(fleet.devices[1].path)/dir"
            let lock = "\(directory)/.~lock.plan.txt#"
            let document = try edit(fleet)
            try awaitLease(fleet, true)
            // Like LibreOffice, which then shows the document and keeps it open.
            let shown = open("\(directory)/plan.txt", O_RDWR | O_CLOEXEC)
            try #require(shown >= 0)
            defer { close(shown) }
            try awaitLease(fleet, true, on: 0)
            #expect(text(lock)?.contains("ann") == true)
            try awaitLease(fleet, false, on: 0)
            // Another program that does not look at owner files edits it.
            let other = try Beside(
                running: "bash", ["-c", "exec 3<>plan.txt; read"], directory: directory)
            try awaitLease(fleet, true, on: 0)
            other.tell("")
            _ = try other.waitForEnd()
            try awaitLease(fleet, false, on: 0)
            close(document)
            try awaitLease(fleet, false)
            // From now on this program edits it.
            let own = open(lock, Self.exclusive, 0o644)
            try #require(own >= 0)
            close(own)
            try awaitLease(fleet, true, on: 0)
        }
    }

    @Test(
        "who may read the document may read who has it open",
        .enabled(if: geteuid() == 0, "acting as other users takes root"))
    func readers() throws {
        try with { fleet in
            // The group's bits in the mode are the mask: the group itself may not read.
            try fleet.shell(
                1,
                """
                chmod 711 ..; chmod 755 . dir; cd dir
                chgrp 1002 plan.txt; setfacl -m u:1003:rw,g::-,o::- plan.txt
                """)
            let document = try edit(fleet)
            defer { close(document) }
            try awaitLease(fleet, true)
            func reads(_ user: Int, _ group: Int, _ name: String) throws -> Bool {
                var command = Command(
                    "setpriv",
                    arguments: [
                        "--reuid=\(user)", "--regid=\(group)", "--clear-groups", "cat", name,
                    ])
                command.directory = "\(fleet.devices[1].path)/dir"
                return try command.run().status == 0
            }
            for name in ["plan.txt", ".~lock.plan.txt#", ".plan.txt.swp"] {
                #expect(try reads(1003, 1003, name), "\(name)")
                #expect(try !reads(1001, 1002, name), "\(name)")
                #expect(try !reads(1001, 1001, name), "\(name)")
            }
        }
    }

    @Test("the device's own owner file counts; a removed one is hidden until the lease ends")
    func ownAndRemoved() throws {
        try with { fleet in
            let lock = "\(fleet.devices[1].path)/dir/.~lock.plan.txt#"
            try fleet.shell(1, "echo mine > 'dir/.~lock.plan.txt#'")
            var document = try edit(fleet)
            try awaitLease(fleet, true)
            #expect(text(lock) == "mine\n")
            #expect(unlink(lock) == 0)
            #expect(text(lock)?.contains("ann") == true)
            #expect(unlink(lock) == 0)
            #expect(failure(access(lock, F_OK)) == ENOENT)
            let own = open(lock, Self.exclusive, 0o644)
            #expect(own >= 0)
            close(own)
            #expect(text(lock) == "")
            // A real one is replaced and removed as ever.
            try fleet.shell(1, "cd dir; echo next > x; mv x '.~lock.plan.txt#'")
            #expect(text(lock) == "next\n")
            #expect(unlink(lock) == 0)
            #expect(failure(access(lock, F_OK)) == ENOENT)
            close(document)
            try awaitLease(fleet, false)
            document = try edit(fleet)
            defer { close(document) }
            try awaitLease(fleet, true)
            #expect(text(lock)?.contains("ann") == true)
        }
    }

    @Test("LibreOffice's lock file that is opened for writing becomes one of this device's own")
    func ignored() throws {
        try with { fleet in
            let document = try edit(fleet)
            try awaitLease(fleet, true)
            let locks = fleet.devices.map { "\($0.path)/dir/.~lock.plan.txt#" }
            let own = open(locks[1], O_RDWR | O_CLOEXEC)
            try #require(own >= 0, "\(errno)")
            #expect(write(own, "mine\n", 5) == 5)
            close(own)
            #expect(text(locks[1]) == "mine\n")
            try awaitLease(fleet, true, on: 0)
            // LibreOffice makes it anew with each save, and is not asked again.
            #expect(unlink(locks[1]) == 0)
            #expect(failure(access(locks[1], F_OK)) == ENOENT)
            let again = open(locks[1], Self.exclusive, 0o644)
            #expect(again >= 0)
            close(again)
            #expect(failure(access(locks[0], F_OK)) == ENOENT)
            // It stays on this device.
            close(document)
            try fleet.settle()
            #expect(try fleet.names(0, "dir") == ["other.txt", "plan.txt"])
        }
    }

    @Test("Vim shows its warning with the other's name and host") func vim() throws {
        try with { fleet in
            var document = try edit(fleet)
            try awaitLease(fleet, true)
            let directory = "\(fleet.devices[1].path)/dir"
            func start() throws -> Terminal {
                try Terminal(["vim", "--clean", "plan.txt"], directory: directory)
            }
            var terminal = try start()
            defer { terminal.close() }
            try terminal.wait(for: "(E)dit anyway")
            let screen = try terminal.screen()
            #expect(screen.contains("ATTENTION") && screen.contains("user name: ann"), "\(screen)")
            #expect(screen.contains("host name: dev0"), "\(screen)")
            #expect(screen.contains("file name: plan.txt"), "\(screen)")
            // The daemon runs, so Vim does not offer to remove the file.
            #expect(screen.contains("STILL RUNNING") && !screen.contains("(D)elete"), "\(screen)")
            try terminal.press("e")
            try terminal.wait(for: "old")
            try terminal.type(":q")
            try terminal.press("Enter")
            try terminal.waitForEnd()
            close(document)
            try awaitLease(fleet, false)
            terminal.close()
            terminal = try start()
            try terminal.wait(for: "old")
            #expect(try !terminal.screen().contains("ATTENTION"))
            // Vim has a swap file of its own now, which the next lease does not hide.
            document = try edit(fleet)
            defer { close(document) }
            try awaitLease(fleet, true)
            let swap = try Data(contentsOf: URL(filePath: "\(directory)/.plan.txt.swp"))
            #expect(swap.prefix(6) == Data("b0VIM ".utf8) && swap[28..<31] != Data("ann".utf8))
        }
    }

    @Test("Emacs asks about the other's lock, and can steal it") func emacs() throws {
        try with { fleet in
            let document = try edit(fleet)
            defer { close(document) }
            try awaitLease(fleet, true)
            let directory = "\(fleet.devices[1].path)/dir"
            let link = "\(directory)/.#plan.txt"
            func target() -> String? {
                try? FileManager.default.destinationOfSymbolicLink(atPath: link)
            }
            #expect(target()?.hasPrefix("ann@dev0.") == true)
            let terminal = try Terminal(["emacs", "-nw", "-Q", "plan.txt"], directory: directory)
            defer { terminal.close() }
            try terminal.wait(for: "old")
            try terminal.type("x")
            try terminal.wait(for: "locked by ann@dev0")
            #expect(try terminal.screen().contains("plan.txt locked by ann@dev0 (pid "))
            try terminal.press("s")
            try terminal.wait(for: "xold")
            try wait(for: "Emacs's own lock") {
                target().map { !$0.hasPrefix("ann@") } == true ? true : nil
            }
            try terminal.press("C-x", "C-s")
            try terminal.wait(for: "Wrote ")
            #expect(target() == nil)
            #expect(text("\(directory)/plan.txt") == "xold\n")
        }
    }

    @Test("Vim and Emacs close a document, and their owner files tell that they edit it")
    func editors() throws {
        try with { fleet in
            let directories = fleet.devices.map { "\($0.path)/dir" }
            let vim = try Terminal(["vim", "--clean", "plan.txt"], directory: directories[0])
            defer { vim.close() }
            try awaitLease(fleet, true)
            let second = try Terminal(["vim", "--clean", "plan.txt"], directory: directories[1])
            defer { second.close() }
            try second.wait(for: "user name: ann")
            try second.press("q")
            try second.waitForEnd()
            try vim.wait(for: "old")
            try vim.type(":q")
            try vim.press("Enter")
            try vim.waitForEnd()
            try awaitLease(fleet, false)

            let emacs = try Terminal(
                ["emacs", "-nw", "-Q", "plan.txt"], directory: directories[0])
            defer { emacs.close() }
            try emacs.wait(for: "old")
            for _ in 0..<2 {
                try emacs.type("x")
                try awaitLease(fleet, true)
                try emacs.press("C-x", "C-s")
                try emacs.wait(for: "Wrote ")
                try awaitLease(fleet, false)
            }
            // A link whose maker has ended does not count.
            try fleet.shell(0, "ln -s nobody@nowhere.1 'dir/.#other.txt'")
            let document = try edit(fleet)
            defer { close(document) }
            try awaitLease(fleet, true)
            let other = "\(directories[1])/other.txt"
            #expect(cl_path_getxattr(other, "user.concord.who", nil, 0) <= 0)
        }
    }
}
