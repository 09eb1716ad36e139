import CLinux
import Foundation
import Glibc
import Support
import SystemCalls
import Testing

/// From mount to unmount, orderly or not.
@Suite("Mounting and unmounting")
struct LifecycleTests {
    enum End: String, CaseIterable { case terminate, interrupt, umount, command }

    /// Saves a document twice; the next mount shows both versions.
    private func save(_ text: String, to name: String, in volume: MountedVolume) throws {
        try Data(text.utf8).write(to: URL(filePath: "\(volume.path)/\(name)"))
    }

    private func texts(of name: String, in volume: MountedVolume) throws -> [String] {
        try History.texts(of: "\(volume.path)/\(name)")
    }

    private func expectSound(_ volume: MountedVolume) throws {
        let doctor = try Programs.fsctl("doctor", volume.path).run()
        #expect(doctor.status == 0, "\(doctor.output)\(doctor.errors)")
    }

    @Test(
        "it ends cleanly, whatever ends it, and the next mount shows everything",
        arguments: End.allCases)
    func ending(_ end: End) throws {
        try MountedVolume.with { volume in
            try save("one", to: "letter.txt", in: volume)
            try save("two", to: "letter.txt", in: volume)
            // The recorder gets no time before the end: closed files must be kept.
            switch end {
            case .terminate: try volume.terminate(SIGTERM)
            case .interrupt: try volume.terminate(SIGINT)
            case .umount: try volume.unmount()
            case .command:
                try Command(Programs.concord, "unmount", volume.path).succeed()
                try volume.unmount()
            }
            #expect(access("\(volume.store)/clean", F_OK) == 0, "the store is marked clean")
            let left = try String(contentsOfFile: "\(volume.tree)/letter.txt", encoding: .utf8)
            #expect(left == "two")
            try volume.mount()
            #expect(access("\(volume.store)/clean", F_OK) != 0, "while it is used it is not")
            let found = try texts(of: "letter.txt", in: volume)
            #expect(found == ["one", "two"])
            try expectSound(volume)
        }
    }

    @Test(
        "it ends while a program has files open: the program gets errors, or its writes are kept",
        arguments: DataPath.allCases)
    func endedUnderPrograms(_ way: DataPath) throws {
        try way.with { volume in
            try save("begun", to: "open.txt", in: volume)
            let file = try OpenFile("\(volume.path)/open.txt", O_RDWR)
            try file.write(" before", at: 5)
            try volume.terminate()
            let refused = refusal { () throws(Errno) in try file.write(" after", at: 12) }
            file.close()
            try volume.mount()
            let expected = refused == nil ? "begun before after" : "begun before"
            #expect(
                try String(contentsOfFile: "\(volume.path)/open.txt", encoding: .utf8) == expected)
            let found = try texts(of: "open.txt", in: volume)
            #expect(found.first == "begun" && found.last == expected)
            try expectSound(volume)
        }
    }

    @Test("a second process on one store is refused, and told who has it")
    func secondProcess() throws {
        try MountedVolume.with { volume in
            let other = try TemporaryDirectory()
            let refused = try Command(
                Programs.concord, "mount", "--store", volume.store, other.path
            ).run()
            #expect(refused.status == 4)
            #expect(refused.errors.contains("process \(volume.pid)"), "\(refused.errors)")
            #expect(refused.errors.contains(volume.path), "\(refused.errors)")
            let same = try Command(
                Programs.concord, "mount", "--store", volume.store, volume.path
            ).run()
            #expect(same.status == 4 && same.errors.contains("\(volume.pid)"), "\(same.errors)")
            try save("still", to: "letter.txt", in: volume)
            #expect(try texts(of: "letter.txt", in: volume) == ["still"])
        }
    }

    @Test("a mount waits for the process of the last mount, while umount does not")
    func mountedAgain() throws {
        try MountedVolume.with { volume in
            try save("one", to: "letter.txt", in: volume)
            try volume.suspend()
            defer { volume.resume() }
            #expect(umount2(volume.path, Int32(MNT_DETACH)) == 0)
            let (other, said) = (try TemporaryDirectory(), try TemporaryDirectory())
            let output = open("\(said.path)/said", O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
            defer { close(output) }
            let next = try ChildProcess(
                Programs.concord, ["mount", "--store", volume.store, other.path], input: output,
                output: output, errors: output)
            try wait(for: "the next mount to wait for the last") {
                let log = try? String(contentsOfFile: "\(volume.store)/log", encoding: .utf8)
                let isWaiting = log?.contains("waiting for the previous daemon") == true
                return isWaiting || next.hasEnded() ? true : nil
            }
            volume.resume()
            #expect(try next.waitForEnd(seconds: 60) == 0)
            #expect(
                try String(contentsOfFile: "\(other.path)/letter.txt", encoding: .utf8) == "one")
            try Command(Programs.concord, "unmount", other.path).succeed()
        }
    }

    @Test("a new mount replaces a dead one and repairs the store")
    func dead() throws {
        try MountedVolume.with { volume in
            try save("one", to: "letter.txt", in: volume)
            try volume.waitForDisk()
            try save("two", to: "letter.txt", in: volume)
            let held = try OpenFile("\(volume.path)/letter.txt", O_RDONLY)
            try volume.kill9()
            let said = try Command("ls", volume.path + "/x").run()
            #expect(said.status != 0 && said.errors.contains("not connected"))
            let told = try Programs.fsctl("status", volume.path).run()
            #expect(told.status == 3 && told.errors.contains("has stopped"), "\(told.errors)")
            #expect(try held.text() == "two", "what was open reads on")
            held.close()
            try volume.mount()
            let found = try texts(of: "letter.txt", in: volume)
            #expect(found == ["one", "two"])
            #expect(try MountTable.entries().count { $0.mountPoint == volume.path } == 1)
            try expectSound(volume)
        }
    }

    @Test("umount -l lets programs that have files open go on", arguments: DataPath.allCases)
    func lazily(_ way: DataPath) throws {
        try way.with { volume in
            try save("begun", to: "open.txt", in: volume)
            let file = try OpenFile("\(volume.path)/open.txt", O_RDWR)
            let directory = try OpenFile(volume.path, O_PATH)
            try call(umount2(volume.path, Int32(MNT_DETACH)))
            try file.write(" and goes on", at: 5)
            #expect(try file.text() == "begun and goes on")
            let made = cl_openat(directory.descriptor, "made.txt", O_CREAT | O_WRONLY, 0o644)
            #expect(made >= 0)
            _ = cl_close(made)
            let refused = try Command(
                Programs.concord, "mount", "--store", volume.store, volume.path
            ).run()
            #expect(refused.status == 4 && refused.errors.contains("\(volume.pid)"))
            file.close()
            directory.close()
            try volume.terminate(0)
            try volume.mount()
            let found = try texts(of: "open.txt", in: volume)
            #expect(found == ["begun", "begun and goes on"])
            #expect(access("\(volume.path)/made.txt", F_OK) == 0)
            try expectSound(volume)
        }
    }

    @Test("a stopped daemon's clients can be killed, and go on when it does (trap 72)")
    func stopped() throws {
        try MountedVolume.with { volume in
            try save("one", to: "letter.txt", in: volume)
            try volume.suspend()
            defer { volume.resume() }
            let null = open("/dev/null", O_RDWR | O_CLOEXEC)
            defer { close(null) }
            let clients = try [
                ["stat", "\(volume.path)/absent"], ["df", volume.path],
                ["cat", "\(volume.path)/letter.txt"], ["touch", "\(volume.path)/new"],
            ].map {
                try ChildProcess($0[0], Array($0[1...]), input: null, output: null, errors: null)
            }
            usleep(200_000)
            for client in clients { #expect(!client.hasEnded(), "\(client.name) should wait") }
            for client in clients { client.send(SIGKILL) }
            // They wait for a request that the daemon has not read yet, which can be killed. A
            // request that the daemon has read ends only with an answer, or with the daemon.
            for client in clients { #expect(try client.waitForEnd(seconds: 10) == 137) }
            let patient = try ChildProcess(
                "touch", ["\(volume.path)/later"], input: null, output: null, errors: null)
            usleep(100_000)
            volume.resume()
            #expect(try patient.waitForEnd(seconds: 10) == 0)
            #expect(access("\(volume.path)/later", F_OK) == 0)
            try save("two", to: "letter.txt", in: volume)
            #expect(try texts(of: "letter.txt", in: volume) == ["one", "two"])
        }
    }

    @Test("a daemon stopped for too long hangs no program, and mounts again when it continues")
    func stoppedForLong() throws {
        try MountedVolume.with(options: ["suspend_timeout=1"]) { volume in
            try save("one", to: "letter.txt", in: volume)
            try volume.suspend()
            defer { volume.resume() }
            // The call waits for the daemon and ends with an error, although the daemon never
            // answers.
            let question = try Command("stat", "\(volume.path)/absent").run()
            #expect(question.status != 0)
            #expect(!question.errors.contains("No such file"), "\(question.errors)")
            volume.resume()
            try wait(for: "the volume to be mounted again") {
                access("\(volume.path)/letter.txt", F_OK) == 0 ? true : nil
            }
            try save("two", to: "letter.txt", in: volume)
            #expect(try texts(of: "letter.txt", in: volume) == ["one", "two"])
            try expectSound(volume)
        }
    }

    @Test("while nothing happens, the daemon and its watchdog wake a few times a minute")
    func idle() throws {
        try MountedVolume.with { volume in
            try save("one", to: "letter.txt", in: volume)
            try volume.waitForDisk()
            try Alarms.waitForRest(of: volume.pid)
        }
    }

    @Test("changes in the tree while it was not mounted are versions at the next mount")
    func directEdits() throws {
        try MountedVolume.with { volume in
            for name in ["edited", "replaced", "removed", "moved", "same"] {
                try save("before", to: "\(name).txt", in: volume)
            }
            try volume.unmount()
            let script = """
                echo after > edited.txt; echo after > new; mv new replaced.txt; rm removed.txt
                mkdir d; mv moved.txt d/moved.txt; echo after > d/created.txt; touch same.txt
                """
            var command = Command("sh", "-ec", script)
            command.directory = volume.tree
            try command.succeed()
            try volume.mount()
            try volume.waitForDisk()
            // Bytes that were overwritten without the mount are lost; the version is still listed.
            let edited = try History.of("\(volume.path)/edited.txt")
            #expect(edited.versions.map(\.size).last == 6)
            #expect(try texts(of: "d/created.txt", in: volume) == ["after\n"])
            #expect(try History.of("\(volume.path)/d/moved.txt").versions.count == 1)
            #expect(try History.of("\(volume.path)/same.txt").versions.count == 1)
            #expect(try History.of("\(volume.path)/replaced.txt").versions.last?.size == 6)
            #expect(access("\(volume.path)/removed.txt", F_OK) != 0)
        }
    }

    @Test("two volumes mounted at once are independent")
    func two() throws {
        try MountedVolume.with { first in
            try MountedVolume.with { second in
                try save("first", to: "letter.txt", in: first)
                try save("second", to: "letter.txt", in: second)
                #expect(try texts(of: "letter.txt", in: first) == ["first"])
                #expect(try texts(of: "letter.txt", in: second) == ["second"])
                let moved = rename("\(first.path)/letter.txt", "\(second.path)/moved.txt")
                #expect(moved == -1 && errno == EXDEV)
                try Command("mv", "\(first.path)/letter.txt", "\(second.path)/moved.txt").succeed()
                #expect(try texts(of: "moved.txt", in: second) == ["first"])
                #expect(
                    try History.of("\(second.path)/letter.txt").id
                        != History.of("\(second.path)/moved.txt").id)
                try first.terminate()
                try save("third", to: "letter.txt", in: second)
                #expect(try texts(of: "letter.txt", in: second) == ["second", "third"])
                try first.mount()
            }
        }
    }
}
