import Foundation
import Glibc
import Support
import SystemCalls
import Testing

@testable import Mount

private let canFreeze =
    geteuid() == 0 && (try? Command("which", "fsfreeze").succeed()) != nil

/// The file system below the store is frozen, as for a snapshot: whatever writes to it waits until
/// it is thawed, and cannot be interrupted. Needs root.
@Suite("A frozen disk", .serialized, .enabled(if: canFreeze, "fsfreeze(8) and root are needed"))
struct FrozenDiskTests {
    /// Freezes a disk while `body` runs.
    private func frozen(_ disk: LoopDisk, _ body: () throws -> Void) throws {
        try Command("fsfreeze", "--freeze", disk.path).succeed()
        // A test that ended with a frozen disk could not be cleaned up.
        defer { _ = try? Command("fsfreeze", "--unfreeze", disk.path).run() }
        try body()
    }

    private func waiting(_ programs: [Beside]) -> Int { programs.count { !$0.hasEnded } }

    @Test(
        "programs that write wait, and nobody else does", arguments: [LoopDisk.Kind.ext4, .xfs],
        DataPath.allCases.filter { $0.options.contains("nouring") })
    func others(_ kind: LoopDisk.Kind, _ way: DataPath) throws {
        guard kind.isPossible else { return }
        let disk = try LoopDisk(kind, megabytes: 400)
        try MountedVolume.with(store: "\(disk.path)/store", options: way.options) { volume in
            let path = volume.path
            let script = """
                mkdir -p calm/deep; for i in $(seq 40); do mkdir d$i; echo $i > d$i/f; done
                for i in $(seq 40); do echo $i > calm/$i; done; echo deep > calm/deep/f
                """
            var make = Command("sh", "-ec", script)
            make.directory = path
            try make.succeed()
            try volume.waitForDisk()
            // Nothing is in the kernel's caches.
            try volume.remount()
            var writers: [Beside] = []
            try frozen(disk) {
                // More programs than there are workers.
                let deeds = [
                    "echo 2 > d$0/new", "mkdir d$0/made", "mv d$0/f d$0/g", "rm d$0/f",
                    "echo more >> d$0/f", "chmod 600 d$0/f", "ln -s x d$0/l", "truncate -s 1 d$0/f",
                ]
                writers = try (0..<24).map { number in
                    try Beside(
                        running: "sh", ["-c", deeds[number % deeds.count], "\(number + 1)"],
                        directory: path)
                }
                try wait(seconds: 30, for: "the writers to wait for the disk") {
                    try blocked(volume) >= 4 ? true : nil
                }
                // Names and attributes that the kernel does not know yet, contents, and questions.
                var look = Command(
                    "sh", "-ec",
                    "ls -l calm calm/deep; cat calm/*[0-9] calm/deep/f; stat d40/f d39; df . >&2")
                look.directory = path
                look.timeoutSeconds = 60
                let said = try look.succeed()
                #expect(said.contains("deep\n") && said.contains("40\n"))
                for words in [["status", path], ["locks", path]] {
                    var ask = Command(Programs.fsctl, arguments: words)
                    ask.timeoutSeconds = 60
                    try ask.succeed()
                }
                // The recorder may wait for the disk, too; then the answer says so.
                var ask = Programs.fsctl("versions", "\(path)/calm/7")
                ask.timeoutSeconds = 60
                _ = try ask.run()
                #expect(waiting(writers) == writers.count)
            }
            for writer in writers { #expect(try writer.waitForEnd(seconds: 60) == 0) }
            #expect(FileManager.default.fileExists(atPath: "\(path)/d1/new"))
            #expect(!FileManager.default.fileExists(atPath: "\(path)/d4/f"))
            try volume.waitForDisk()
            try Programs.fsctl("doctor", path).succeed()
        }
    }

    /// How many of the daemon's threads sleep uninterruptibly.
    private func blocked(_ volume: MountedVolume) throws -> Int {
        let tasks = "/proc/\(volume.pid)/task"
        return try FileManager.default.contentsOfDirectory(atPath: tasks).count { task in
            let status = try? String(contentsOfFile: "\(tasks)/\(task)/status", encoding: .utf8)
            return status?.contains("State:\tD") == true
        }
    }
}
