import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub

/// A document at the hub has a bounded number of versions.
struct VersionLimitTests {
    private func limits(most: Int, newest: Int) -> CallerLimits {
        var limits = CallerLimits()
        limits.versions.most = most
        limits.versions.newest = newest
        return limits
    }

    /// Saves the document again and again, each time as the successor of the version before.
    private func save(
        _ count: Int, of item: Identifier, after last: inout Identifier,
        from device: inout TestDevice
    ) async throws {
        for start in stride(from: 0, to: count, by: 100) {
            var entries: [OperationEntry] = []
            for _ in start..<min(start + 100, count) {
                let revision = device.revision(of: bytes("x"), parents: [last])
                last = revision.id
                entries.append(device.entry(item, .edit(revision), bytes: bytes("x")))
            }
            try await device.commit(entries)
        }
    }

    private func arrivals(_ hub: RunningHub, _ item: Identifier, _ device: TestDevice)
        async throws -> [VersionTable.Arrival]
    {
        try await hub.hub.ledger.read { [volume = device.volume.id] in
            try $0.versions(in: volume).arrivals(of: item)
        }
    }

    private func document(of device: inout TestDevice) async throws
        -> (item: Identifier, last: Identifier)
    {
        try await device.upload([bytes("x")])
        let creation = device.creation("a", bytes("x"))
        try await device.commit([creation])
        return (creation.item, try #require(creation.change.revision?.id))
    }

    @Test func whoSavesWithoutEndIsThinned() async throws {
        try await RunningHub.with(limits: limits(most: 200, newest: 50)) { hub in
            var device = try await hub.device()
            var (item, last) = try await document(of: &device)
            // An old version of each hour of a day.
            for _ in 0..<24 {
                hub.advance(seconds: 3600)
                try await save(1, of: item, after: &last, from: &device)
            }
            let old = try await arrivals(hub, item, device).map(\.id)
            hub.advance(seconds: 3600)
            try await save(700, of: item, after: &last, from: &device)
            try await hub.until { [item, device] in
                try await arrivals(hub, item, device).count <= 200
            }
            let left = try await arrivals(hub, item, device)
            // The newest ones stay, and the flood does not push out those from before.
            #expect(left.first?.id == last && left.count >= 50 + 24)
            #expect(Set(old.dropLast()).isSubset(of: left.map(\.id)))
            #expect(try await hub.administration().check().faults == [])
            // The document goes on as before.
            try await save(1, of: item, after: &last, from: &device)
            let page = try await device.changes()
            guard case .item(let state) = page.changes.first else { return }
            #expect(state.current?.id == last && state.conflicts.isEmpty)
        }
    }

    /// A device that is faster than the hub waits, and loses nothing.
    @Test func whoIsTooFastWaits() async throws {
        try await RunningHub.with(limits: limits(most: 10, newest: 5)) { hub in
            var device = try await hub.device()
            let (item, last) = try await document(of: &device)
            var entries: [OperationEntry] = []
            var parent = last
            for _ in 0..<60 {
                let revision = device.revision(of: bytes("x"), parents: [parent])
                parent = revision.id
                entries.append(device.entry(item, .edit(revision), bytes: bytes("x")))
            }
            let refused = try await failure { [device, entries] in
                try await device.commit(entries)
            }
            #expect(refused.code == .busy && refused.message.contains("versions"))
            // The device sends the same operations again, in shorter commits.
            for start in stride(from: 0, to: entries.count, by: 20) {
                let part = Array(entries[start..<start + 20])
                try await hub.until { [device] in
                    do {
                        return try await device.commit(part).results.count == 20
                    } catch let failure as Failure where failure.code == .busy {
                        return false
                    }
                }
            }
            let page = try await device.changes()
            guard case .item(let state) = page.changes.first else { return }
            #expect(state.current?.id == parent && state.conflicts.isEmpty)
            #expect(try await hub.administration().check().faults == [])
        }
    }

    /// What is in conflict is no history, however old it is.
    @Test func versionsInConflictStay() async throws {
        try await RunningHub.with(limits: limits(most: 40, newest: 5)) { hub in
            var device = try await hub.device()
            var (item, last) = try await document(of: &device)
            var conflicts: [Identifier] = []
            for number in 0..<20 {
                var revision = device.revision(of: bytes("x"))
                revision.content = .sha256([UInt8(number)])
                conflicts.append(revision.id)
                try await device.commit([device.entry(item, .edit(revision), bytes: bytes("x"))])
            }
            try await save(60, of: item, after: &last, from: &device)
            try await hub.until { [item, device] in
                try await arrivals(hub, item, device).count < 50
            }
            let left = Set(try await arrivals(hub, item, device).map(\.id))
            #expect(Set(conflicts).isSubset(of: left))
            #expect(try await hub.administration().check().faults == [])
        }
    }

    /// The chunks of removed versions count to the quota no more, and are collected.
    @Test func removedVersionsFreeTheirBytes() async throws {
        try await RunningHub.with(limits: limits(most: 10, newest: 5)) { hub in
            var device = try await hub.device()
            var (item, last) = try await document(of: &device)
            let before = try #require(try await hub.administration().accounts().first).used
            for number in 0..<UInt8(20) {
                let contents = [UInt8](repeating: number, count: 10_000)
                try await device.upload([contents])
                let revision = device.revision(of: contents, parents: [last])
                last = revision.id
                try await device.commit([device.entry(item, .edit(revision), bytes: contents)])
            }
            try await hub.until { [item, device] in
                try await arrivals(hub, item, device).count <= 10
            }
            let used = try #require(try await hub.administration().accounts().first).used
            #expect(used < before + 12 * 10_600)
            #expect(try await hub.administration().check().faults == [])
            hub.advance(seconds: 3 * 86_400)
            let condemned = try await hub.hub.collect(grace: PeriodicMaintenance.grace).condemned
            #expect(condemned >= 10)
        }
    }

    /// Times that devices claim do not matter, and each week keeps a version for ever.
    @Test func theOldestVersionsBecomeFewer() {
        var limits = VersionLimits()
        (limits.most, limits.newest) = (100, 10)
        let hour = Timestamp.span(seconds: 3600)
        let now = 20_000 * 24 * hour
        // A version every ten minutes for three years.
        let all = (0..<3 * 365 * 144).map {
            VersionTable.Arrival(id: .random(), time: now - Int64($0) * hour / 6)
        }
        let left = all.count - limits.excess(of: all, at: now).count
        #expect((600...720).contains(left))
        #expect(limits.excess(of: Array(all.prefix(100)), at: now).isEmpty)
        #expect(limits.excess(of: Array(all.prefix(101)), at: now).count == 101 - 10 - 16)
    }
}

extension RunningHub {
    /// Waits until the condition holds.
    func until(_ isTrue: () async throws -> Bool) async throws {
        while try await !isTrue() { try await Task.sleep(for: .milliseconds(20)) }
    }
}
