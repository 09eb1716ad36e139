import CLinux
import Foundation
import Glibc
import Support
import SystemCalls
import Testing

/// SIGTERM, unmounting and mounting again while the disk has much to do. Needs root.
@Suite("Ending beside a busy disk", .serialized, .enabled(if: geteuid() == 0))
struct EndingDiskTests {
    /// What the daemon has read from files since it was started.
    private func bytesRead(_ volume: MountedVolume) throws -> Int {
        let text = try String(contentsOfFile: "/proc/\(volume.pid)/io", encoding: .utf8)
        return Int(text.split(separator: "\n")[0].split(separator: " ")[1]) ?? 0
    }

    /// A file of many gigabytes whose blocks are clones of a few, which takes long to read.
    private func makeLarge(_ path: String) throws {
        let script = """
            head -c 64M /dev/urandom > "$0.part"
            i=0
            while [ $i -lt 256 ]; do
                xfs_io -f -c "reflink $0.part 0 $((i * 67108864)) 67108864" "$0" >/dev/null
                i=$((i + 1))
            done
            rm "$0.part"
            """
        try Command("sh", "-ec", script, path).succeed()
    }

    @Test(
        "a large document that is being read is given up, and mounting does not wait for it",
        .enabled(if: LoopDisk.Kind.xfs.isPossible))
    func hashing() throws {
        let disk = try LoopDisk(.xfs, megabytes: 1000)
        try MountedVolume.with(store: "\(disk.path)/store") { volume in
            try "1".write(toFile: "\(volume.path)/small", atomically: false, encoding: .utf8)
            try volume.waitForDisk()
            try volume.unmount()
            // A program has copied it while the volume was not mounted.
            try makeLarge("\(volume.tree)/large")
            let size = try FileStatus(of: "\(volume.tree)/large").size
            #expect(size == 16 << 30)
            for _ in 0..<2 {
                try volume.mount()
                try wait(seconds: 60, for: "the document to be read") {
                    try bytesRead(volume) > 200 << 20 ? true : nil
                }
                // Other documents are recorded meanwhile.
                try "2".write(toFile: "\(volume.path)/small", atomically: false, encoding: .utf8)
                try volume.terminate()
                #expect(access("\(volume.store)/clean", F_OK) != 0, "it was read to its end")
            }
            try volume.mount()
            try call(unlink("\(volume.path)/large"))
            #expect(try History.texts(of: "\(volume.path)/small").last == "2")
        }
    }

    @Test("a copy of a large file is given up") func copying() throws {
        try MountedVolume.with { volume in
            let path = "\(volume.path)/large"
            try Command(
                "sh", "-ec", "head -c 3G /dev/zero | tr '\\0' x > \"$0\"", path
            ).succeed()
            let writer = try Beside(
                running: "python3",
                ["-c", "import os, sys; os.truncate(sys.argv[1], 5); print('done')", path])
            try wait(seconds: 30, for: "the copy to begin") {
                let names = try FileManager.default.contentsOfDirectory(
                    atPath: "\(volume.store)/stash")
                return names.isEmpty ? nil : true
            }
            try volume.terminate()
            #expect(try writer.waitForEnd() != 0, "the copy was completed")
            #expect(!writer.said.contains("done"))
            let size = try FileStatus(of: "\(volume.tree)/large").size
            #expect(size == 3 << 30, "nothing was changed")
            try volume.mount()
            try call(unlink(path))
        }
    }

    @Test("nobody waits for space any more", arguments: [LoopDisk.Kind.ext4, .xfs])
    func full(_ kind: LoopDisk.Kind) throws {
        guard kind.isPossible else { return }
        let disk = try LoopDisk(kind, megabytes: 400)
        try MountedVolume.with(store: "\(disk.path)/store") { volume in
            try "1".write(toFile: "\(volume.path)/small", atomically: false, encoding: .utf8)
            try volume.waitForDisk()
            // What is displaced could give way, but a program holds it, so writers wait.
            let script = """
                i=0
                while :; do
                    i=$((i + 1))
                    { head -c 20000000 /dev/urandom > "f$0-$((i % 4))"; } 2>/dev/null
                    [ -e small ] || exit 0
                done
                """
            let writers = try (0..<8).map {
                try Beside(running: "bash", ["-c", script, "\($0)"], directory: volume.path)
            }
            try wait(seconds: 120, for: "the disk to be full") {
                var space = statvfs()
                try call(statvfs(disk.path, &space))
                return space.f_bavail * UInt(space.f_frsize) < 20 << 20 ? true : nil
            }
            sleep(2)
            try volume.terminate()
            for writer in writers { writer.send(SIGKILL) }
            try volume.mount()
            #expect(try History.texts(of: "\(volume.path)/small") == ["1"])
        }
    }

    @Test("what many programs have saved right before is not lost and not waited for")
    func manyEvents() throws {
        try MountedVolume.with { volume in
            let script = "for i in $(seq 3000); do echo $i > $0-$i; done"
            let writers = try (0..<4).map {
                try Beside(running: "bash", ["-c", script, "\($0)"], directory: volume.path)
            }
            for writer in writers { _ = try writer.waitForEnd(seconds: 180) }
            try volume.terminate()
            try volume.mount()
            for index in 0..<4 {
                let text = try String(
                    contentsOfFile: "\(volume.path)/\(index)-3000", encoding: .utf8)
                #expect(text == "3000\n")
            }
            try volume.waitForDisk()
            #expect(try History.texts(of: "\(volume.path)/3-3000") == ["3000\n"])
        }
    }
}
