import Hub
import HubProtocol
import Model
import Reconcile
import Support
import Testing

/// What counts against an account's quota.
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
            // The check calculates the real usage.
            #expect(try await administration.check().faults.count == 1)
            #expect(try await administration.check().faults == [])
            let used = try #require(try await administration.accounts().first).used
            #expect(used < 1000)
            try ledger.close()
        }
    }

    /// The sizes that a device claims do not count; otherwise it could claim empty documents.
    @Test func whatIsKeptCountsAndNotWhatIsSaid() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device(quota: 100_000)
            let administration = try hub.administration()
            func used() async throws -> UInt64? { try await administration.accounts().first?.used }
            let contents = (0..<4).map { [UInt8](repeating: UInt8($0), count: 40_000) }
            try await device.upload(contents)
            #expect(try await used() == 0)
            let codes = try await device.commit(
                contents.map { device.creation("\($0[0])", $0) }
            ).results.map { $0.refusal?.code }
            #expect(codes == [nil, nil, .quota, .quota])
            // The usage includes for each version a manifest, a chunk id and its state, and for
            // each item its state.
            let lists = UInt64(TestDevice.manifest(of: contents[0]).count + PackedIDs.idBytes)
            let first = try #require(try await used())
            #expect(first > 80_000 + 2 * lists && first < 82_000)
            // Equal contents cost only a manifest, a list and states.
            #expect(try await device.save("again", contents[0]).verdict == .applied)
            let second = try #require(try await used())
            #expect(second > first + lists && second < first + 1000)
            // Lists of chunks and manifests count like chunks.
            let names = (100..<250).map { bytes("\($0)") + [UInt8](repeating: 1, count: 200) }
            let package = Creation(
                kind: .package, placement: device.placement("list"),
                revision: device.revision(of: [])
            )
            var list = device.entry(.random(), .create(package))
            list.content = RevisionContent(
                manifest: Manifest(entries: names.map { .init(path: $0, kind: .directory) })
                    .encoded,
                chunks: [])
            let refused = try await device.commit([list]).results[0].refusal?.code
            #expect(refused == .quota)
            #expect(try await administration.check().faults == [])
        }
    }

    @Test func statesCount() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device(quota: 100_000)
            let administration = try hub.administration()
            let directories = (0..<1000).map { device.directory("directory \($0)") }
            let results = try await device.commit(directories).results
            let made = results.prefix { $0.verdict == .applied }.count
            #expect(made > 100 && made < 900)
            #expect(results.dropFirst(made).allSatisfy { $0.refusal?.code == .quota })
            #expect(try await administration.check().faults == [])
            // What frees bytes or protects documents is still taken.
            let first = directories[0].item
            let changes: [Change] = [
                .attribute("mode", [1, 0o300]), .attribute("x:user.a", nil),
                .move(device.placement("moved"), base: .unknown), .delete(current: nil), .restore,
            ]
            for change in changes {
                #expect(try await device.commit([device.entry(first, change)]).results[0].isDone)
            }
            let value = [UInt8](repeating: 7, count: 1000)
            let attribute = device.entry(first, .attribute("x:user.b", value))
            #expect(try await device.commit([attribute]).results[0].refusal?.code == .quota)
            #expect(try await administration.check().faults == [])
        }
    }

    /// An older hub did not count the states.
    @Test func theUsageOfAnOlderLedgerIsCountedAgain() async throws {
        let hub = try await RunningHub()
        var device = try await hub.device()
        try await device.save("a", bytes("12345"))
        let used = try #require(try await hub.administration().accounts().first)
        try await hub.stop()
        let ledger = try ledger(of: hub)
        try await ledger.write {
            try $0.setUsed(of: used.id, 5)
            try $0.setFact("counts-kept", 1)
        }
        try ledger.close()
        let again = try await RunningHub(in: hub.scratch, data: hub.directory.path)
        #expect(try await again.administration().accounts().first?.used == used.used)
        #expect(try await again.administration().check().faults == [])
        try await again.stop()
    }

    @Test func whatNoVersionNamesIsBoundedToo() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device(quota: 1000)
            var (taken, last) = (0, Failure?.none)
            for number in 0..<12 {
                let frames = [UInt8](repeating: UInt8(number), count: 1 << 20)
                do {
                    try await device.upload([frames])
                    taken += 1
                } catch let failure as Failure { last = failure }
            }
            #expect(last?.code == .quota && last?.status == 507)
            #expect(taken <= 8 && taken > 0)
            // A collection frees the quota.
            hub.advance(seconds: 3 * 86_400)
            _ = try await hub.hub.collect(grace: 0)
            hub.advance(seconds: 1)
            _ = try await hub.hub.collect(grace: 0)
            #expect(try await device.save("a", bytes("a")).verdict == .applied)
        }
    }

    @Test func sizesThatDoNotFitTogetherAreNoOverflow() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.save("a", bytes("a"))
            try await device.save("b", bytes("b"))
            let ledger = try ledger(of: hub)
            try await ledger.write {
                _ = try $0.execute("UPDATE revisions SET size = $1", [.integer(.max)])
            }
            let administration = try hub.administration()
            // The sizes that documents claim do not count.
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
