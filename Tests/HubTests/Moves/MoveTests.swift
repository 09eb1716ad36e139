import Foundation
import HubPostgres
import HubProtocol
import Model
import Support
import Synchronization
import Testing

@testable import Hub

@Suite(
    "Moving a hub", .enabled(if: MovedHub.obstacle == nil, "\(MovedHub.obstacle ?? "")"))
struct MoveTests {
    @Test("a hub moves into PostgreSQL and S3 and back, and devices go on")
    func thereAndBack() async throws {
        let site = try MovedHub()
        var hub = try await site.serveEmbedded()
        var devices = try await SavingDevices(at: hub)
        let item = try #require(try await devices.a.aliveItems()["report"])
        let link = try await devices.a.link(item.id, password: "correct horse").address
        let remote = try site.remote()
        try await hub.stop()

        let report = try await site.move(from: site.embedded, to: remote).run()
        #expect(report.packs == 3 && report.rows > 50)
        try await site.expectEqual(site.embedded, remote)
        #expect(try await site.expectSound(site.embedded) == devices.contents.count)
        try await site.expectSound(remote)
        let refusal = await #expect(throws: VolumeError.self) { try await site.serveEmbedded() }
        #expect(refusal?.message.contains("was moved to \(remote.place)") == true)
        // Said once more, it has nothing to do.
        #expect(try await site.move(from: site.embedded, to: remote).run().rows == 0)

        hub = try await site.serveRemote()
        devices.move(to: hub)
        try await devices.expectToGoOn()
        var visitor = Surfer(hub.url)
        #expect(try await visitor.get(link).prose.contains("Password"))
        let other = try site.remote(site.scratch.path + "/other")
        _ = try other.make()
        // This one runs, and ends by itself.
        _ = try await site.move(from: other, to: site.returned).run()
        let departure = try await hub.departure()
        #expect(departure.message.contains("was moved to \(site.returned.place)"))
        try await site.expectEqual(remote, site.returned)
        try await site.expectSound(remote)
        try await site.expectSound(site.returned)
        await #expect(throws: VolumeError.self) { try await site.serveRemote() }
        hub = try await site.serveReturned()
        devices.move(to: hub)
        try await devices.expectToGoOn()
        visitor = Surfer(hub.url)
        #expect(try await visitor.get(link).prose.contains("Password"))
        try await hub.stop()
        try await site.expectSound(site.returned)
    }

    @Test("while a move has not ended, the hub goes on, and no collection removes packs")
    func whileServing() async throws {
        let site = try MovedHub()
        var hub = try await site.serveEmbedded()
        var devices = try await SavingDevices(at: hub)
        let remote = try site.remote()
        let database = PostgresSource(try PostgresAddress(site.database))
        for round in 0..<2 {
            let life = Lifetime(steps: 6)
            let mortal = DataDirectory(
                site.data, ledger: MortalSource(base: database, life: life),
                blobs: remote.blobSource)
            await #expect(throws: VolumeError.self) {
                try await site.move(from: site.embedded, to: mortal).run()
            }
            #expect(life.isOver)
            try await devices.save("meanwhile \(round)")
            _ = try await hub.hub.collect(grace: 0)
        }
        #expect(try await hub.hub.blobs.packs().count == 3)
        // The collections have removed it.
        devices.contents.removeAll { $0 == bytes("no version has this") }
        await #expect(throws: VolumeError.self) { try await site.serveRemote() }
        devices.page = try await devices.b.changes()
        _ = try await site.move(from: site.embedded, to: remote).run()
        _ = try await hub.departure()
        try await site.expectEqual(site.embedded, remote)
        hub = try await site.serveRemote()
        devices.move(to: hub)
        try await devices.expectToGoOn()
        try await hub.stop()
    }

    @Test("a move that ends after any transaction is finished later, and a hub may run in between")
    func interrupted() async throws {
        let site = try MovedHub()
        var hub = try await site.serveEmbedded()
        var devices = try await SavingDevices(at: hub)
        let database = PostgresSource(try PostgresAddress(site.database))
        // The hub serves while it moves there, and is stopped while it moves back.
        for (isBack, target) in [(false, try site.remote()), (true, site.returned)] {
            let source = isBack ? try site.remote() : site.embedded
            var steps = 0
            while true {
                let life = Lifetime(steps: steps)
                let mortal = DataDirectory(
                    site.data, ledger: MortalSource(base: database, life: life),
                    blobs: try site.remote().blobSource)
                let move =
                    isBack
                    ? site.move(from: mortal, to: target) : site.move(from: source, to: mortal)
                do {
                    _ = try await move.run()
                    break
                } catch {
                    guard life.isOver else { throw error }
                }
                let isHere = try await site.objection(of: source) == nil
                if steps > 1 {
                    // The target's ledger has its tables by now.
                    let isThere = try await site.objection(of: target) == nil
                    #expect(!isHere || !isThere, "the hub is at two places after \(steps) steps")
                }
                if isHere, steps.isMultiple(of: 8) {
                    if isBack { hub = try await site.serveRemote() }
                    devices.move(to: hub)
                    try await devices.save("between \(isBack) \(steps)")
                    if isBack { try await hub.stop() }
                }
                steps += 1
            }
            #expect(steps > (isBack ? 10 : 20))
            if !isBack { _ = try await hub.departure() }
            try await site.expectEqual(source, target)
            try await site.expectSound(target)
        }
        hub = try await site.serveReturned()
        devices.move(to: hub)
        devices.page = try await devices.b.changes()
        try await devices.expectToGoOn()
        try await hub.stop()
    }

    @Test("a backup of a hub on PostgreSQL and S3 is a hub in a directory, which moves back there")
    func backup() async throws {
        let site = try MovedHub()
        var hub = try await site.serveRemote()
        var devices = try await SavingDevices(at: hub)
        let administration = try hub.administration()
        let report = try await administration.backup(to: site.returned.path)
        #expect(report.packs >= 3)
        try administration.close()
        // The copy is of one moment, and the hub goes on.
        try await devices.save("later")
        #expect(try await site.expectSound(site.returned) == devices.contents.count - 1)
        try await hub.stop()
        let again = try MovedHub()
        let target = try again.remote()
        _ = try await again.move(from: site.returned, to: target).run()
        try await again.expectEqual(site.returned, target)
        try await again.expectSound(target)
        hub = try await again.serveRemote()
        devices.move(to: hub)
        let renewed = try await failure { [devices] in try await devices.b.changes() }
        #expect(renewed.code == .volumeEpoch)
        devices.b.volume.epoch = try #require(renewed.epoch)
        #expect(try await devices.b.changes().changes == devices.page.changes)
        let kept = devices.contents.dropLast()
        let frames = try await devices.a.read(kept.map { [devices] in devices.a.id(of: $0) })
        #expect(frames.map(\.bytes) == Array(kept))
        try await hub.stop()
    }

    @Test("a target that is not empty, and a second move, are refused")
    func refusals() async throws {
        let site = try MovedHub()
        let hub = try await site.serveEmbedded()
        _ = try await SavingDevices(at: hub)
        try await hub.stop()
        let used = try await RunningHub(in: site.scratch, data: site.returned.path)
        try await used.stop()
        let full = await #expect(throws: VolumeError.self) {
            try await site.move(from: site.embedded, to: site.returned).run()
        }
        #expect(full?.message.contains("is not empty") == true)
        #expect(try await site.objection(of: site.embedded) == nil)
        _ = try await site.move(from: site.embedded, to: try site.remote()).run()
        let second = await #expect(throws: VolumeError.self) {
            let third = DataDirectory(site.scratch.path + "/third")
            return try await site.move(from: site.embedded, to: third).run()
        }
        #expect(second?.message.contains("has begun") == true)
    }

    @Test("a move that is undone leaves an older state of the hub, which devices complete")
    func undone() async throws {
        let site = try MovedHub()
        var hub = try await site.serveEmbedded()
        var devices = try await SavingDevices(at: hub)
        try await hub.stop()
        let none = await #expect(throws: VolumeError.self) {
            try await HubMove.undo(in: site.embedded)
        }
        #expect(none?.code == .notFound)
        _ = try await site.move(from: site.embedded, to: try site.remote()).run()
        #expect(try await HubMove.undo(in: site.embedded).state == .left)
        hub = try await site.serveEmbedded()
        devices.move(to: hub)
        let renewed = try await failure { [devices] in try await devices.b.changes() }
        #expect(renewed.code == .volumeEpoch)
        try await hub.stop()
    }
}

/// How many more steps a process does before it is killed.
final class Lifetime: Sendable {
    private let left: Mutex<Int>

    init(steps: Int) { left = Mutex(steps) }

    var isOver: Bool { left.withLock { $0 < 0 } }

    func step() throws {
        let isOver = left.withLock { left in
            left -= left < 0 ? 0 : 1
            return left < 0
        }
        if isOver { throw VolumeError(.offline, "The process was killed.") }
    }

    func check() throws { if isOver { throw VolumeError(.offline, "The process was killed.") } }
}

/// The ledger of a process that is killed before or after one of its write transactions.
struct MortalLedger: LedgerWrapper {
    let base: any Ledger
    let life: Lifetime

    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LedgerTransaction) throws -> Result
    ) async throws -> Result {
        try life.check()
        return try await base.read(body)
    }

    func write<Result: Sendable>(
        _ scope: WriteScope, _ body: @escaping @Sendable (any LedgerTransaction) throws -> Result
    ) async throws -> Result {
        try life.step()
        let result = try await base.write(scope, body)
        try life.step()
        return result
    }
}

struct MortalSource: LedgerSource {
    let base: any LedgerSource
    let life: Lifetime

    var name: String { base.name }

    func exists() throws(VolumeError) -> Bool { try base.exists() }

    func open(mayCreate: Bool) throws(VolumeError) -> any Ledger {
        MortalLedger(base: try base.open(mayCreate: mayCreate), life: life)
    }
}
