import Foundation
import Hub
import HubProtocol
import Model
import Support
import Testing

struct RestoringTests {
    @Test func aBackupIsWholeAndBeginsNewEpochs() async throws {
        let scratch = try TemporaryDirectory("hub")
        let hub = try await RunningHub(in: scratch)
        var device = try await hub.device()
        try await device.save("yesterday", bytes("yesterday"))
        let backup = scratch.path + "/backup"
        let start = hub.hub.clock()
        let report = try await hub.administration().backup(to: backup)
        #expect(report.packs == 1)
        let times = try await hub.hub.ledger.read { try MaintenanceTimes($0) }
        #expect(times.backedUp ?? 0 >= start && times.collected == nil)
        try await device.save("today", bytes("today"))
        try await hub.stop()
        let copy = try Administration(DataDirectory(backup))
        #expect(try await copy.check().faults == [])
        try copy.close()

        let restored = try await RunningHub(in: scratch, data: backup)
        var here = device
        here = device.moved(to: restored.url)
        let gone = try await failure { [here] in try await here.changes(after: 2) }
        #expect(gone.code == .volumeEpoch)
        #expect(gone.epoch != nil && gone.epoch != device.volume.epoch)
        let lost = try await failure { [here] in
            var here = here
            return try await here.commit([here.directory("more")])
        }
        #expect(lost.code == .volumeEpoch)
        here.volume.epoch = try #require(gone.epoch)
        #expect(try await here.changes().changes.count == 1)
        // The chunks of the backup are there.
        #expect(try await here.have([here.id(of: bytes("yesterday"))]).present == [true])
        try await restored.stop()

        // The epochs change only at the first start.
        let again = try await RunningHub(in: scratch, data: backup)
        #expect(try await here.moved(to: again.url).changes().changes.count == 1)
        try await again.stop()
    }

    @Test func anOlderLedgerPutBackByHandIsNoticed() async throws {
        let scratch = try TemporaryDirectory("hub")
        let first = try await RunningHub(in: scratch)
        var device = try await first.device()
        try await device.save("a", bytes("a"))
        try await first.stop()
        let (ledger, old) = (first.directory.path + "/ledger.sqlite", scratch.path + "/old")
        try Command("cp", ledger, old).succeed()
        let second = try await RunningHub(in: scratch)
        device = device.moved(to: second.url)
        try await device.save("b", bytes("b"))
        try await second.stop()
        try Command("cp", old, ledger).succeed()

        let third = try await RunningHub(in: scratch)
        let gone = try await failure { [device] in
            try await device.moved(to: third.url).changes(after: 1)
        }
        #expect(gone.code == .volumeEpoch)
        try await third.stop()
    }

    @Test func aDeviceThatKnowsMoreTells() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.commit([device.directory("a")])
            // This is the situation after the whole data directory was rolled back.
            let gone = try await failure { [device] in try await device.changes(after: 5) }
            #expect(gone.code == .volumeEpoch)
            let still = try await failure { [device] in try await device.changes(after: 1) }
            #expect(still.epoch == gone.epoch)
        }
    }

    /// The whole data directory, with `heads`, was rolled back, and other devices continued.
    @Test(arguments: [false, true])
    func aPositionOfAnotherHistoryIsNoticed(byItsCommit: Bool) async throws {
        let scratch = try TemporaryDirectory("hub")
        let first = try await RunningHub(in: scratch)
        var device = try await first.device()
        try await device.commit([device.directory("a")])
        let early = try await device.changes().run
        try await first.stop()
        let (data, old) = (first.directory.path, scratch.path + "/old")
        try Command("cp", "-a", data, old).succeed()

        let second = try await RunningHub(in: scratch)
        device = device.moved(to: second.url)
        try await device.commit([device.directory("lost")])
        let seen = try await device.changes(after: 1, run: early)
        #expect(seen.changes.count == 1)
        try await second.stop()
        try Command("rm", "-r", data).succeed()
        try Command("mv", old, data).succeed()

        let third = try await RunningHub(in: scratch)
        device = device.moved(to: third.url)
        device.number = 2
        try await device.commit([device.directory("b"), device.directory("c")])
        // An earlier position exists in this history, too.
        #expect(try await device.changes(after: 1, run: early).changes.count == 2)
        let gone = try await failure { [device] in
            var device = device
            if byItsCommit {
                try await device.commit([device.directory("d")], cursor: 2, run: seen.run)
            } else {
                _ = try await device.changes(after: 2, run: seen.run)
            }
        }
        #expect(gone.code == .volumeEpoch)
        #expect(gone.epoch != nil && gone.epoch != device.volume.epoch)
        try await third.stop()
    }

    @Test func aRestartChangesNothing() async throws {
        let scratch = try TemporaryDirectory("hub")
        let first = try await RunningHub(in: scratch)
        var device = try await first.device()
        try await device.save("a", bytes("a"))
        try await first.stop()
        let second = try await RunningHub(in: scratch)
        device = device.moved(to: second.url)
        let page = try await device.changes()
        #expect(page.changes.count == 1)
        #expect(try await device.save("b", bytes("b")).verdict == .applied)
        #expect(try await device.changes(after: page.next, run: page.run).changes.count == 1)
        try await second.stop()
    }

    @Test func twoHubsDoNotShareADirectory() async throws {
        try await RunningHub.with { hub in
            await #expect(throws: VolumeError.self) {
                try await Hub(opening: hub.directory, log: RunningHub.quiet)
            }
        }
    }

    @Test func anEmptyHubKnowsNobody() async throws {
        let scratch = try TemporaryDirectory("hub")
        let first = try await RunningHub(in: scratch)
        let device = try await first.device()
        try await first.stop()
        // The hub's disk was not mounted. The device must not conclude that everything was deleted.
        let empty = try await RunningHub(in: scratch, data: scratch.path + "/empty")
        let refused = try await failure { try await device.moved(to: empty.url).changes() }
        #expect(refused.code == .unauthenticated)
        try await empty.stop()
    }
}

extension TestDevice {
    /// Returns the same device at another address.
    func moved(to url: String) -> TestDevice { TestDevice(self, url: url) }

    private init(_ other: TestDevice, url: String) {
        self.url = url
        token = other.token
        id = other.id
        epoch = other.epoch
        volume = other.volume
        number = other.number
    }
}
