import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub

/// Single operations that cause very much work are done in several transactions.
struct LargeOperationTests {
    /// Creates directories, each in the one that `parent` returns for its number.
    private func fill(
        _ ids: [Identifier], _ device: inout TestDevice, in parent: (Int) -> Identifier
    ) async throws {
        for start in stride(from: 0, to: ids.count, by: 500) {
            var entries: [OperationEntry] = []
            for index in start..<min(start + 500, ids.count) {
                let place = device.placement("\(index)", in: parent(index))
                entries.append(
                    device.entry(
                        ids[index], .create(Creation(kind: .directory, placement: place))))
            }
            try await device.commit(entries)
        }
    }

    /// The states of all items by their ids.
    private func states(_ device: TestDevice, after: UInt64 = 0) async throws
        -> [Identifier: ItemState]
    {
        var (states, after) = ([Identifier: ItemState](), after)
        while true {
            let page = try await device.changes(after: after, query: "&trashedAfter=0")
            for case .item(let item) in page.changes { states[item.id] = item }
            after = page.next
            if after == page.head { return states }
        }
    }

    private func deletion(
        _ id: Identifier, base: UInt64, _ device: inout TestDevice
    ) -> OperationEntry {
        var entry = device.entry(id, .delete(current: nil))
        entry.base = base
        return entry
    }

    /// 3,000 directories: a hundred with 29 in each.
    private func tree(_ device: inout TestDevice) async throws -> (top: Identifier, [Identifier]) {
        let top = device.directory("top")
        try await device.commit([top])
        let ids = (0..<3000).map { _ in Identifier.random() }
        try await fill(ids, &device) { $0 < 100 ? top.item : ids[$0 % 100] }
        return (top.item, ids)
    }

    @Test func aLargeDirectoryIsDeletedInSteps() async throws {
        try await RunningHub.with { hub in
            var (device, other) = (try await hub.device(), try await hub.device())
            let (top, ids) = try await tree(&device)
            let head = try await other.changes().head
            let before = hub.hub.metrics.transactions.count
            let entries = [deletion(top, base: head, &other), other.directory("after")]
            let answer = try await other.commit(entries)
            #expect(answer.results.map(\.verdict) == [.applied, .applied])
            #expect(hub.hub.metrics.transactions.count - before > 1)
            // No page has all of it.
            let page = try await device.changes(after: head)
            #expect(page.next < page.head)
            let now = try await states(device)
            for id in ids + [top] {
                guard case .trashed(let batch, _) = now[id]?.life else {
                    Issue.record("\(id) is alive")
                    continue
                }
                #expect(batch.device == other.id && batch.number == entries[0].number)
            }
            // Sending it again does nothing.
            #expect(try await other.commit(entries).results == answer.results)
            #expect(try await hub.administration().check().faults == [])
        }
    }

    @Test func whatTheDeviceHasNotSeenStays() async throws {
        try await RunningHub.with { hub in
            var (device, other) = (try await hub.device(), try await hub.device())
            let (top, ids) = try await tree(&device)
            let head = try await other.changes().head
            // It is deep in the directory, and nobody but its device knows it.
            let new = (0..<2).map { _ in Identifier.random() }
            try await fill(new, &device) { $0 == 0 ? ids[7] : new[0] }
            let seen = try await device.changes().head
            let result = try await other.commit([deletion(top, base: head, &other)]).results[0]
            #expect(result.verdict == .overruled(.partly))
            let now = try await states(device)
            let alive = Set(now.filter { $0.value.life.isAlive }.keys)
            #expect(alive == Set([top, ids[7]] + new))
            // The device receives again all that has stayed.
            let told = try await states(other, after: seen)
            #expect(alive.isSubset(of: told.keys))
            #expect(try await hub.administration().check().faults == [])
        }
    }

    /// The device that deletes knows nothing of the directory.
    @Test func aDirectoryThatNobodyHasSeenIsSentAgainInSteps() async throws {
        try await RunningHub.with { hub in
            var (device, other) = (try await hub.device(), try await hub.device())
            let (top, ids) = try await tree(&device)
            let head = try await other.changes().head
            let before = hub.hub.metrics.transactions.count
            let result = try await other.commit([deletion(top, base: 0, &other)]).results[0]
            #expect(result.verdict == .overruled(.unseenChange))
            #expect(hub.hub.metrics.transactions.count - before > 1)
            let told = try await states(other, after: head)
            #expect(Set(told.keys) == Set(ids + [top]))
            #expect(told.values.allSatisfy { $0.life.isAlive })
        }
    }

    /// Other devices write between the steps of a deletion.
    @Test func whatComesMeanwhileStays() async throws {
        try await RunningHub.with { hub in
            var (device, other) = (try await hub.device(), try await hub.device())
            let (top, ids) = try await tree(&device)
            let head = try await other.changes().head
            let deletion = deletion(top, base: head, &other)
            async let answer = { [other] in try await other.commit([deletion]) }()
            var made: Set<Identifier> = []
            for number in 0..<20 {
                let new = device.entry(
                    .random(),
                    .create(
                        Creation(
                            kind: .directory,
                            placement: device.placement("new \(number)", in: ids[number * 150]))))
                if try await device.commit([new]).results[0].isDone { made.insert(new.item) }
            }
            let verdict = try await answer.results[0].verdict
            let now = try await states(device)
            #expect(made.count == 20 && made.allSatisfy { now[$0]?.life.isAlive == true })
            if now[top]?.life.isAlive == false { #expect(verdict == .applied) }
            #expect(try await hub.administration().check().faults == [])
        }
    }

    @Test func aLargeDirectoryIsRestoredInSteps() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let (top, ids) = try await tree(&device)
            // It was deleted before, so it stays in the trash.
            try await device.commit([deletion(ids[2999], base: 0, &device)])
            let all = (0..<1000).map { _ in Identifier.random() }
            try await fill(all, &device) { _ in ids[2998] }
            try await device.commit([deletion(top, base: device.changes().head, &device)])
            let before = try await device.changes().head
            try await device.commit([device.entry(top, .restore)])
            try await untilRestored(hub)
            let now = try await states(device)
            let dead = Set(now.filter { !$0.value.life.isAlive }.keys)
            #expect(dead == [ids[2999]])
            #expect(now.count == 1 + ids.count + all.count)
            // In several transactions.
            #expect(try await device.changes().head - before > 3)
            #expect(now.values.allSatisfy { !$0.isBounced })
            #expect(try await hub.administration().check().faults == [])
        }
    }

    /// It is deleted again before all of it is back.
    @Test func aRestoreEndsWithItsDirectory() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let (top, _) = try await tree(&device)
            try await device.commit([deletion(top, base: device.changes().head, &device)])
            let base = try await device.changes().head
            let entries = [device.entry(top, .restore), deletion(top, base: base, &device)]
            let results = try await device.commit(entries).results
            #expect(results.allSatisfy { $0.isDone })
            try await untilRestored(hub)
            #expect(try await hub.administration().check().faults == [])
        }
    }

    private func untilRestored(_ hub: RunningHub) async throws {
        try await hub.until {
            let left = try await hub.hub.ledger.read {
                try $0.row("SELECT count(*) FROM revivals", [])?.integer(0)
            }
            return left == 0
        }
    }

    private static func smallSteps() -> CallerLimits {
        var limits = CallerLimits()
        limits.steps.revived = 3
        return limits
    }

    /// When it is its turn, it is alive because of one item in it. The others must come back, too.
    @Test func aDirectoryThatIsBackAlreadyIsRestored() async throws {
        try await RunningHub.with(limits: Self.smallSteps()) { hub in
            var device = try await hub.device()
            let top = device.directory("top")
            try await device.commit([top])
            let ids = (0..<6).map { _ in Identifier.random() }
            try await fill(ids, &device) { $0 < 4 ? top.item : ids[0] }
            let head = try await device.changes().head
            try await device.commit([deletion(top.item, base: head, &device)])
            // In one transaction: before anything is restored in steps.
            try await device.commit([
                device.entry(top.item, .restore), device.entry(ids[4], .restore),
            ])
            try await untilRestored(hub)
            let now = try await states(device)
            #expect(now.count == 7 && now.values.allSatisfy { $0.life.isAlive })
            #expect(try await hub.administration().check().faults == [])
        }
    }

    /// A directory was deleted before the one that it is in, and both are restored at once.
    @Test func twoDeletionsAreRestoredInOneDirectory() async throws {
        try await RunningHub.with(limits: Self.smallSteps()) { hub in
            var device = try await hub.device()
            // The outer directory is the first one that is restored in steps.
            let (top, inner) = (Identifier(high: 1, low: 1), Identifier(high: 2, low: 1))
            try await device.commit([device.directory("top", id: top)])
            let ids = [inner] + (0..<7).map { _ in Identifier.random() }
            try await fill(ids, &device) { $0 < 4 ? top : inner }
            let head = try await device.changes().head
            for id in [inner, top] { try await device.commit([deletion(id, base: head, &device)]) }
            try await device.commit([
                device.entry(top, .restore), device.entry(inner, .restore),
            ])
            try await untilRestored(hub)
            let now = try await states(device)
            #expect(now.count == 9 && now.values.allSatisfy { $0.life.isAlive })
            #expect(try await hub.administration().check().faults == [])
        }
    }

    // MARK: Repeated requests

    /// Runs one transaction of a commit. Returns whether it is done.
    private func step(_ commit: inout Commit, _ hub: RunningHub) async throws -> Bool {
        let step = try await hub.hub.ledger.write { [commit] transaction in
            var progress = CommitProgress()
            return try commit.run(in: transaction, &progress)
        }
        return commit.isDone(by: step)
    }

    /// The device had no answer to its first request, and sends the first deletion again while the
    /// hub is within it.
    @Test func aRepeatedDeletionDoesNotStandForTheNextOne() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let tops = [device.directory("a"), device.directory("b")]
            try await device.commit(tops)
            let ids = (0..<40).map { _ in Identifier.random() }
            try await fill(ids, &device) { tops[$0 % 2].item }
            let head = try await device.changes().head
            let entries = tops.map { deletion($0.item, base: head, &device) }
            let account = try await hub.hub.ledger.read { [device] in
                try $0.volume(device.volume.id)?.account
            }
            let caller = Caller(
                device: device.id, account: try #require(account), user: "anna",
                epoch: device.epoch, seen: 0)
            func commit(_ entries: [OperationEntry]) -> Commit {
                var commit = Commit(
                    request: device.request(entries), objections: [:], caller: caller,
                    volume: device.volume.id, folder: nil, received: 1, clock: { 1 })
                (commit.steps.work, commit.steps.deleted) = (60, 3)
                return commit
            }
            var (first, again) = (commit(entries), commit([entries[0]]))
            #expect(try await !step(&first, hub) && first.walk != nil)
            while try await !step(&again, hub) {}
            while try await !step(&first, hub) {}
            let alive = try await states(device).values.filter(\.life.isAlive)
            #expect(alive.map(\.placement.name) == [])
            #expect(try await hub.administration().check().faults == [])
        }
    }

    // MARK: Contents

    /// A version with very many chunks, most of which have one byte.
    private func manyChunks(_ count: Int, _ device: TestDevice) async throws
        -> (Revision, RevisionContent)
    {
        let pieces = (0..<count).map { bytes("\($0)") }
        for start in stride(from: 0, to: count, by: 1000) {
            try await device.upload(Array(pieces[start..<min(start + 1000, count)]))
        }
        let manifest = Manifest(
            chunks: pieces.map { ChunkReference(id: .sha256($0), length: UInt32($0.count)) })
        var revision = device.revision(of: bytes("x"))
        revision.size = UInt64(pieces.reduce(0) { $0 + $1.count })
        return (
            revision,
            RevisionContent(manifest: manifest.encoded, chunks: pieces.map { device.id(of: $0) })
        )
    }

    private func creation(
        _ name: String, _ revision: Revision, _ content: RevisionContent,
        _ device: inout TestDevice
    ) -> OperationEntry {
        let creation = Creation(
            kind: .file, placement: device.placement(name), revision: revision)
        var entry = device.entry(.random(), .create(creation))
        entry.content = content
        return entry
    }

    private func looseUses(_ hub: RunningHub) async throws -> Int64 {
        try await hub.hub.ledger.read {
            try $0.row("SELECT count(*) FROM loose_uses", [])?.integer(0) ?? 0
        }
    }

    @Test func aVersionOfManyChunksIsStoredInSteps() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let (revision, content) = try await manyChunks(3500, device)
            let entry = creation("large", revision, content, &device)
            #expect(try await device.commit([entry]).results[0].verdict == .applied)
            #expect(try await looseUses(hub) == 0)
            #expect(try await hub.administration().check().faults == [])
            // Other versions use the same chunks.
            let edit = device.entry(
                entry.item, .edit(device.revision(of: bytes("1"), parents: [revision.id])),
                bytes: bytes("1"))
            #expect(try await device.commit([edit]).results[0].isDone)
            #expect(try await hub.administration().check().faults == [])
        }
    }

    /// Nothing stays in use of a version that was not recorded.
    @Test func aRefusedVersionLeavesNothing() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let (revision, content) = try await manyChunks(2500, device)
            let used = try await hub.administration().accounts().first?.used
            // No document has this id.
            var edit = device.entry(.random(), .edit(revision))
            edit.content = content
            let verdict = try await device.commit([edit]).results[0].verdict
            #expect(verdict == .overruled(.unknownItem))
            try await hub.until { try await looseUses(hub) == 0 }
            #expect(try await hub.administration().accounts().first?.used == used)
            #expect(try await hub.administration().check().faults == [])
        }
    }

    /// The hub was stopped between the steps, and the device never comes back.
    @Test func usesWithoutAVersionEnd() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let (revision, content) = try await manyChunks(1500, device)
            let (volume, until) = (device.volume.id, hub.hub.clock() + 1_000_000_000)
            try await hub.hub.ledger.write { transaction in
                let parts = VersionTable.parts(of: content.chunks.ids)
                for (part, slice) in parts.enumerated() {
                    let missing = try transaction.versions(in: volume).use(
                        slice, of: revision.id, part: part, until: until)
                    #expect(missing == nil)
                }
            }
            #expect(try await looseUses(hub) == 2)
            #expect(try await hub.administration().check().faults == [])
            hub.advance(seconds: 2)
            try await hub.until { try await looseUses(hub) == 0 }
            #expect(try await hub.administration().check().faults == [])
        }
    }

    // MARK: Large states

    /// Each change of a small attribute writes the whole state.
    @Test func largeStatesAreMuchWork() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let value = [UInt8](repeating: 7, count: HubLimits.attributeBytes)
            let creation = Creation(
                kind: .directory, placement: device.placement("large"),
                attributes: Dictionary(
                    uniqueKeysWithValues: (0..<15).map { ("x:user.\($0)", value) }))
            let item = Identifier.random()
            try await device.commit([device.entry(item, .create(creation))])
            let before = hub.hub.metrics.transactions.count
            let changes = (0..<100).map { number in
                device.entry(item, .attribute("mode", [1, UInt8(number)]))
            }
            let results = try await device.commit(changes).results
            #expect(results.allSatisfy { $0.isDone })
            #expect(hub.hub.metrics.transactions.count - before >= 8)
        }
    }
}
