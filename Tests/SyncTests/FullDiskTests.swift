import Foundation
import Glibc
import Support
import Testing

/// If a disk is full on one side, the other side's data stay, the status reports it, and
/// synchronisation continues by itself when there is room.
@Suite(
    "A full disk between devices", .serialized,
    .enabled(if: geteuid() == 0, "mounting a small disk takes root"))
struct FullDiskTests {
    /// Makes files of 900,000 random bytes, which are small enough to be sent with their contents
    /// at once.
    private func fill(_ count: Int) -> String {
        "mkdir full; for i in {1..\(count)}; do head -c 900000 /dev/urandom > full/$i; done"
    }

    @Test(
        "the hub's disk is full",
        .enabled(if: HubProcess.isEmbedded, "The environment puts hubs elsewhere."))
    func hub() throws {
        let disk = try SmallDisk("24m")
        try Fleet.with(2, hub: try HubProcess(data: "\(disk.path)/data")) { fleet in
            try fleet.put(0, "kept", "1")
            try fleet.expectEqual()
            try fleet.shell(0, fill(40))
            try wait(seconds: 60, for: "the hub to be full") {
                let hub = try fleet.report(fleet.devices[0]).hub
                return hub?.reason.isEmpty == false && hub?.state != "up" ? true : nil
            }
            // Programs continue to work with local documents, and the status names what is not
            // safe.
            try fleet.put(0, "kept", "2")
            let status = try Programs.fsctl("status", fleet.devices[0].path).run()
            #expect(status.output.contains("full"), "\(status.output)")
            try disk.grow(to: "200m")
            try fleet.expectEqual()
            #expect(try fleet.names(1, "full").count == 40)
            #expect(fleet.text(1, "kept") == "2")
        }
    }

    @Test("the disk of a receiving device is full") func receiver() throws {
        let disk = try SmallDisk("40m")
        try Fleet.with(1) { fleet in
            let other = try fleet.join(store: "\(disk.path)/store")
            try fleet.put(1, "mine", "1")
            try fleet.expectEqual()
            try fleet.shell(0, fill(60))
            try fleet.settle([0])
            try wait(seconds: 60, for: "word of the full disk") {
                let hub = try fleet.report(other).hub
                let isAllThere =
                    try fleet.names(1).contains("full")
                    && fleet.names(1, "full").count == 60
                return isAllThere || hub?.problems.isEmpty == false || hub?.reason.isEmpty == false
                    ? true : nil
            }
            // No file has fewer bytes than its size says.
            for name in try fleet.names(1, "full") {
                guard let mine = try? Data(contentsOf: URL(filePath: "\(other.path)/full/\(name)"))
                else { continue }
                let path = "\(fleet.devices[0].path)/full/\(name)"
                #expect(try mine == Data(contentsOf: URL(filePath: path)))
            }
            #expect(fleet.text(1, "mine") == "1")
            try disk.grow(to: "400m")
            try fleet.expectEqual()
            #expect(try fleet.names(1, "full").count == 60)
        }
    }

    @Test("a large document that does not fit is named, and arrives when there is room")
    func large() throws {
        let disk = try SmallDisk("40m")
        try Fleet.with(1) { fleet in
            let other = try fleet.join(store: "\(disk.path)/store")
            try fleet.put(0, "large", "1")
            try fleet.expectEqual()
            try fleet.shell(0, "head -c 60000000 /dev/urandom > large")
            let problem = try wait(seconds: 60, for: "the problem") {
                try fleet.report(other).hub?.problems["large"]
            }
            #expect(problem.contains("no room"), "\(problem)")
            #expect(fleet.text(1, "large") == "1")
            try fleet.put(1, "mine", "1")
            try wait(seconds: 60, for: "another document") {
                fleet.text(0, "mine") == "1" ? true : nil
            }
            try disk.grow(to: "400m")
            try wait(seconds: 120, for: "the contents") {
                try FileStatus(of: "\(other.path)/large").size == 60_000_000 ? true : nil
            }
            try fleet.expectEqual()
            #expect(try fleet.report(other).hub?.problems == [:])
        }
    }
}
