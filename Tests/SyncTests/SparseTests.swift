import Foundation
import Glibc
import Support
import Testing

/// Holes stay holes when a file is sent to another device and evicted and downloaded again.
@Suite(.serialized) struct SparseTests {
    private func room(_ device: MountedVolume, _ path: String) -> Int {
        var status = stat()
        guard stat("\(device.store)/tree/\(path)", &status) == 0 else { return -1 }
        return Int(status.st_blocks) * 512
    }

    @Test("a hole on one device is a hole on the other", arguments: [8, 200])
    func holes(megabytes: Int) throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(
                0,
                """
                truncate -s \(megabytes)M f
                echo begin | dd of=f conv=notrunc status=none
                echo middle | dd of=f conv=notrunc status=none bs=1M seek=3
                """)
            try fleet.settle()
            try fleet.shell(1, "cat f > /dev/null")
            let sum = try Command("sha256sum", "\(fleet.devices[0].path)/f").run().output.prefix(64)
            func expectSparse(_ step: String) throws {
                let device = fleet.devices[1]
                let its = try Command("sha256sum", "\(device.path)/f").run().output.prefix(64)
                #expect(its == sum, "\(step)")
                let room = room(device, "f")
                #expect(room > 0 && room < megabytes << 18, "\(step): \(room)")
            }
            try expectSparse("it came")
            try Programs.fsctl("evict", "\(fleet.devices[1].path)/f").succeed()
            try expectSparse("it came back")
        }
    }
}
