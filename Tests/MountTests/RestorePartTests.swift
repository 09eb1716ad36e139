import Foundation
import Glibc
import Support
import Testing

/// `fsctl restore` writes `.NAME.concord-restore.part` and renames it.
@Suite("a restore that is killed")
struct RestorePartTests {
    enum Killed: CaseIterable {
        case restore
        case daemon
    }

    @Test("its part file goes at the next mount, and nothing else does", arguments: Killed.allCases)
    func killed(_ killed: Killed) throws {
        try MountedVolume.with { volume in
            let path = "\(volume.path)/a.bin"
            let part = "\(volume.tree)/.a.bin.concord-restore.part"
            let first = Data(repeating: 1, count: 30_000_000)
            try first.write(to: URL(filePath: path))
            try volume.waitForDisk()
            try "second".write(toFile: path, atomically: true, encoding: .utf8)
            try "a program's".write(
                toFile: "\(volume.path)/other.part", atomically: false, encoding: .utf8)
            try volume.waitForDisk()
            var isCaught = false
            for _ in 0..<20 where !isCaught {
                isCaught = try catchRestore(of: path, part: part, killed: killed, volume)
            }
            try #require(isCaught, "each restore had ended before it was stopped")
            if killed == .restore { try volume.unmount() }
            volume.cleanUp()
            #expect(access(part, F_OK) == 0)
            try volume.mount()
            try volume.waitForDisk()
            try wait(seconds: 30, for: "the part file to be removed") {
                access(part, F_OK) == 0 ? nil : true
            }
            let names = try FileManager.default.contentsOfDirectory(atPath: volume.path)
            #expect(names.sorted() == ["a.bin", "other.part"])
            #expect(try String(contentsOfFile: path, encoding: .utf8) == "second")
            try Programs.fsctl("restore", path, "1").succeed()
            #expect(try Data(contentsOf: URL(filePath: path)) == first)
        }
    }

    @Test("who may read and write a document stays as it is now", arguments: ["a", "p.rtfd"])
    func permissions(name: String) throws {
        try MountedVolume.with { volume in
            let script = """
                cd "$1"; f=$2; umask 022
                case $f in *.rtfd) mkdir $f; in=$f/t;; *) in=$f;; esac
                echo one > $in; fsctl wait --durable disk .
                setfacl -m u:1234:rwx $f; echo two > $in; fsctl wait --durable disk .
                getfacl -cE $f > ../before; fsctl restore $f 1 >&2; getfacl -cE $f > ../after
                cmp ../before ../after; cat $in
                setfacl -b $f; chmod 700 $f; fsctl wait --durable disk .
                fsctl restore $f 2 >&2; stat -c %a $f; cat $in; ls -A
                """
            let said = try Command(
                "env", "PATH=\(Programs.directory):\(ProcessInfo.processInfo.environment["PATH"]!)",
                "sh", "-ec", script, "-", volume.path, name
            ).succeed()
            #expect(said == "one\n700\ntwo\n\(name)\n")
        }
    }

    @Test("the part of a package is no document, and what was saved last is kept")
    func package() throws {
        try MountedVolume.with { volume in
            let path = "\(volume.path)/p.rtfd"
            try Command("sh", "-ec", "mkdir $1; echo one > $1/t", "-", path).succeed()
            try volume.waitForDisk()
            try Command("sh", "-ec", "echo two > $1/t", "-", path).succeed()
            // The package has not been quiet long enough to be a version.
            try Programs.fsctl("restore", path, "1").succeed()
            try volume.waitForDisk()
            try Programs.fsctl("restore", path, "2").succeed()
            #expect(try String(contentsOfFile: path + "/t", encoding: .utf8) == "two\n")
            try volume.waitForDisk()
            let deleted = try Programs.fsctl("versions", "--deleted", volume.path).succeed()
            #expect(deleted.hasPrefix("No deleted document"), "\(deleted)")
            let report = try Programs.fsctl("status", volume.path).succeed()
            #expect(report.contains("1 with 4 versions, in 2 items"), "\(report)")
        }
    }

    /// Starts a restore and kills it, or the daemon, while it writes the part file. Returns false
    /// if the restore was faster.
    private func catchRestore(
        of path: String, part: String, killed: Killed, _ volume: MountedVolume
    ) throws -> Bool {
        let null = open("/dev/null", O_RDWR)
        defer { close(null) }
        let restore = try ChildProcess(
            Programs.path("fsctl"), ["restore", path, "1"], input: null, output: null,
            errors: null)
        while access(part, F_OK) != 0, !restore.hasEnded() {}
        restore.send(SIGSTOP)
        guard access(part, F_OK) == 0, !restore.hasEnded() else {
            restore.send(SIGCONT)
            _ = try restore.waitForEnd(seconds: 30)
            try "second".write(toFile: path, atomically: true, encoding: .utf8)
            try volume.waitForDisk()
            return false
        }
        if killed == .daemon { try volume.kill9() }
        restore.send(SIGKILL)
        _ = try restore.waitForEnd(seconds: 30)
        return true
    }
}
