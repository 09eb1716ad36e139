import Foundation
import Glibc
import Support
import Testing

/// The modification times of documents, as the devices show them.
@Suite("Times")
struct TimeTests {
    private func time(_ device: MountedVolume, _ path: String) throws -> Int64 {
        var status = stat()
        try #require(stat("\(device.path)/\(path)", &status) == 0, "\(path) \(errno)")
        return Int64(status.st_mtim.tv_sec) * 1_000_000_000 + Int64(status.st_mtim.tv_nsec)
    }

    private func expect(_ expected: Int64, of path: String, _ fleet: Fleet) throws {
        for device in fleet.devices { #expect(try time(device, path) == expected, "\(path)") }
    }

    private func expectSound(_ fleet: Fleet) throws {
        for device in fleet.devices { try Programs.fsctl("doctor", device.path).succeed() }
    }

    @Test("equal contents from two devices have one time, the first that the hub received")
    func equalContents() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "old", "old")
            try fleet.expectEqual()
            for index in 0..<2 { try fleet.offline(index) }
            for index in 0..<2 {
                try fleet.put(index, "new", "new")
                try fleet.put(index, "old", "newer")
                try fleet.devices[index].waitForDisk()
            }
            let (old, new) = try (time(fleet.devices[1], "old"), time(fleet.devices[1], "new"))
            #expect(try time(fleet.devices[0], "old") != old)
            try fleet.online(1)
            try fleet.settle([1])
            try fleet.online(0)
            try fleet.expectEqual()
            for index in 0..<2 { #expect(try fleet.conflicts(index, "old").isEmpty) }
            try expect(new, of: "new", fleet)
            try expect(old, of: "old", fleet)
            try expectSound(fleet)
            // Nothing is sent again, and times that are set from now on are the same everywhere.
            for index in 0..<2 {
                try fleet.devices[index].remount()
                let set = 1_300_000_000 + index
                try fleet.script(index, "touch -d @\(set) new")
                try fleet.expectEqual()
                try expect(Int64(set) * 1_000_000_000, of: "new", fleet)
                try expect(old, of: "old", fleet)
            }
            try expectSound(fleet)
        }
    }

    @Test("a time that was set before a document reached a device is kept")
    func setBefore() throws {
        try Fleet.with(2) { fleet in
            try fleet.offline(1)
            try fleet.script(0, "echo text > f; mkdir p.rtfd; echo text > p.rtfd/TXT")
            try fleet.settle([0])
            try fleet.script(0, "touch -d @1000000000 f")
            try fleet.settle([0])
            try fleet.online(1)
            try fleet.expectEqual()
            try expect(1_000_000_000_000_000_000, of: "f", fleet)
            try expectSound(fleet)
            try fleet.join()
            try fleet.expectEqual()
            try expect(1_000_000_000_000_000_000, of: "f", fleet)
            try expectSound(fleet)
            try fleet.script(2, "chmod 600 f; cat f")
            try fleet.expectEqual()
            try expect(1_000_000_000_000_000_000, of: "f", fleet)
            try expectSound(fleet)
        }
    }
}
