import Hub
import HubProtocol
import Model
import Support
import Testing

/// What an account is charged for, and what that lets it do.
struct QuotaTests {
    private func ledger(of hub: RunningHub) throws -> SQLiteLedger {
        try SQLiteLedger(path: hub.directory.path + "/ledger.sqlite", mayCreate: false)
    }

    @Test func aSumThatDoesNotFitRefusesNothing() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let ledger = try ledger(of: hub)
            let id = try #require(try await hub.administration().accounts().first).id
            try await ledger.write { try $0.setUsed(of: id, UInt64(Int64.max) - 2) }
            #expect(try await device.save("a", bytes("12345")).verdict == .applied)
            #expect(try await device.save("b", bytes("6")).verdict == .applied)
            let administration = try hub.administration()
            #expect(try await administration.accounts().first?.used == UInt64(Int64.max))
            // Counted anew, it is what is there.
            #expect(try await administration.check().faults.count == 1)
            #expect(try await administration.check().faults == [])
            let used = try #require(try await administration.accounts().first).used
            #expect(used < 1000)
            try ledger.close()
        }
    }

    @Test func sizesThatDoNotFitTogetherAreAFaultAndNoOverflow() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.save("a", bytes("a"))
            try await device.save("b", bytes("b"))
            let ledger = try ledger(of: hub)
            try await ledger.write {
                _ = try $0.execute("UPDATE revisions SET size = $1", [.integer(.max)])
            }
            let administration = try hub.administration()
            #expect(try await administration.check().faults.count == 1)
            #expect(try await administration.check().faults == [])
            #expect(try await device.save("c", bytes("c")).verdict == .applied)
            try ledger.close()
        }
    }

    @Test func aSizeThatNoDocumentHasIsRefusedAlone() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.upload([bytes("x")])
            for size in [UInt64(Int64.max), HubLimits.documentBytes + 1] {
                var entry = device.creation("huge", bytes("x"))
                if case .create(var creation) = entry.change {
                    creation.revision?.size = size
                    entry.change = .create(creation)
                }
                let answer = try await device.commit([entry])
                #expect(answer.results.map { $0.refusal?.code } == [.malformed])
            }
            #expect(try await device.save("small", bytes("y")).verdict == .applied)
            #expect(try await hub.administration().check().faults == [])
        }
    }
}
