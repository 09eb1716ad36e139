import Foundation
import Support
import Testing

/// Packaging/mount.concord, called as by mount(8), with a `concord` that only prints how it was
/// called.
@Suite("mount -t concord")
struct MountCommandTests {
    private static let script = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Packaging/mount.concord").path

    private func call(_ arguments: [String], status: Int32 = 0) throws -> Command.Result {
        let home = try TemporaryDirectory()
        let fake = try home.write(
            "#!/bin/sh\nprintf '<%s>' \"$@\" >&2\necho noise\nexit \(status)\n", to: "concord")
        let kernel = try home.write("#!/bin/sh\nprintf 'mount<%s>' \"$@\" >&2\n", to: "mount")
        try Command("chmod", "+x", fake, kernel).succeed()
        var command = Command("sh", arguments: [Self.script] + arguments)
        command.environment = ["PATH": "\(home.path):/usr/bin:/bin"]
        return try command.run()
    }

    @Test("options for mount(8) do not reach concord; the others do, in their order")
    func options() throws {
        let options = [
            "rw", "defaults", "noauto", "user=ada", "nofail", "_netdev", "x-systemd.automount",
            "comment=a b", "allow_other", "ro", "coordination_timeout=5",
        ].joined(separator: ",")
        let result = try call(["/the store", "/mnt/a b", "-n", "-o", options])
        #expect(
            result.errors == "<mount><--store></the store><-o>"
                + "<allow_other,ro,coordination_timeout=5></mnt/a b>")
        #expect(result.output == "", "standard output stays with nobody")
        #expect(result.status == 0)
    }

    @Test("without options of its own concord gets none")
    func bare() throws {
        #expect(try call(["/s", "/m", "-o", "rw"]).errors == "<mount><--store></s></m>")
        #expect(try call(["/s", "/m"]).errors == "<mount><--store></s></m>")
    }

    @Test("remounting is left to mount(8) and the kernel")
    func remounting() throws {
        let result = try call(["/s", "/mnt/a b", "-o", "rw,remount,ro,noatime,x-gvfs-show"])
        #expect(
            result.errors == "mount<-i>mount<-o>mount<remount,rw,ro,noatime>mount</mnt/a b>")
        #expect(result.status == 0)
    }

    /// generic/294 and generic/306 of xfstests remount with the options of the mount.
    @Test("allow_suid and allow_dev are flags of the kernel when remounting")
    func remountingWithSetID() throws {
        let result = try call(["/s", "/m", "-o", "remount,ro,allow_other,allow_suid,allow_dev"])
        #expect(result.errors == "mount<-i>mount<-o>mount<remount,ro,suid,dev>mount</m>")
        #expect(result.status == 0)
    }

    /// generic/128 of xfstests mounts with nosuid and the options of the other mounts.
    @Test("nosuid and nodev count whatever else is allowed", arguments: ["suid", "dev"])
    func lessIsAllowed(kind: String) throws {
        // mount(8) puts its own words first.
        for (given, passed) in [
            ("no\(kind),allow_\(kind)", "no\(kind)"), ("allow_\(kind)", "allow_\(kind)"),
            ("no\(kind),allow_other,allow_\(kind),cache=1G", "no\(kind),allow_other,cache=1G"),
        ] {
            let result = try call(["/s", "/m", "-o", given])
            #expect(result.errors == "<mount><--store></s><-o><\(passed)></m>")
        }
    }

    @Test("-f mounts nothing")
    func fake() throws {
        let result = try call(["/s", "/m", "-f"], status: 9)
        #expect(result.status == 0)
        #expect(result.errors == "")
    }

    @Test("a failure and a wrong call have mount(8)'s codes")
    func codes() throws {
        #expect(try call(["/s", "/m"], status: 3).status == 32)
        #expect(try call(["/s"]).status == 1)
        #expect(try call(["/s", "/m", "-q"]).status == 1)
        #expect(try call(["/s", "/m", "-o", "rw", "more"]).status == 1)
    }
}
