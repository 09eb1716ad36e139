import Foundation
import Model
import Support
import Testing

@testable import Journal

/// Contents are evicted only if the present hub has confirmed that it has them.
@Suite("Eviction needs a valid confirmation", .serialized) struct ConfirmedEvictionTests {
    private func fill(_ fleet: Fleet, bytes: Int = 200_000) throws -> Data {
        try fleet.shell(0, "head -c \(bytes) /dev/urandom > a")
        try fleet.settle()
        return try contents(fleet)
    }

    private func contents(_ fleet: Fleet) throws -> Data {
        try Data(contentsOf: URL(filePath: "\(fleet.devices[0].path)/a"))
    }

    /// Returns what `fsctl evict` says if it refuses to evict the document.
    private func refusal(_ fleet: Fleet) throws -> String? {
        let result = try Programs.fsctl("evict", "\(fleet.devices[0].path)/a").run()
        return result.status == 0 ? nil : result.errors
    }

    private func signOut(_ device: MountedVolume) throws {
        try Programs.fsctl("signout", "--at", device.path).succeed()
    }

    private func signIn(_ device: MountedVolume, to hub: HubProcess) throws {
        try Programs.fsctl(
            "signin", hub.address, "--code", try hub.invite(), "--device", "dev0",
            "--at", device.path
        ).succeed()
    }

    @Test("while signed out nothing is evicted, also after a remount") func signedOut() throws {
        try Fleet.with(1) { fleet in
            let bytes = try fill(fleet)
            try signOut(fleet.devices[0])
            #expect(try doctor(fleet).status == 0)
            try fleet.hub.stop()
            for _ in 0..<2 {
                let said = try #require(try refusal(fleet))
                #expect(said.contains("signed in to no hub"), "\(said)")
                #expect(try contents(fleet) == bytes)
                try fleet.devices[0].remount()
            }
            // The same hub confirms it again.
            try fleet.hub.start()
            try fleet.signIn(fleet.devices[0])
            try fleet.settle()
            #expect(try refusal(fleet) == nil)
            #expect(try contents(fleet) == bytes)
        }
    }

    private func doctor(_ fleet: Fleet, _ index: Int = 0) throws -> Command.Result {
        try Programs.fsctl("doctor", fleet.devices[index].path).run()
    }

    @Test("the doctor names documents whose contents only an earlier hub has had")
    func earlierHub() throws {
        let other = try HubProcess()
        try Fleet.with(1) { fleet in
            let bytes = try fill(fleet)
            let device = fleet.devices[0]
            try Programs.fsctl("evict", "\(device.path)/a").succeed()
            #expect(try doctor(fleet).status == 0)
            try Programs.fsctl("signout", "--force", "--at", device.path).succeed()
            try fleet.hub.stop()
            func expectNamed() throws {
                let said = try doctor(fleet)
                #expect(said.status != 0)
                #expect(said.output.contains("Version 1 of a cannot be read now"), "\(said)")
            }
            try expectNamed()
            // An empty hub.
            try signIn(device, to: other)
            try expectNamed()
            try Programs.fsctl("signout", "--force", "--at", device.path).succeed()
            try fleet.hub.start()
            try fleet.signIn(device)
            try fleet.settle()
            try wait(for: "the hub to confirm it again") {
                try doctor(fleet).status == 0 ? true : nil
            }
            #expect(try contents(fleet) == bytes)
        }
        try other.stop()
        try other.check()
    }

    /// The hub has lost a version that one device has evicted, and gets it again, as an older one,
    /// from another device.
    @Test("the doctor asks the hub that came back from a backup before it says what is lost")
    func restoredHub() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "echo 1 > a")
            try fleet.settle()
            let copy = try fleet.hub.copyData()
            try fleet.shell(0, "echo 2 > a")
            try fleet.expectEqual()
            try Programs.fsctl("evict", "\(fleet.devices[1].path)/a").succeed()
            for index in 0..<2 { try fleet.offline(index) }
            try fleet.hub.stop()
            try fleet.hub.replaceData(by: copy)
            try fleet.hub.start()
            try fleet.online(1)
            try wait(seconds: 60, for: "what the hub has") {
                fleet.text(1, "a") == "1\n" ? true : nil
            }
            try fleet.settle([1])
            let said = try doctor(fleet, 1)
            #expect(said.status != 0)
            #expect(said.output.contains("before it came back from a backup"), "\(said)")
            try fleet.offline(1)
            try fleet.online(0)
            try fleet.settle([0])
            try fleet.shell(0, "echo 3 > a")
            try fleet.settle([0])
            try fleet.online(1)
            try fleet.expectEqual()
            #expect(fleet.text(1, "a") == "3\n")
            let later = try doctor(fleet, 1)
            #expect(later.status == 0, "\(later)")
        }
    }

    /// The hub has lost documents that one device has deleted since and the other one has only the
    /// names of. Their names belong to other items now.
    @Test("what neither the hub nor the device has gives way to what has its name at the hub")
    func givesWay() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "echo 1 > kept")
            try fleet.expectEqual()
            let copy = try fleet.hub.copyData()
            try fleet.shell(0, "echo lost > a; echo lost > b")
            try fleet.expectEqual()
            for name in ["a", "b"] {
                try Programs.fsctl("evict", "\(fleet.devices[1].path)/\(name)").succeed()
            }
            for index in 0..<2 { try fleet.offline(index) }
            try fleet.shell(0, "rm a b; mv kept a; mkdir b; echo 2 > b/f")
            try fleet.hub.stop()
            try fleet.hub.replaceData(by: copy)
            try fleet.hub.start()
            for index in 0..<2 { try fleet.online(index) }
            try fleet.expectEqual()
            for index in 0..<2 {
                #expect(try fleet.names(index).sorted() == ["a", "b"])
                #expect(fleet.text(index, "a") == "1\n")
                #expect(fleet.text(index, "b/f") == "2\n")
            }
        }
    }

    @Test("contents confirmed by another hub stay until the new one has") func newHub() throws {
        let other = try HubProcess()
        try Fleet.with(1) { fleet in
            let bytes = try fill(fleet, bytes: 1_500_000)
            let device = fleet.devices[0]
            try signOut(device)
            try fleet.hub.stop()
            // The upload to the new hub takes some seconds.
            try device.unmount()
            device.options += ["limit_up=150", "cache=64K"]
            try device.mount()
            try signIn(device, to: other)
            try other.kill9()
            try fleet.offline(0)
            let said = try #require(try refusal(fleet))
            #expect(said.contains("has not confirmed its contents"), "\(said)")
            let status = try Programs.fsctl("status", "\(device.path)/a").succeed()
            #expect(!status.contains("hub"), "\(status)")
            #expect(try contents(fleet) == bytes)
            // Now the new hub has the contents.
            try device.unmount()
            device.options.removeLast(2)
            try other.start()
            try device.mount()
            try fleet.online(0)
            try Programs.fsctl("wait", "--durable", "hub", "\(device.path)/a").succeed()
            try fleet.settle()
            #expect(try refusal(fleet) == nil)
            #expect(try contents(fleet) == bytes)
        }
        try other.stop()
        try other.check()
    }

    @Test("after an upgrade of the journal the hub is asked again") func upgraded() throws {
        try Fleet.with(1) { fleet in
            let bytes = try fill(fleet)
            try Programs.fsctl("evict", "\(fleet.devices[0].path)/a").succeed()
            try fleet.shell(0, "head -c 100000 /dev/urandom > b")
            try fleet.settle()
            let device = fleet.devices[0]
            try device.unmount()
            let journal = try Journal.open(path: "\(device.store)/journal.sqlite")
            try journal.write { t in
                try t.run("DELETE FROM confirmations", [])
                try t.run("DELETE FROM witnesses", [])
            }
            try journal.close()
            try device.mount()
            try wait(for: "the hub to confirm it again") {
                try Programs.fsctl("evict", "\(device.path)/b").run().status == 0 ? true : nil
            }
            let status = try Programs.fsctl("status", "\(device.path)/a").succeed()
            #expect(status.contains("hub"), "\(status)")
            #expect(try contents(fleet) == bytes)
        }
    }
}
