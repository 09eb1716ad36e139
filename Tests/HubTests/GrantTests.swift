import Coordination
import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub

/// Grants in the ledger, and the comparison of their tokens within a commit.
struct GrantTests {
    private static let item = Identifier(high: 7, low: 7)
    private static let first = holder(1), second = holder(2)

    private static func holder(_ number: UInt64) -> GrantRow.Holder {
        GrantRow.Holder(
            device: Identifier(high: 1, low: number), process: Identifier(high: 2, low: number))
    }

    @Test(
        "a document is granted to one device, with a position of the journal as its token",
        arguments: LedgerKind.all)
    func table(_ kind: LedgerKind) async throws {
        let scratch = try TemporaryDirectory("ledger")
        let ledger = try kind.open(scratch.path)
        let volume = VolumeRow.example(.random())
        try await ledger.write { transaction in
            try transaction.addAccount(volume.account, name: "anna", quota: nil, at: 1)
            try transaction.addVolume(volume, at: 2)
        }
        let item = Self.item
        /// Runs one step in a transaction of its own.
        func step<Value: Sendable>(
            _ body: @escaping @Sendable (GrantTable) throws -> Value
        ) async throws -> Value {
            try await ledger.write(.volume(volume.id)) {
                try body(GrantTable($0, volume: volume.id))
            }
        }
        let (a, b) = (Self.first, Self.second)
        #expect(try await step { try $0.admits(nil, of: item, from: a.device) })
        #expect(try await step { try $0.take(item, by: a, number: 1, at: 5) } == 1)
        #expect(try await step { try $0.take(item, by: b, number: 1, at: 6) } == nil)
        // The answer was lost, and the process asks again.
        #expect(try await step { try $0.take(item, by: a, number: 2, at: 7) } == 1)
        #expect(try await step { try $0.renew(item, 1, by: a, number: 3) })
        #expect(try await step { try $0.admits(1, of: item, from: a.device) })
        #expect(try await step { try !$0.admits(nil, of: item, from: b.device) })
        #expect(try await step { try !$0.admits(2, of: item, from: b.device) })
        // The row has changed since a hub has seen it, so its time is not over.
        let seen = try await step { try $0.row(of: item) }
        #expect(try await step { try $0.renew(item, 1, by: a, number: 4) })
        #expect(try await step { try $0.take(item, by: b, number: 2, ended: seen, at: 8) } == nil)
        let last = try await step { try $0.row(of: item) }
        #expect(try await step { try $0.take(item, by: b, number: 3, ended: last, at: 9) } == 2)
        #expect(try await step { try !$0.renew(item, 1, by: a, number: 5) })
        #expect(try await step { try !$0.admits(1, of: item, from: a.device) })
        #expect(try await step { try $0.admits(2, of: item, from: b.device) })
        try await step { try $0.release(item, 2, by: b, number: 4) }
        #expect(try await step { try $0.admits(nil, of: item, from: a.device) })
        #expect(try await step { try !$0.admits(1, of: item, from: a.device) })
        let row = try await ledger.read { try $0.volume(volume.id) }
        #expect(row?.head == 2 && row?.fence == 2)
        try ledger.close()
    }

    @Test("an edit that was fenced off is a conflict version, whatever its time is")
    func commits() async throws {
        try await RunningHub.with { hub in
            var (a, b) = (try await hub.device(), try await hub.device())
            let volume = a.volume.id
            try await a.upload([bytes("old"), bytes("late"), bytes("new"), bytes("plain")])
            let creation = a.creation("a.txt", bytes("old"), id: Self.item)
            try await a.commit([creation])
            let base = try #require(creation.change.revision?.id)
            /// Lets a device have the document, whoever has it.
            func grant(_ device: TestDevice, number: UInt64) async throws -> UInt64 {
                let asker = GrantRow.Holder(device: device.id, process: .root)
                return try await hub.hub.ledger.write(.volume(volume)) { transaction in
                    let grants = GrantTable(transaction, volume: volume)
                    let row = try grants.row(of: Self.item)
                    return try #require(
                        try grants.take(Self.item, by: asker, number: number, ended: row, at: 1))
                }
            }
            let (old, new) = (try await grant(a, number: 1), try await grant(b, number: 1))
            #expect(new > old)
            // Devices read the position of a grant as any other.
            let seen = try await b.changes()
            #expect(seen.head == new && seen.next == new)
            func edit(
                _ device: inout TestDevice, _ text: String, on parent: Identifier, _ fence: UInt64?
            ) async throws -> OperationResult {
                var entry = device.entry(
                    Self.item,
                    .edit(device.revision(of: bytes(text), parents: [parent])),
                    bytes: bytes(text))
                entry.fence = fence
                return try await device.commit([entry]).results[0]
            }
            // The first holder was stopped for long. Its edit is based on the current version.
            #expect(try await edit(&a, "late", on: base, old).verdict == .conflict)
            #expect(try await edit(&b, "new", on: base, new).verdict == .applied)
            #expect(try await edit(&a, "plain", on: base, nil).verdict == .conflict)
            let item = try await hub.hub.ledger.read { try $0.item(Self.item, in: volume) }
            #expect(item?.current?.content == a.id(of: bytes("new")))
            let conflicts = item?.conflicts.map(\.content) ?? []
            #expect(Set(conflicts) == [a.id(of: bytes("late")), a.id(of: bytes("plain"))])
            // A resolution without contents does not choose a version instead of the holder.
            let current = try #require(item?.current?.id)
            func settle(_ device: inout TestDevice) async throws -> Identifier? {
                try await device.commit([device.entry(Self.item, .resolve([current], nil))])
                return try await hub.hub.ledger.read {
                    try $0.item(Self.item, in: volume)?.current?.id
                }
            }
            #expect(try await settle(&a) == current)
            #expect(try await settle(&b) != current)
        }
    }
}
