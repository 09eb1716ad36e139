import Foundation
import Glibc
import Support
import Testing

@Suite("The table of mounts") struct MountTableTests {
    /// The kernel gives the table in parts of 4 KB.
    @Test("has every mount, however many there are", .enabled(if: geteuid() == 0))
    func long() throws {
        let home = try TemporaryDirectory("mounts")
        var places: [String] = []
        defer { for place in places { umount2(place, Int32(MNT_DETACH)) } }
        for number in 0..<60 {
            let place = "\(home.path)/\(number)"
            try FileManager.default.createDirectory(
                atPath: place, withIntermediateDirectories: false)
            try Command("mount", "-t", "tmpfs", "none", place).succeed()
            places.append(place)
        }
        let missing = try places.filter { try !MountTable.isMounted($0) }
        #expect(missing == [])
    }
}
