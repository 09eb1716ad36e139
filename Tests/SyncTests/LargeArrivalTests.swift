import Foundation
import Glibc
import Support
import Testing

/// A large file whose contents have arrived while a program holds the document open.
@Suite("A large file that cannot be put in place yet", .serialized) struct LargeArrivalTests {
    private static let size = 20_000_000

    private func prepared(_ device: MountedVolume) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: "\(device.store)/incoming")
            .filter { name in
                let size = (try? FileStatus(of: "\(device.store)/incoming/\(name)").size) ?? 0
                return size >= Self.size
            }
    }

    private func received(_ fleet: Fleet) throws -> Int {
        Int(try fleet.report(fleet.devices[1]).hub?.bytesDown ?? 0)
    }

    @Test("is downloaded once, and goes when it is superseded") func held() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "head -c \(Self.size) /dev/urandom > large")
            try fleet.expectEqual()
            let device = fleet.devices[1]
            let held = try OpenFile("\(device.path)/large", O_RDWR)
            let before = try received(fleet)
            try fleet.shell(0, "head -c \(Self.size) /dev/urandom > new; mv new large")
            let first = try wait(seconds: 60, for: "the contents") {
                try prepared(device).first
            }
            // Each of these makes the device try again.
            for number in 0..<8 {
                try fleet.put(0, "small", "\(number)")
                try wait(seconds: 60, for: "the small one") {
                    fleet.text(1, "small") == "\(number)" ? true : nil
                }
                #expect(try prepared(device) == [first])
            }
            #expect(try received(fleet) - before < Self.size * 3 / 2)
            try fleet.shell(0, "head -c \(Self.size) /dev/urandom > new; mv new large")
            try wait(seconds: 60, for: "the newer contents in place of the older") {
                let names = try prepared(device)
                return names.count == 1 && names != [first] ? true : nil
            }
            #expect(try received(fleet) - before < Self.size * 5 / 2)
            held.close()
            try fleet.expectEqual()
            #expect(try prepared(device) == [])
            #expect(try fleet.conflicts(1, "large") == [])
        }
    }

    @Test("is put in place with the permissions that were changed meanwhile") func permissions()
        throws
    {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "head -c \(Self.size) /dev/urandom > large; chmod 644 large")
            try fleet.expectEqual()
            let device = fleet.devices[1]
            let held = try OpenFile("\(device.path)/large", O_RDWR)
            try fleet.shell(
                0, "head -c \(Self.size) /dev/urandom > new; chmod 644 new; mv new large")
            _ = try wait(seconds: 60, for: "the contents") { try prepared(device).first }
            try fleet.shell(0, "chmod 600 large")
            try fleet.settle([0])
            try wait(seconds: 60, for: "the other device to know of the permissions") {
                let cursors = try fleet.devices.map { try fleet.report($0).hub?.cursor }
                return cursors[0] == cursors[1] ? true : nil
            }
            held.close()
            try fleet.expectEqual()
            for device in fleet.devices {
                #expect(try FileStatus(of: "\(device.path)/large").permissions == 0o600)
            }
        }
    }
}
