import Control
import Foundation
import Support
import Testing

/// What cannot be synchronised delays nothing else.
@Suite("Changes that cannot be made now", .serialized) struct HeldUpTests {
    @Test("a directory that stays for its local files does not undo other deletions")
    func stuckDirectory() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir dir; echo x > dir/x; echo z > z.txt; echo k > kept")
            try fleet.expectEqual()
            try fleet.shell(1, "echo y > dir/y.tmp")
            try fleet.shell(0, "rm -r dir")
            let text = try wait(seconds: 60, for: "the directory to be stuck") {
                try fleet.report(fleet.devices[1]).hub?.problems["dir"]
            }
            #expect(text.contains("files of this device alone"))
            try fleet.shell(1, "rm z.txt")
            try wait(seconds: 60, for: "the deletion") {
                fleet.text(0, "z.txt") == nil ? true : nil
            }
            #expect(fleet.text(1, "z.txt") == nil)
            #expect(fleet.text(1, "dir/y.tmp") == "y\n")
            try fleet.shell(1, "rm dir/y.tmp")
            try fleet.expectEqual(tries: 10)
            #expect(try fleet.names(1) == ["kept"])
        }
    }

    @Test("unreadable contents are reported; others are sent", arguments: [20_000_000, 9])
    func unreadable(size: Int) throws {
        let fleet = try Fleet(1)
        let device = fleet.devices[0]
        defer {
            device.cleanUp()
            try? fleet.hub.stop()
        }
        try fleet.offline(0)
        try fleet.shell(0, "head -c \(size) /dev/urandom > unread")
        try device.waitForDisk()
        // The disk has lost bytes.
        try Command(
            "/bin/bash", "-ec",
            """
            cd \(device.tree); touch -r unread ../stamp
            head -c \(size) /dev/zero | dd of=unread conv=notrunc status=none
            touch -r ../stamp unread; rm ../stamp
            rm -f ../packs/* ../chunks/*
            """
        ).succeed()
        try fleet.shell(0, "echo other > other")
        try fleet.online(0)
        try Programs.fsctl("wait", "--durable", "hub", "\(device.path)/other").succeed()
        let text = try wait(seconds: 60, for: "the problem to be told") {
            try fleet.report(device).hub?.problems["unread"]
        }
        #expect(text.contains("cannot be read"))
    }
}
