import Foundation
import Glibc
import Support
import SystemCalls
import Testing

/// `mount -o remount` of a mounted volume, by Packaging/mount.concord and the kernel.
@Suite("mount -o remount", .enabled(if: geteuid() == 0, "only root may remount"))
struct RemountTests {
    private static let script = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Packaging/mount.concord").path

    private func remount(_ volume: MountedVolume, _ options: String) throws -> Command.Result {
        // mount(8) adds what the table of mounts has.
        let all =
            "rw,nosuid,nodev,relatime,user_id=0,group_id=0,default_permissions,allow_other,remount,"
        return try Command(
            "sh", Self.script, volume.store, volume.path, "-o", all + options
        ).run()
    }

    @Test("to read-only and back: refused while a file is open for writing, and nothing is lost")
    func readOnly() throws {
        try MountedVolume.with { volume in
            let path = "\(volume.path)/a"
            let file = try OpenFile.creating(path)
            try file.write("first")
            let refused = try remount(volume, "ro")
            #expect(refused.status != 0)
            #expect(refused.errors.contains("busy"), "\(refused.errors)")
            try file.write(" and second")
            file.close()
            // The release comes soon after close(2).
            try wait(seconds: 10, for: "the remount") {
                try remount(volume, "ro").status == 0 ? true : nil
            }
            #expect(throws: Errno.readOnly) { try OpenFile(path, O_WRONLY) }
            #expect(throws: Errno.readOnly) { try OpenFile.creating("\(volume.path)/b") }
            #expect(unlink(path) == -1 && errno == EROFS)
            #expect(try OpenFile(path, O_RDONLY).text() == "first and second")
            try volume.waitForDisk()
            #expect(
                try FileManager.default.contentsOfDirectory(
                    atPath: "\(volume.path)/.versions/a"
                ).count == 1)
            #expect(try remount(volume, "rw").status == 0)
            try OpenFile.creating(path).write("third")
            try volume.waitForDisk()
            #expect(
                try FileManager.default.contentsOfDirectory(
                    atPath: "\(volume.path)/.versions/a"
                ).count == 2)
        }
    }

    @Test("the daemon's own options stay, with a word about it") func others() throws {
        try MountedVolume.with { volume in
            let result = try remount(volume, "noexec,list_conflicts")
            #expect(result.status == 0, "\(result.errors)")
            #expect(result.errors.contains("list_conflicts"))
            let flags = try Command("findmnt", "-no", "OPTIONS", volume.path).succeed()
            #expect(flags.contains("noexec"))
        }
    }

    @Test("what arrives meanwhile waits for the remount to read and write") func arrivals() throws {
        try Fleet.with(2) { fleet in
            let (here, there) = (fleet.devices[0], fleet.devices[1])
            try OpenFile.creating("\(here.path)/a").write("old")
            try fleet.settle()
            #expect(try remount(there, "ro").status == 0)
            try OpenFile.creating("\(here.path)/a").write("new")
            try here.waitForDisk()
            try Programs.fsctl("wait", "--durable", "hub", "\(here.path)/a").succeed()
            try wait(seconds: 60, for: "the device to say why it waits") {
                let said = try Programs.fsctl("status", there.path).succeed()
                return said.contains("ead-only") ? true : nil
            }
            #expect(try OpenFile("\(there.path)/a", O_RDONLY).text() == "old")
            #expect(try remount(there, "rw").status == 0)
            try wait(seconds: 120, for: "the new contents") {
                try OpenFile("\(there.path)/a", O_RDONLY).text() == "new" ? true : nil
            }
        }
    }
}
