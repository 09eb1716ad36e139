import Foundation
import Journal
import Model
import Reconcile
import Support
import Testing

/// `fsctl doctor` compares tree, journal, chunks and hub.
@Suite("The doctor compares with the hub", .serialized) struct HubDoctorTests {
    private func doctor(_ fleet: Fleet, _ index: Int, _ words: String...) throws -> (
        status: Int32, text: String
    ) {
        var command = Command(
            Programs.fsctl, arguments: ["doctor"] + words + [fleet.devices[index].path])
        command.timeoutSeconds = 120
        let result = try command.run()
        return (result.status, result.output + result.errors)
    }

    /// Changes the journal of a device while it is not mounted.
    private func tamper(
        _ fleet: Fleet, _ index: Int, _ body: (Transaction) throws -> Void
    ) throws {
        let device = fleet.devices[index]
        try device.unmount()
        let journal = try Journal.open(
            path: "\(device.store)/journal.sqlite", mayCreate: false, checked: false)
        try journal.write { t in try body(t) }
        try journal.close()
        try device.mount()
    }

    @Test func whatIsSoundIsCalledSound() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(
                0, "mkdir -p d p.rtfd; echo 1 > d/a; echo 2 > p.rtfd/b; ln -s d l; chmod 600 d/a")
            try fleet.expectEqual()
            try fleet.shell(1, "echo 3 > d/a; mv d e; rm l")
            try fleet.expectEqual()
            for index in 0..<2 {
                let (status, text) = try doctor(fleet, index)
                #expect(status == 0 && text.contains("the same here and at the hub"), "\(text)")
                #expect(!text.contains("damage"), "\(text)")
            }
            try fleet.offline(1)
            let (status, text) = try doctor(fleet, 1)
            #expect(status == 0 && text.contains("hub was not checked: this device is offline"))
        }
    }

    @Test func whatWasAgreedOnWronglyIsFound() throws {
        try Fleet.with(1) { fleet in
            try fleet.put(0, "a", "text")
            try fleet.put(0, "b", "text too")
            try fleet.settle()
            try tamper(fleet, 0) { t in
                let item = try #require(try t.item(parent: Item.root, name: Name("a")))
                var row = try #require(try t.hub.mirror(item.id))
                var base = try #require(row.base.flatMap { Agreement(encoded: $0) })
                base.image.name = "z"
                row.base = base.encoded
                try t.set(row)
            }
            let (status, text) = try doctor(fleet, 0, "--no-repair")
            #expect(status != 0, "\(text)")
            let fact = "a differs at the hub from the last agreed state: another place or name"
            #expect(text.contains(fact), "\(text)")
            #expect(text.contains("a differs here from the state agreed on"), "\(text)")
            #expect(!text.contains("b differs"), "\(text)")
        }
    }

    @Test("a hub that is busy is asked again", arguments: ["/changes", "/durability"])
    func busy(path: String) throws {
        try Fleet.with(0) { fleet in
            let liar = try LyingHub(before: fleet.hub)
            defer { liar.stop() }
            let device = try MountedVolume(options: ["name=team"])
            defer { device.cleanUp() }
            let code = try fleet.hub.invite()
            try Programs.fsctl("signin", liar.address, "--code", code, "--at", device.path)
                .succeed()
            try "text".write(toFile: "\(device.path)/a", atomically: false, encoding: .utf8)
            try Programs.fsctl("wait", "--durable", "hub", device.path).succeed()
            // The device's own requests must not interfere.
            liar.refuse(LyingHub.Refusal(path: path, status: 503, isDone: false))
            let doctor = try Beside("doctor", device.path)
            try wait(for: "refusals; \(device.said)") { liar.told >= 3 ? true : nil }
            liar.refuse(nil)
            #expect(try doctor.waitForEnd() == 0, "\(doctor.said)")
            #expect(doctor.said.contains("the same here and at the hub"), "\(doctor.said)")
            try device.unmount()
        }
    }

    @Test func whatTheHubNeverGotIsSentAgain() throws {
        try Fleet.with(1) { fleet in
            try fleet.put(0, "a", "text")
            try fleet.settle()
            try Programs.fsctl("wait", "--durable", "hub", fleet.devices[0].path).succeed()
            sleep(2)
            try tamper(fleet, 0) { t in
                let item = try #require(try t.item(parent: Item.root, name: Name("a")))
                let current = try #require(item.current)
                #expect(try t.confirm(current: current, of: item.key, as: .random()))
            }
            let (status, text) = try doctor(fleet, 0)
            #expect(status == 0, "\(text)")
            // The device asks about unconfirmed versions when it starts, and may have been faster.
            #expect(
                text.contains("It is on this device, and is sent again")
                    || text.contains("the same here and at the hub"), "\(text)")
            try fleet.settle()
            try Programs.fsctl("wait", "--durable", "hub", fleet.devices[0].path).succeed()
            let (_, after) = try doctor(fleet, 0)
            #expect(after.contains("the same here and at the hub"), "\(after)")
        }
    }
}
