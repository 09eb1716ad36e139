import Foundation
import HubProtocol
import Model
import Support
import Testing

@testable import Hub

@Suite(
    "Several hubs of one database",
    .enabled(if: PostgresServer.obstacle == nil, "\(PostgresServer.obstacle ?? "")"))
struct SeveralHubsTests {
    /// Runs `body` with two hubs that share a database and blobs.
    private func withHubs(
        _ body: (PostgresServer, RunningHub, RunningHub) async throws -> Void
    ) async throws {
        let server = try PostgresServer()
        try server.make("hub")
        let scratch = try TemporaryDirectory("blobs")
        let blobs = try DirectoryBlobs(directory: scratch.path + "/blobs")
        let first = try await RunningHub(database: server.url("hub"), blobs: blobs)
        let second = try await RunningHub(database: server.url("hub"), blobs: blobs)
        let outcome = await Result { try await body(server, first, second) }
        try await first.stop()
        try await second.stop()
        try outcome.get()
    }

    @Test("a device hears of what is saved and revoked through another hub")
    func feeds() async throws {
        try await withHubs { server, first, second in
            var (writer, reader) = (try await first.device(), try await second.device())
            #expect(writer.volume.id == reader.volume.id)
            try await FeedTests().listen(reader) { lines in
                let saved = try await writer.save("a", bytes("a"))
                try await lines.head(atLeast: saved.sequence)
                let frames = try await reader.read([reader.id(of: bytes("a"))])
                #expect(frames.first?.bytes == bytes("a"))
                #expect(try await reader.changes().head == saved.sequence)
                // Both connections for announcements break.
                server.stop()
                try server.start()
                let later = try await writer.save("b", bytes("b"))
                try await lines.head(atLeast: later.sequence)
                // Positions that one hub gave are known to the other one.
                let page = try await writer.changes(after: 0)
                _ = try await reader.changes(after: page.next, run: page.run)
                try await reader.save("c", bytes("c"))
                let revoke = first.url + Routes.devices + "/\(reader.id)"
                let reply = try await Wire.send(
                    revoke, method: "DELETE", nil, token: writer.token)
                #expect(reply.status == 200)
                try await lines.skip(to: "its end") { $0.ended?.code == .unauthenticated }
            }
        }
    }

    @Test("two hubs commit to one volume, and each operation has its own position")
    func commits() async throws {
        try await withHubs { _, first, second in
            var devices: [TestDevice] = []
            for hub in [first, second, first, second] { devices.append(try await hub.device()) }
            let positions = try await withThrowingTaskGroup(of: [UInt64].self) { group in
                for (index, device) in devices.enumerated() {
                    group.addTask {
                        var (device, positions) = (device, [UInt64]())
                        for number in 0..<25 {
                            let entry = device.directory("\(index)-\(number)")
                            positions += try await device.commit([entry]).results.map(\.sequence)
                        }
                        return positions
                    }
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            #expect(positions.sorted() == Array(1...100))
        }
    }

    @Test("a device cannot begin one epoch after another at different hubs")
    func epochs() async throws {
        try await withHubs { _, first, second in
            var device = try await first.device()
            let gone = try await failure { [device] in try await device.changes(after: 1000) }
            #expect(gone.code == .volumeEpoch)
            device = device.moved(to: second.url)
            device.volume.epoch = try #require(gone.epoch)
            let lie = try await failure { [device] in try await device.changes(after: 1000) }
            #expect(lie.code == .copied)
        }
    }

    @Test("a copied store is noticed although its two processes use different hubs")
    func copies() async throws {
        try await withHubs { _, first, second in
            let device = try await first.device()
            let (own, copy) = (Identifier.random(), Identifier.random())
            try await FeedTests().listen(device, as: own) { lines in
                try await until { second.hub.processes.isElsewhere(own, as: device.id) }
                #expect(try await ask(second, device, as: copy) == .busy)
                try await lines.skip(to: "the question") { $0.process == copy }
                #expect(try await ask(second, device, as: copy) == .busy)
                #expect(try await ask(second, device, as: own, beside: copy) == nil)
                #expect(try await ask(second, device, as: copy) == .cloned)
                // The first hub has it from the second one.
                try await until { try await ask(first, device, as: copy) == .cloned }
                for hub in [first, second] {
                    #expect(try await ask(hub, device, as: own) == nil)
                }
                // A hub that starts now hears of the feed, too.
                second.hub.listeners.announceAll()
                try await until { second.hub.processes.isElsewhere(own, as: device.id) }
            }
            // After the feed has ended, as after a remount, a new process is the device.
            try await until { !second.hub.processes.isElsewhere(own, as: device.id) }
            #expect(try await ask(second, device, as: .random()) == nil)
        }
    }

    /// Asks for the changes of the device's volume, and returns why that was refused.
    private func ask(
        _ hub: RunningHub, _ device: TestDevice, as process: Identifier,
        beside other: Identifier? = nil
    ) async throws -> Failure.Code? {
        var headers = [HubHeader.process: process.description]
        headers[HubHeader.otherProcess] = other?.description
        do {
            let reply = try await Wire.send(
                hub.url + Routes.volume(device.volume.id, .changes), method: "GET", nil,
                token: device.token, headers: headers)
            _ = try reply.checked()
            return nil
        } catch let failure as Failure {
            return failure.code
        }
    }

    private func until(_ isTrue: () async throws -> Bool) async throws {
        let end = ContinuousClock.now + .seconds(60)
        while try await !isTrue() {
            try #require(ContinuousClock.now < end)
            try await Task.sleep(for: .milliseconds(2))
        }
    }

    @Test("a second hub with other blobs is refused, until the first one has ended")
    func otherBlobs() async throws {
        let server = try PostgresServer.shared.get()
        try server.make("alone")
        let first = try await RunningHub(database: server.url("alone"))
        await #expect {
            try await RunningHub(database: server.url("alone"))
        } throws: {
            ($0 as? VolumeError)?.code == .busy
        }
        try await first.stop()
        let again = try await RunningHub(
            in: first.scratch, data: first.directory.path, database: server.url("alone"))
        try await again.stop()
    }
}

extension Result where Failure == any Error {
    fileprivate init(_ body: () async throws -> Success) async {
        do { self = .success(try await body()) } catch { self = .failure(error) }
    }
}
