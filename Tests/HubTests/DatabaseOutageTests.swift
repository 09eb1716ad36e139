import Foundation
import Hub
import HubProtocol
import Model
import Support
import Synchronization
import Testing

@Suite(
    "A hub that loses its database",
    .enabled(if: PostgresServer.obstacle == nil, "\(PostgresServer.obstacle ?? "")"))
struct DatabaseOutageTests {
    /// What the devices have seen of the hub.
    private struct Seen {
        /// The positions in the volume's journal of acknowledged directories, by their names.
        var acknowledged: [String: UInt64] = [:]
        var refusals = 0
        var objections: [String] = []
    }

    private final class Record: Sendable {
        private let seen = Mutex(Seen())

        var all: Seen { seen.withLock { $0 } }

        func acknowledge(_ name: String, _ sequence: UInt64) {
            seen.withLock { $0.acknowledged[name] = sequence }
        }

        func refuse(_ reply: Wire.Reply) {
            seen.withLock { seen in
                seen.refusals += 1
                let isRight =
                    reply.status == 503 && reply.failure?.code == .busy
                    && reply.values(of: "Retry-After") == ["2"]
                if !isRight { seen.objections.append("\(reply.status), \(reply.headers)") }
            }
        }

        /// Waits until the devices have seen more of something.
        func wait(for what: String, more: Int, _ count: @Sendable (Seen) -> Int) async throws {
            let start = count(all)
            for _ in 0..<6_000 {
                if count(all) >= start + more { return }
                try await Task.sleep(for: .milliseconds(10))
            }
            throw SupportError("waited a minute for \(what)")
        }
    }

    /// Makes directories one after the other, and sends each until it is acknowledged.
    private func work(_ device: TestDevice, _ name: String, _ record: Record) async throws {
        var device = device
        var index = 0
        while !Task.isCancelled {
            index += 1
            var refusals = 0
            let entry = device.directory("\(name)-\(index)")
            let body = [UInt8](try JSONEncoder().encode(device.request([entry])))
            while true {
                let reply = try await Task { [device] in
                    try await Wire.send(
                        device.path(.commit), body, token: device.token, type: ContentType.json)
                }.value
                guard reply.status == 200 else {
                    record.refuse(reply)
                    refusals += 1
                    // A hub that has its database again accepts it.
                    guard refusals < 5_000 else {
                        throw SupportError("\(name)-\(index) is always refused: \(reply)")
                    }
                    try? await Task.sleep(for: .milliseconds(20))
                    continue
                }
                let answer: CommitAnswer = try reply.decoded()
                record.acknowledge("\(name)-\(index)", answer.results[0].sequence)
                break
            }
        }
    }

    /// Returns the positions of all items in the volume's journal, by their names, and its head.
    private func journal(
        of device: TestDevice
    ) async throws -> (names: [String: UInt64], head: UInt64) {
        var (names, after) = ([String: UInt64](), UInt64(0))
        while true {
            let page = try await device.changes(after: after)
            for case .item(let item) in page.changes { names[item.name] = item.sequence }
            if page.next == page.head { return (names, page.head) }
            after = page.next
        }
    }

    @Test("what it acknowledges is kept once, however often PostgreSQL is stopped in between")
    func stoppedInCommits() async throws {
        let server = try PostgresServer()
        try server.make("hub")
        let hub = try await RunningHub(database: server.url("hub"))
        let record = Record()
        var devices: [TestDevice] = []
        for index in 0..<3 {
            // Two devices of one volume, and one of another.
            devices.append(try await hub.device(volume: index < 2 ? "shared" : "own"))
        }
        let workers = devices.enumerated().map { index, device in
            Task { try await work(device, "\(index)", record) }
        }
        for _ in 0..<4 {
            try await record.wait(for: "commits", more: 60) { $0.acknowledged.count }
            server.stop()
            try await record.wait(for: "refusals", more: 3) { $0.refusals }
            let health = try await Wire.send(
                hub.url + Routes.health, method: "GET", nil, token: nil)
            #expect(health.status == 503)
            try server.start()
        }
        try await record.wait(for: "commits", more: 60) { $0.acknowledged.count }
        for worker in workers { worker.cancel() }
        for worker in workers { try await worker.value }
        #expect(record.all.objections == [])
        // The two devices of the shared volume have the prefixes 0 and 1.
        for (device, prefixes) in [(devices[0], ["0-", "1-"]), (devices[2], ["2-"])] {
            let own = record.all.acknowledged.filter { name, _ in
                prefixes.contains { name.hasPrefix($0) }
            }
            let journal = try await journal(of: device)
            #expect(journal.names == own)
            #expect(journal.head == UInt64(own.count))
        }
        try await hub.stop()
        server.stop()
    }
}
