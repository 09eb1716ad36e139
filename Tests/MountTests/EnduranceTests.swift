import CLinux
import Control
import Foundation
import Glibc
import Model
import Support
import SystemCalls
import Testing

/// What a mount leaves behind, and what happens when the disk is full.
@Suite("Resources of a mount")
struct EnduranceTests {
    private static let load = """
        i=0
        while :; do
            i=$((i + 1)); echo $i > a; echo $i > new; mv new b; cat a b; sleep 0.01
        done
        """

    @Test("fifty mounts and umounts under load leave nothing (trap 80)")
    func fiftyMounts() throws {
        try MountedVolume.with { busy in
            let null = open("/dev/null", O_RDWR | O_CLOEXEC)
            defer { close(null) }
            let load = try ChildProcess(
                "sh", ["-ec", Self.load], directory: busy.path, input: null, output: null,
                errors: null)
            defer { load.killGroup() }
            let volume = try MountedVolume()
            let id = try identity(of: volume)
            var documents = 0
            for round in 0..<50 {
                try SavePattern.allCases[round % SavePattern.allCases.count].save(
                    Data("round \(round)".utf8), to: "\(volume.path)/letter.txt", synced: false)
                documents += 1
                if round % 10 == 5 { try volume.kill9() } else { try volume.unmount() }
                try volume.mount()
            }
            let versions = try History.of("\(volume.path)/letter.txt").versions
            #expect(versions.last?.size == 8)
            #expect(versions.count <= documents)
            try volume.unmount()
            #expect(!load.hasEnded(), "the load was refused something")
            #expect(try MountTable.entries().allSatisfy { $0.mountPoint != volume.path })
            #expect(access("/run/concord/\(id)", F_OK) != 0, "the control socket's directory")
            #expect(try processes(naming: volume.store) == [])
            let doctor = try Programs.fsctl("doctor", volume.store).run()
            #expect(doctor.status == 0, "\(doctor.output)")
        }
    }

    private func identity(of volume: MountedVolume) throws -> String {
        struct Report: Decodable { var volume: String }
        let text = try Programs.fsctl("status", "--json", volume.path).succeed()
        return try JSONDecoder().decode(Report.self, from: Data(text.utf8)).volume
    }

    /// The processes that have a path among their arguments.
    private func processes(naming path: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc").filter { name in
            let words = FileManager.default.contents(atPath: "/proc/\(name)/cmdline")
            return words.map { String(decoding: $0, as: UTF8.self).contains(path) } ?? false
        }
    }

    @Test("a daemon's threads and descriptors return to where they were")
    func returning() throws {
        try MountedVolume.with { volume in
            try volume.waitForDisk()
            let before = try taken(volume)
            let script = """
                mkdir -p many && cd many
                for i in $(seq 300); do
                    mkdir d$i; echo $i > d$i/f; echo more >> d$i/f; cat d$i/f
                done
                cat d*/.versions/f/* | wc -l; tar -cf ../t.tar . ; cp -a . ../copy; cd ..
                sqlite3 data.db 'PRAGMA journal_mode=WAL; CREATE TABLE t (n);'
                rm -r many copy t.tar data.db*
                """
            var command = Command("sh", "-ec", script)
            command.directory = volume.path
            try command.succeed()
            try volume.waitForDisk()
            // The kernel forgets removed files a moment later.
            var now = before
            try wait(seconds: 20, for: "threads and descriptors \(now) to be \(before) again") {
                now = try taken(volume)
                return now.threads <= before.threads && now.descriptors <= before.descriptors + 8
                    ? true : nil
            }
            #expect(
                volume.said.split(separator: "\n").count < 5, "no line a request: \(volume.said)")
        }
    }

    private func taken(_ volume: MountedVolume) throws -> (threads: Int, descriptors: Int) {
        func count(_ name: String) throws -> Int {
            try FileManager.default.contentsOfDirectory(atPath: "/proc/\(volume.pid)/\(name)").count
        }
        return (try count("task"), try count("fd"))
    }

    @Test(
        "a full disk: programs get ENOSPC, existing contents stay, and recording resumes later",
        .enabled(if: geteuid() == 0, "mounting a small disk takes root"),
        arguments: DataPath.allCases)
    func fullDisk(_ way: DataPath) throws {
        let home = try TemporaryDirectory("disk")
        try Command("mount", "-t", "tmpfs", "-o", "size=48m", "small", home.path).succeed()
        defer { _ = umount2(home.path, Int32(MNT_DETACH)) }
        try Command("fallocate", "-l", "24M", "\(home.path)/ballast").succeed()
        try MountedVolume.with(store: "\(home.path)/store", options: way.options) { volume in
            let letters = SavePattern.allCases.map { "\(volume.path)/\($0).txt" }
            for letter in letters { try Data("kept".utf8).write(to: URL(filePath: letter)) }
            try volume.waitForDisk()
            #expect(try fill("\(volume.path)/filler.bin") == .noSpace)
            for (pattern, letter) in zip(SavePattern.allCases, letters) {
                #expect(try String(contentsOfFile: letter, encoding: .utf8) == "kept")
                // The disk is full: operations fail or succeed.
                try? pattern.save(Data(repeating: 7, count: 3_000_000), to: letter, synced: true)
            }
            // Space is freed elsewhere on the disk, because removed contents stay in the history
            // and take space.
            try call(unlink("\(home.path)/ballast"))
            for letter in letters { try expectRecovered(letter, in: volume) }
            let doctor = try Programs.fsctl("doctor", volume.path).run()
            #expect(doctor.status == 0, "\(doctor.output)")
        }
    }

    /// A save succeeds again without a restart, and the contents saved before are a version.
    private func expectRecovered(_ letter: String, in volume: MountedVolume) throws {
        try wait(seconds: 30, for: "room for a save of \(letter)") {
            try? Data("after".utf8).write(to: URL(filePath: letter))
            let now = try? Data(contentsOf: URL(filePath: letter))
            return now == Data("after".utf8) ? true : nil
        }
        try volume.waitForDisk()
        let places = SavePattern.places(of: letter)
        let histories = places.compactMap { try? History.of($0) }
        #expect(histories.first?.versions.last?.size == 5, "\(letter)")
        #expect(histories.contains { $0.versions.contains { $0.size == 4 } }, "\(letter)")
    }

    /// Writes until a write fails, and returns the error.
    private func fill(_ path: String) throws -> Errno? {
        let filler = try OpenFile.creating(path, O_WRONLY)
        let block = [UInt8](repeating: 1, count: 1 << 20)
        var size = 0
        return refusal { () throws(Errno) in
            while size < 100 << 20 {
                try filler.write(block, at: size)
                size += block.count
            }
        }
    }
}
