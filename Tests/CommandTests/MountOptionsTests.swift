import Control
import Glibc
import Model
import Testing

@testable import concord

@Suite struct MountOptionsTests {
    @Test func ourOwn() throws {
        let options = try MountOptions(
            "allow_other,default_permissions,nopassthrough,list_conflicts,name=My Volume")
        #expect(options.allowOther && options.defaultPermissions && options.listConflicts)
        #expect(!options.passthrough && options.name == "My Volume" && options.generic == [])
    }

    @Test func sizesAndRates() throws {
        let options = try MountOptions("cache=20G,free=500m,limit_up=250,limit_down=0")
        #expect(options.cache == 20_000_000_000 && options.free == 500_000_000)
        #expect(options.limitUp == 250_000 && options.limitDown == nil)
        #expect(try MountOptions("cache=4096").cache == 4096)
    }

    @Test(arguments: [
        "cache=", "cache=x", "free=-1", "cache=9999999999T", "limit_up=fast", "limit_down=-2",
    ])
    func whatIsNoSizeIsNamed(text: String) throws {
        let error = #expect(throws: VolumeError.self) { try MountOptions(text) }
        #expect(error?.message.contains(text.split(separator: "=")[0]) == true)
    }

    @Test func theLaterOfTwoOppositesHolds() throws {
        #expect(try MountOptions("rw,nosuid,noatime,ro,suid").generic == ["noatime", "ro", "suid"])
        #expect(try MountOptions("nopassthrough,passthrough").passthrough)
    }

    @Test func whatMountDropsHasNamesOfItsOwn() throws {
        #expect(try MountOptions("rw,allow_suid,allow_dev").generic == ["rw", "suid", "dev"])
        #expect(try MountOptions("allow_suid,nosuid").generic == ["nosuid"])
    }

    @Test func whatLibfuseDoesNotKnowIsNotHandedToIt() throws {
        let text = "noatime,relatime,diratime,strictatime,norelatime"
        #expect(try MountOptions(text).generic == [])
    }

    @Test(arguments: [
        "", "defaults", "rw,noauto,user,_netdev,nofail", "x-systemd.automount,x-gvfs-show",
        "comment=hello,users,user=ann", ",,",
    ])
    func whatIsForOthersIsPassedOver(text: String) throws {
        var options = try MountOptions(text)
        options.generic.removeAll { $0 == "rw" }
        #expect(options == MountOptions())
    }

    @Test func whatRootMountsIsForAll() throws {
        #expect(try MountOptions("ro").allowOther == (geteuid() == 0))
        #expect(try !MountOptions("noallow_other").allowOther)
    }

    @Test(arguments: ["allowother", "name=", "uid=0", "fsname=x", "ro=1", "name=a\u{7}b"])
    func theUnknownIsNamed(text: String) throws {
        let error = #expect(throws: VolumeError.self) { try MountOptions(text) }
        #expect(error?.code == .invalid)
        #expect(error?.message.contains(text.hasPrefix("name=") ? "name=" : "\"\(text)\"") == true)
    }

    @Test func mountinfoAsTheKernelWritesIt() {
        let text = """
            22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
            40 22 0:55 / /mnt/with\\040space rw,nosuid - fuse.concord concord rw,user_id=0
            41 22 0:56 / /mnt/with\\040space rw master:3 propagate_from:2 - tmpfs tmp rw
            garbage
            42 22 259:300 / /b\\134n rw - xfs /dev/x rw
            """
        let table = MountTable(text: Array(text.utf8))
        #expect(table.entries.map(\.type) == ["ext4", "fuse.concord", "tmpfs", "xfs"])
        #expect(table.entries.map(\.isConcord) == [false, true, false, false])
        #expect(table.top(at: FilePath("/mnt/with space"))?.type == "tmpfs")
        #expect(table.top(at: FilePath("/b\\n"))?.device == 259 << 8 | 300 & 0xFF | 256 << 12)
        #expect(table.top(at: FilePath("/mnt")) == nil)
    }
}
