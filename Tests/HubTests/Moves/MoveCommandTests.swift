import Foundation
import Glibc
import HubProtocol
import Model
import Support
import Synchronization
import Testing

@testable import Hub

@Suite(
    "concord hub move", .enabled(if: MovedHub.obstacle == nil, "\(MovedHub.obstacle ?? "")"))
struct MoveCommandTests {
    private func hub(_ words: String...) -> Command {
        Command(Programs.concord, arguments: ["hub"] + words)
    }

    @Test("a move of a running hub says how long commits waited, and the hub ends when it has left")
    func commands() async throws {
        let site = try MovedHub()
        let (data, remote) = (site.data, ["--ledger", site.database, "--blobs", site.bucket])
        var server = try HubProcess(data: data)
        try server.hub("user", "add", "anna").succeed()
        let invitation = try server.hub("invite", "anna").succeed()
        let code = String(try #require(invitation.split(separator: "\n").last))
        var device = try await TestDevice(url: server.url, code: code, volume: "Documents")
        try await device.save("a", bytes("a"))
        let there = hub(
            "move", "--data", data, "--to", site.database, "--blobs", site.bucket)
        try await device.save("b", bytes("b"))
        let moved = try there.succeed()
        #expect(moved.contains("moved to the database") && moved.contains("commits waited "))
        #expect(try server.end() == 5)
        #expect(try there.succeed().contains("moved to the database"))
        for words in [
            ["user", "list"], ["invite", "anna"], ["serve", "--listen", "127.0.0.1:0"],
        ] {
            let refused = try Command(
                Programs.concord, arguments: ["hub"] + words + ["--data", data]
            ).run()
            #expect(refused.status == 5 && refused.errors.contains("was moved to the database"))
        }
        #expect(try hub("check", "--data", data).succeed().contains("sound: 1 volumes, 2 items"))
        #expect(
            try Command(
                Programs.concord, arguments: ["hub", "check", "--data", data] + remote
            ).succeed().contains("sound: 1 volumes, 2 items"))

        server = try HubProcess(data: data, remote)
        device = device.moved(to: server.url)
        try await device.save("c", bytes("c"))
        let texts = ["a", "b", "c"].map { bytes($0) }
        let frames = try await device.read(texts.map { [device] in device.id(of: $0) })
        #expect(frames.map(\.bytes) == texts)
        #expect(try server.stop() == 0)
        let back = Command(
            Programs.concord,
            arguments: ["hub", "move", "--data", data] + remote + ["--to", site.returned.path])
        #expect(try back.succeed().contains("moved to \(site.returned.path)"))
        #expect(
            try hub("check", "--data", site.returned.path).succeed().contains(
                "sound: 1 volumes, 3 items"))
        let undone = try hub("move", "--data", data, "--undo").succeed()
        #expect(undone.contains("as it was before it moved"))
        #expect(try hub("user", "list", "--data", data).succeed().hasPrefix("anna\t"))
    }

    @Test("when the mover and the hub are killed at any request to S3, all that was answered stays")
    func killed() async throws {
        let relay = try S3Relay(to: try S3Server.shared.get().port)
        defer { relay.close() }
        let site = try MovedHub(endpoint: relay.endpoint)
        let first = try await site.serveEmbedded()
        var devices = try await SavingDevices(at: first)
        try await first.stop()
        var server = try HubProcess(data: site.data)
        devices.move(to: server.url)
        var (kills, freezings, restarts) = (0, 0, 0)
        for (request, damage) in [
            (1, S3Relay.Damage.stall), (3, .stall), (4, .stallAnswer), (5, .stall),
            (6, .stallAnswer), (7, .stall), (8, .stallAnswer), (9, .stall), (10, .stallAnswer),
        ] {
            let move = try await mover(of: site, until: request, damage, relay)
            if !move.hasEnded() { kills += 1 }
            move.send(SIGKILL)
            let status = try move.waitForEnd(seconds: 30)
            #expect(status == 128 + SIGKILL || status == 0)
            if status == 0 { break }
            // A hub that goes on would wait half a minute before it ends the freezing.
            let isFrozen = try await site.objection(of: site.embedded) != nil
            if isFrozen { freezings += 1 }
            if isFrozen || request.isMultiple(of: 2) {
                try server.kill()
                server = try HubProcess(data: site.data)
                devices.move(to: server.url)
                restarts += 1
            }
            try await devices.save("after \(request)")
        }
        #expect(kills >= 4 && freezings >= 1 && restarts >= 2)
        devices.page = try await devices.b.changes()
        // The mover goes on when the hub is killed.
        let move = try await mover(of: site, until: 2, .loseAnswer, relay)
        try server.kill()
        #expect(try move.waitForEnd(seconds: 60) == 0)
        let remote = try site.remote()
        try await site.expectEqual(site.embedded, remote)
        try await site.expectSound(remote)
        let hub = try await site.serveRemote()
        devices.move(to: hub)
        try await devices.expectToGoOn()
        try await hub.stop()
    }

    /// Returns a `concord hub move` that does this request to S3, to which this damage is done.
    private func mover(
        of site: MovedHub, until request: Int, _ damage: S3Relay.Damage, _ relay: S3Relay
    ) async throws -> ChildProcess {
        let (count, before) = (Count(), relay.damaged)
        relay.damage { _ in count.next() == request ? damage : nil }
        let null = open("/dev/null", O_RDWR | O_CLOEXEC)
        defer { close(null) }
        let move = try ChildProcess(
            Programs.concord,
            ["hub", "move", "--data", site.data, "--to", site.database, "--blobs", site.bucket],
            input: null, output: null, errors: null)
        try await wait(until: "the request has come") { move.hasEnded() || relay.damaged > before }
        return move
    }

    private final class Count: Sendable {
        private let value = Atomic(0)

        func next() -> Int { value.wrappingAdd(1, ordering: .relaxed).newValue }
    }

    private func wait(until what: String, _ isTrue: () -> Bool) async throws {
        for _ in 0..<6_000 {
            if isTrue() { return }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw SupportError("waited a minute until \(what)")
    }
}
