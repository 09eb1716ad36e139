import CLinux
import Control
import Foundation
import Glibc
import Support
import Testing

/// SIGTERM, unmounting and mounting again under work. Whatever the daemon could wait for is held by
/// the test until the daemon has ended, or would take it many minutes, so no test needs a clock:
/// a daemon that waits is not over when the test gives up.
@Suite("Ending under work", .serialized) struct EndingTests {
    enum Way: String, CaseIterable {
        case terminate, unmount
    }

    private func end(_ volume: MountedVolume, _ way: Way) throws {
        switch way {
        case .terminate: try volume.terminate()
        case .unmount: try volume.unmount()
        }
    }

    /// A program that saves one document after the other, in several ways, and notes each save
    /// outside of the volume once it is complete.
    private static func writer(_ number: Int, _ notes: String) -> String {
        """
        i=0
        while :; do
            i=$((i + 1)); f=w\(number)-$((i % 50))
            case $((i % 3)) in
                0) echo "$i" >"$f" ;;
                1) echo "$i" >"$f.tmp" && mv "$f.tmp" "$f" ;;
                2) head -c 100000 /dev/zero | tr '\\0' a >"$f" && echo "$i" >>"$f" ;;
            esac || exit 0
            echo "$f $i" >>"\(notes)/\(number)"
        done
        """
    }

    @Test("while programs write, wait for each other and the hub is silent")
    func programs() throws {
        let notes = try TemporaryDirectory("notes")
        try Fleet.with(2) { fleet in
            let volume = fleet.devices[0]
            try fleet.shell(1, "head -c 3000000 /dev/urandom > absent; echo 1 > held; echo 1 > d")
            try fleet.expectEqual()
            try Programs.fsctl("evict", "\(volume.path)/absent").succeed()
            fleet.hub.send(SIGSTOP)
            defer { fleet.hub.send(SIGCONT) }
            // Opens wait for a claim, a program and the hub.
            let holder = try Beside(
                "coordinate", "write", "held", "--", "sh", "-c", "echo has it; cat",
                directory: volume.path)
            try holder.wait(for: "has it")
            let open = try OpenFile("\(volume.path)/d", O_RDWR)
            let waiting = try ["held", "absent"].flatMap { name in
                try (0..<8).map { _ in
                    try Beside(running: "cat", [name], directory: volume.path)
                }
            }
            let writers = try (0..<4).map { number in
                try Beside(
                    running: "bash", ["-c", Self.writer(number, notes.path)],
                    directory: volume.path)
            }
            try wait(seconds: 120, for: "all writers to be at work") {
                let lines = (0..<4).map { (try? noted($0, notes.path)) ?? [:] }
                return lines.allSatisfy { $0.count >= 50 } ? true : nil
            }
            // Those of the evicted document wait for the hub when they read.
            try wait(seconds: 60, for: "all opens of the held document to wait") {
                waiting.prefix(8).allSatisfy { $0.waitsInside("request_wait_answer") }
                    ? true : nil
            }
            for program in waiting { #expect(program.said == "") }
            // What has been written by now is not at the hub.
            let asking = try [
                Beside("wait", "--durable", "hub", volume.path),
                Beside("devices", "--at", volume.path),
            ]
            try end(volume, .terminate)
            for (index, program) in waiting.enumerated() {
                let status = try program.waitForEnd()
                #expect(status != 0, "\(index) has read \(program.said.utf8.count) bytes")
                #expect(!program.said.contains("absent\n"))
            }
            for program in asking {
                let status = try program.waitForEnd()
                #expect(status != 0, "fsctl said \(program.said)")
            }
            open.close()
            for writer in writers { _ = try writer.waitForEnd() }
            holder.send(SIGKILL)
            try volume.mount()
            try expectSaved(fleet, notes.path)
            // An interrupted save leaves its draft, which stays on its device.
            try fleet.shell(0, "rm -f *.tmp")
            fleet.hub.send(SIGCONT)
            try fleet.expectEqual(tries: 3)
        }
    }

    /// Every save that a program has completed can be read: as the file, or as a version if the
    /// program was interrupted during the next save.
    private func expectSaved(_ fleet: Fleet, _ notes: String) throws {
        var interrupted = 0
        for number in 0..<4 {
            for (name, save) in try noted(number, notes)
            where Self.save(in: fleet.text(0, name) ?? "") < save {
                interrupted += 1
                let path = "\(fleet.devices[0].path)/\(name)"
                let listed = try Programs.fsctl("versions", path, "--json").succeed()
                let report = try JSONDecoder().decode(
                    HistoryReport.self, from: Data(listed.utf8))
                let versions = try report.versions.map {
                    Self.save(
                        in: try Programs.fsctl("show", path, "\($0.number)").succeed())
                }
                #expect(versions.contains(save), "\(name) was saved by \(save): \(versions)")
            }
        }
        #expect(interrupted <= 4)
    }

    /// The number of the save that has these contents; 0 for a save that was interrupted.
    private static func save(in text: String) -> Int {
        let last = text.split(separator: "\n").last.map(String.init) ?? ""
        return Int(last.drop { $0 == "a" }) ?? 0
    }

    /// The last save of each document that a writer has noted.
    private func noted(_ number: Int, _ notes: String) throws -> [String: Int] {
        let text = try String(contentsOfFile: "\(notes)/\(number)", encoding: .utf8)
        var last: [String: Int] = [:]
        for line in text.split(separator: "\n") {
            let words = line.split(separator: " ")
            if words.count == 2, let save = Int(words[1]) { last[String(words[0])] = save }
        }
        return last
    }

    @Test("while contents go to the hub and come from it slowly", arguments: Way.allCases)
    func slowLine(_ way: Way) throws {
        try Fleet.with(2) { fleet in
            let volume = fleet.devices[0]
            try fleet.shell(1, "head -c 9000000 /dev/urandom > come")
            try fleet.expectEqual()
            try Programs.fsctl("evict", "\(volume.path)/come").succeed()
            // At one kilobyte a second each of these takes hours.
            for direction in ["--up", "--down"] {
                try Programs.fsctl("limit", direction, "1", "--at", volume.path).succeed()
            }
            let reader = try Beside(running: "cat", ["come"], directory: volume.path)
            try fleet.shell(0, "head -c 9000000 /dev/urandom > go; head -c 300000 go > small")
            try wait(seconds: 60, for: "both ways to be used") {
                let hub = try fleet.report(volume).hub
                return hub?.moving.count ?? 0 >= 2 ? true : nil
            }
            if way == .unmount {
                reader.send(SIGKILL)
                _ = try reader.waitForEnd()
            }
            try end(volume, way)
            if way == .terminate { #expect(try reader.waitForEnd() != 0) }
            try volume.mount()
            try fleet.expectEqual(tries: 3)
            #expect(try fleet.names(1) == ["come", "go", "small"])
        }
    }

    /// Both devices change `f.x`, for which these attributes hold, without knowing of each other.
    private func makeConflict(_ fleet: Fleet, _ attributes: String) throws {
        try fleet.shell(0, "echo '*.x \(attributes)' > .concordattributes; echo 1 > f.x")
        try fleet.expectEqual()
        try fleet.offline(1)
        try fleet.shell(0, "echo 2 > f.x")
        try fleet.settle([0])
        try fleet.shell(1, "echo 3 > f.x")
        try fleet.online(1)
    }

    @Test("while documents are merged by a slow program", arguments: Way.allCases)
    func merging(_ way: Way) throws {
        let merge = try SlowMerge()
        try Fleet.with(1) { fleet in
            let volume = try fleet.join(environment: ["XDG_CONFIG_HOME": merge.home.path])
            try makeConflict(fleet, "merge=slow")
            try merge.waitForBegin()
            try end(volume, way)
            try volume.mount()
            try fleet.settle()
            #expect(try fleet.conflictCount(1, "f.x") == 1)
        }
    }

    @Test("while a change from the hub waits for a presenter", arguments: Way.allCases)
    func presenter(_ way: Way) throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "echo 1 > f")
            try fleet.expectEqual()
            let volume = fleet.devices[1]
            let presenter = try Beside("present", "\(volume.path)/f", "--never-answer")
            try presenter.wait(for: "presenting")
            try fleet.shell(0, "echo 2 > f")
            try presenter.wait(for: "relinquish")
            // It gives up after ten seconds.
            try wait(seconds: 6, for: "the applier to have nothing of the mount open") {
                try Self.holders(of: volume.path).isEmpty ? true : nil
            }
            try end(volume, way)
            presenter.send(SIGKILL)
            try volume.mount()
            try fleet.expectEqual(tries: 3)
            #expect(fleet.text(1, "f") == "2\n")
        }
    }

    /// The processes that have something in this mount open, and what.
    private static func holders(of mount: String) throws -> [String] {
        let files = FileManager.default
        return try files.contentsOfDirectory(atPath: "/proc").filter { Int($0) != nil }.flatMap {
            process in
            let open = try? files.contentsOfDirectory(atPath: "/proc/\(process)/fd")
            return (open ?? []).compactMap { number in
                let link = "/proc/\(process)/fd/\(number)"
                let path = try? files.destinationOfSymbolicLink(atPath: link)
                return path?.hasPrefix(mount) == true ? "\(process): \(path!)" : nil
            }
        }
    }

    @Test("while conflict versions are fetched from a silent hub", arguments: Way.allCases)
    func fetching(_ way: Way) throws {
        try Fleet.with(2) { fleet in
            let volume = fleet.devices[1]
            try fleet.shell(0, "head -c 3000000 /dev/urandom > f")
            try fleet.expectEqual()
            try fleet.offline(1)
            try fleet.shell(0, "head -c 3000000 /dev/urandom > f")
            try fleet.settle([0])
            // The later save is the current version everywhere, so the earlier one is fetched.
            try fleet.shell(1, "head -c 3000000 /dev/urandom > f")
            try volume.waitForDisk()
            try Programs.fsctl("limit", "--down", "1", "--at", volume.path).succeed()
            try fleet.online(1)
            try wait(seconds: 60, for: "the conflict") {
                try fleet.conflictCount(1, "f") == 1 ? true : nil
            }
            fleet.hub.send(SIGSTOP)
            defer { fleet.hub.send(SIGCONT) }
            try end(volume, way)
            fleet.hub.send(SIGCONT)
            try volume.mount()
            try fleet.expectEqual(tries: 3)
        }
    }

    @Test("while a person signs in to a hub that does not answer", arguments: Way.allCases)
    func signingIn(_ way: Way) throws {
        let silent = try LoopbackListener()
        defer { close(silent.descriptor) }
        try MountedVolume.with { volume in
            let asking = try Beside(
                "signin", "http://127.0.0.1:\(silent.port)", "--code", "ABCD-EFGH-IJKL", "--at",
                volume.path)
            let connection = try wait(seconds: 30, for: "the request") {
                let connection = accept(silent.descriptor, nil, nil)
                return connection >= 0 ? connection : nil
            }
            defer { close(connection) }
            try end(volume, way)
            #expect(try asking.waitForEnd() != 0)
            try volume.mount()
        }
    }

    @Test("while a merge that a person has asked for goes on", arguments: Way.allCases)
    func askedMerge(_ way: Way) throws {
        let merge = try SlowMerge()
        try Fleet.with(1) { fleet in
            let volume = try fleet.join(environment: ["XDG_CONFIG_HOME": merge.home.path])
            try makeConflict(fleet, "merge=slow automerge=ask")
            try fleet.settle()
            let asking = try Beside("resolve", "f.x", "--merge", directory: volume.path)
            try merge.waitForBegin()
            if way == .unmount {
                asking.send(SIGKILL)
                _ = try asking.waitForEnd()
            }
            try end(volume, way)
            try volume.mount()
            try fleet.settle()
            #expect(try fleet.conflictCount(1, "f.x") == 1)
        }
    }
}

/// A merge program of this machine that never ends by itself.
private struct SlowMerge {
    let home: TemporaryDirectory

    init() throws {
        home = try TemporaryDirectory("merge")
        try FileManager.default.createDirectory(
            atPath: "\(home.path)/concord", withIntermediateDirectories: true)
        let program = """
            [slow]
                command = sh -c 'touch \(home.path)/begun; sleep 3000' %P
                seconds = 3600
            """
        let file = "\(home.path)/concord/merge"
        try program.write(toFile: file, atomically: true, encoding: .utf8)
        try call(chmod(file, 0o600))
    }

    func waitForBegin() throws {
        try wait(seconds: 60, for: "the merge program to run") {
            access("\(home.path)/begun", F_OK) == 0 ? true : nil
        }
    }
}

extension Fleet {
    fileprivate func conflictCount(_ index: Int, _ path: String) throws -> Int {
        let hidden = "\(devices[index].path)/.conflicts/\(path)"
        return (try? FileManager.default.contentsOfDirectory(atPath: hidden).count) ?? 0
    }
}
