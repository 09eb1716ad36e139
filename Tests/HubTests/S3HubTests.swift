import Foundation
import Hub
import HubProtocol
import HubS3
import Model
import Support
import Testing

@Suite("A hub on S3", .enabled(if: S3Server.obstacle == nil, "\(S3Server.obstacle ?? "")"))
struct S3HubTests {
    /// Chunks that become an object at once, because they are many bytes together.
    private func chunks(seed: UInt64) -> [[UInt8]] {
        var random = SeededRandom(seed: seed)
        return (0..<9).map { _ in
            var bytes: [UInt8] = []
            while bytes.count < 500_000 { withUnsafeBytes(of: random.next()) { bytes += $0 } }
            return bytes
        }
    }

    /// Runs `body` with a relay in front of the server and the URL of a place of its own.
    private func withRelay(_ body: (S3Relay, String) async throws -> Void) async throws {
        let server = try S3Server.shared.get()
        let relay = try S3Relay(to: server.port)
        defer { relay.close() }
        let place = try server.url("hubs", UUID().uuidString, endpoint: relay.endpoint)
        try await body(relay, place)
    }

    private func withHub(_ body: (RunningHub, S3Relay) async throws -> Void) async throws {
        try await withRelay { relay, place in
            let hub = try await RunningHub(bucket: place)
            do { try await body(hub, relay) } catch {
                relay.damage(nil)
                try? await hub.stop()
                throw error
            }
            try await hub.stop()
        }
    }

    private func expectBusy(
        _ reply: Wire.Reply, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(reply.status == 503, sourceLocation: sourceLocation)
        #expect(reply.failure?.code == .busy, sourceLocation: sourceLocation)
        #expect(reply.values(of: "Retry-After") == ["2"], sourceLocation: sourceLocation)
    }

    private func expectReadable(_ chunks: [[UInt8]], by device: TestDevice) async throws {
        let frames = try await device.read(chunks.map { device.id(of: $0) })
        #expect(frames.map(\.codec) == chunks.map { _ in .plain })
        #expect(frames.map(\.bytes) == chunks)
    }

    private func expectSound(_ directory: DataDirectory, chunks: Int) async throws {
        let administration = try Administration(directory)
        let report = try await administration.check()
        #expect(report.faults == [])
        #expect(report.chunks == chunks)
        try administration.close()
    }

    @Test("a hub that loses its bucket acknowledges only what it keeps, and goes on by itself")
    func outage() async throws {
        try await withHub { hub, relay in
            var device = try await hub.device()
            let (kept, refused) = (chunks(seed: 1), chunks(seed: 2))
            try await device.upload(kept)
            relay.damage { _ in .answer(503, "SlowDown") }
            let read = PackedIDs([device.id(of: kept[0])]).bytes
            expectBusy(try await Wire.send(device.path(.read), read, token: device.token))
            let body = refused.flatMap { device.frame($0).encoded }
            expectBusy(try await Wire.send(device.path(.chunks), body, token: device.token))
            expectBusy(
                try await Wire.send(hub.url + Routes.health, method: "GET", nil, token: nil))
            #expect(
                try await device.have(refused.map { device.id(of: $0) }).present
                    == refused.map { _ in false })
            // Small chunks are kept in the ledger.
            let small = bytes("small")
            try await device.save("a", small)
            try await expectReadable([small], by: device)
            let administration = try hub.administration()
            await #expect(throws: VolumeError.self) { try await administration.check() }
            try administration.close()
            relay.damage(nil)
            try await healthy(hub.url)
            try await device.upload(refused)
            try await expectReadable(kept + refused + [small], by: device)
            try await expectSound(hub.directory, chunks: 19)
        }
    }

    /// Waits until the hub says that it is healthy.
    private func healthy(_ url: String) async throws {
        for _ in 0..<600 {
            let health = try await Wire.send(
                url + Routes.health, method: "GET", nil, token: nil)
            if health.status == 200 { return }
            try await Task.sleep(for: .milliseconds(100))
        }
        throw SupportError("the hub did not become healthy within a minute")
    }

    @Test("a hub that is killed after a put leaves an object that a collection removes")
    func killed() async throws {
        try await withRelay { relay, place in
            let scratch = try TemporaryDirectory("hub")
            let hub = try HubProcess(data: scratch.path + "/data", ["--blobs", place])
            try hub.hub("user", "add", "anna", "--blobs", place).succeed()
            let invitation = try hub.hub("invite", "anna", "--blobs", place).succeed()
            let code = String(try #require(invitation.split(separator: "\n").last))
            let device = try await TestDevice(url: hub.url, code: code, volume: "Documents")
            let (kept, lost) = (chunks(seed: 1), chunks(seed: 2))
            try await device.upload(kept)
            relay.damageNext(.stallAnswer) { $0.method == "PUT" && $0.target.contains("/packs/") }
            let upload = Task { try await device.upload(lost) }
            try await until("the object was put") { relay.damaged == 1 }
            try hub.kill()
            await #expect(throws: (any Error).self) { try await upload.value }
            relay.damage(nil)
            let again = try HubProcess(data: scratch.path + "/data", ["--blobs", place])
            let moved = device.moved(to: again.url)
            #expect(
                try await moved.have(lost.map { device.id(of: $0) }).present
                    == lost.map { _ in false })
            // The collection leaves alone what was received within the grace period, but for the
            // object that nobody waits for.
            let deletions = { relay.requests.count { $0.method == "DELETE" } }
            #expect(deletions() == 0)
            let collected = try again.hub("gc", "--grace", "0", "--blobs", place).succeed()
            #expect(collected.contains("freed"))
            #expect(deletions() == 1)
            try await moved.upload(kept + lost)
            try await expectReadable(kept + lost, by: moved)
            #expect(
                try again.hub("check", "--blobs", place).succeed().contains("sound: 1 volumes"))
            #expect(try again.stop() == 0)
        }
    }

    private func until(_ what: String, _ isTrue: () -> Bool) async throws {
        for _ in 0..<6_000 {
            if isTrue() { return }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw SupportError("waited a minute until \(what)")
    }

    @Test(
        "a collection removes objects without chunks, and moves the rest out of mostly empty ones")
    func collection() async throws {
        try await withHub { hub, _ in
            var device = try await hub.device()
            let (first, second) = (chunks(seed: 1), chunks(seed: 2))
            try await device.upload(first)
            try await device.upload(second)
            // Two of the first chunks are used, and none of the second.
            let used = Array(first.prefix(2))
            for (index, chunk) in used.enumerated() { try await device.save("\(index)", chunk) }
            #expect(try await hub.hub.collect(grace: 0).condemned == 16)
            let report = try await hub.hub.collect(grace: 0)
            #expect(report.removed == 16)
            #expect(report.freedBytes > 7_000_000)
            try await expectReadable(used, by: device)
            try await expectSound(hub.directory, chunks: 2)
            let packs = try await hub.hub.blobs.listPacks()
            #expect(packs == (try await hub.hub.blobs.packs()))
            #expect(packs.values.reduce(0, +) < 2_000_000)
        }
    }

    @Test("a prefix that another hub uses, and blobs that are missing, are refused")
    func refusals() async throws {
        let server = try S3Server.shared.get()
        let place = try server.url("hubs", UUID().uuidString)
        let scratch = try TemporaryDirectory("hub")
        let hub = try await RunningHub(in: scratch, bucket: place)
        try await hub.device().upload(chunks(seed: 1))
        try await hub.stop()
        let other = await #expect(throws: VolumeError.self) {
            _ = try await RunningHub(bucket: place)
        }
        #expect(other?.code == .damaged)
        #expect(other?.message.contains("another prefix") == true)
        for bucket in [try server.url("hubs", UUID().uuidString), nil] {
            let error = await #expect(throws: VolumeError.self) {
                _ = try await RunningHub(in: scratch, bucket: bucket)
            }
            #expect(error?.message.contains("lacks 1 packs") == true)
        }
        let again = try await RunningHub(in: scratch, bucket: place)
        try await again.stop()
    }

    @Test(
        "two hubs of one database share a bucket",
        .enabled(if: PostgresServer.obstacle == nil, "\(PostgresServer.obstacle ?? "")"))
    func pair() async throws {
        let database = try PostgresServer()
        try database.make("hub")
        let place = try S3Server.shared.get().url("hubs", UUID().uuidString)
        let hubs = try await [
            RunningHub(database: database.url("hub"), bucket: place),
            RunningHub(database: database.url("hub"), bucket: place),
        ]
        do { try await share(hubs) } catch {
            for hub in hubs { try? await hub.stop() }
            throw error
        }
        for hub in hubs { try await hub.stop() }
    }

    private func share(_ hubs: [RunningHub]) async throws {
        var devices = [try await hubs[0].device(), try await hubs[1].device()]
        let texts = ["a", "b"].map { bytes("contents of \($0)") }
        let large = [chunks(seed: 1), chunks(seed: 2)]
        for index in 0..<2 {
            try await devices[index].save("\(index)", texts[index])
            try await devices[index].upload(large[index])
            for (number, chunk) in large[index].enumerated() {
                try await devices[index].save("\(index)-\(number)", chunk)
            }
        }
        let all = texts + large[0] + large[1]
        for device in devices { try await expectReadable(all, by: device) }
        // Collections of one hub among uploads through the other one lose nothing.
        let more = (3..<6).map { chunks(seed: $0) }
        let (writer, collector) = (devices[1], hubs[0].hub)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for chunks in more {
                    while true {
                        do {
                            try await writer.upload(chunks)
                            break
                        } catch let failure as Failure where failure.code == .busy {}
                    }
                }
            }
            group.addTask {
                for _ in 0..<5 { _ = try await collector.collect(grace: 3_600_000_000_000) }
            }
            try await group.waitForAll()
        }
        try await expectReadable(all + more.flatMap { $0 }, by: devices[0])
        try await expectSound(hubs[0].directory, chunks: all.count + 27)
    }
}
