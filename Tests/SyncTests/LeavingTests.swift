import Journal
import Model
import Reconcile
import Support
import Testing

@testable import Sync

/// What a device knows of its changes after it was signed out. A value whose time is unknown counts
/// as older than what the device has told the hub, so permissions that protect what was saved since
/// then would be replaced.
@Suite("Leaving a hub") struct LeavingTests {
    private let directory: TemporaryDirectory
    private let journal: Journal
    private let account: Account

    init() throws {
        directory = try TemporaryDirectory()
        journal = try Journal.open(path: "\(directory.path)/journal.sqlite", mayCreate: true)
        account = Account(
            address: try HubAddress("http://localhost:1"), token: "", user: "", account: .root,
            device: .random(), deviceName: "", volume: .random(), volumeName: "",
            keys: VolumeKeys(
                chunks: Array(repeating: 0, count: 32), names: Array(repeating: 0, count: 32)))
    }

    private func file(_ name: String) -> Item {
        Item(parent: Item.root, name: Name(name), kind: .file)
    }

    @Test("changes keep their times, also those that were being sent, and later ones get theirs")
    func times() throws {
        let sent = Item(id: .random(), parent: Item.root, name: Name("sent"), kind: .file)
        let operation = Operation(
            id: OperationID(device: account.device, epoch: 1, number: 1), item: sent.id,
            moment: Moment(time: 50, device: account.device), base: 0,
            change: .attribute("mode", [1, 0x80]))
        try journal.write { [account] t in
            try t.startChangeTracking()
            let changed = try t.insert(file("changed"))
            let sending = try t.insert(sent)
            let known = try t.insert(file("known"))
            for key in [sending, known] { try t.removeUnsent(key) }
            try t.append(OutboxRow(number: 1, item: sent.id, operation: operation.encoded))
            let time = try t.hub.unsentTimes(changed).attributed
            try t.leave(account, HubClock(), tree: -1)
            #expect(try time != nil && t.hub.unsentTimes(changed).attributed == time)
            #expect(try t.hub.unsentTimes(sending).attributed == 50)
            #expect(try t.hub.outbox(limit: 1).isEmpty)
            var item = try #require(try t.item(known))
            item.mode = 0o600
            try t.update(item)
            #expect(try t.hub.unsentTimes(known).attributed != nil)
        }
    }
}
