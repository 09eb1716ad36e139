import Foundation
import HubProtocol
import Model
import Support
import Testing

@testable import Sync

/// The answers of a hub that lies, to the requests that `LyingHubTests` does not cover: each is
/// refused with a reason, and none is held in memory without a limit.
@Suite("Answers that lie") struct LyingAnswerTests {
    private static let volume = Identifier.random()

    /// Returns the reason with which the answer is refused; an empty text if it is taken.
    private func reason(
        _ hub: ScriptedHub, timeouts: HubTimeouts = HubTimeouts(),
        _ ask: (HubClient) throws -> Void
    ) throws -> String {
        let client = try HubClient(try HubAddress(hub.address), timeouts: timeouts)
        defer { client.close() }
        do {
            try ask(client)
            return ""
        } catch {
            return "\(error)"
        }
    }

    private func frame(_ id: Digest, _ count: Int) -> [UInt8] {
        ChunkFrame(id: id, codec: .plain, bytes: [UInt8](repeating: 7, count: count)).encoded
    }

    @Test("chunks without end, of other documents, or longer than they are") func read() throws {
        let hub = try ScriptedHub()
        defer { hub.stop() }
        let ids = (0..<2).map { Digest(.sha256, words: ($0, 1, 2, 3)) }
        let asked = ids.map { (id: $0, length: 1000) }
        func refused(_ pieces: [[UInt8]], times: Int = 1) throws -> String {
            hub.answer(pieces, times: times)
            return try reason(hub) { client in
                try client.read(Self.volume, asked) { _ in true }
            }
        }
        let good = ids.map { frame($0, 1000) }
        #expect(try refused(good) == "")
        #expect(try refused([good[0]], times: 100_000).contains("not asked for"))
        // The rest was not even taken.
        #expect(hub.sent < 100_000)
        #expect(try refused(good + [good[1]]).contains("too often"))
        #expect(try refused([good[1], good[0]]).contains("not asked for"))
        #expect(try refused([frame(ids[0], 3000)]).contains("longer"))
        #expect(try refused([Array(good[0].dropLast())]).contains("within a chunk"))
    }

    @Test("manifests without end, of other versions, or that expand too far")
    func manifests() throws {
        let hub = try ScriptedHub()
        defer { hub.stop() }
        let ids = (0..<3).map { _ in Identifier.random() }
        func encoded(_ id: Identifier, _ count: Int = 100) -> [UInt8] {
            ManifestFrame(revision: id, bytes: [UInt8](repeating: 1, count: count)).encoded
        }
        func refused(_ pieces: [[UInt8]], times: Int = 1) throws -> String {
            hub.answer(pieces, times: times)
            return try reason(hub) { client in
                _ = try client.manifests(Self.volume, ids)
            }
        }
        // The hub may not know one of them.
        #expect(try refused([encoded(ids[0]), encoded(ids[2])]) == "")
        #expect(try refused([encoded(ids[0])], times: 1_000_000).contains("comes twice"))
        #expect(hub.sent < 1_000_000)
        #expect(try refused([encoded(.random())]).contains("not asked for"))
        #expect(try refused([encoded(ids[1]), encoded(ids[0])]).contains("not asked for"))
        #expect(try refused([Array(encoded(ids[0]).dropLast())]).contains("within a manifest"))
        // A device takes so much at once, and asks for the rest again.
        let most = HubLimits.manifestBytes
        let many = (0..<12).map { _ in Identifier.random() }
        hub.answer(many.map { encoded($0, most) })
        var (found, answered) = (0, 0)
        let refusal = try reason(hub) { client in
            let answer = try client.manifests(Self.volume, many)
            (found, answered) = (answer.found.count, answer.answered)
        }
        #expect(refusal == "" && answered < many.count && found == answered)
    }

    /// All requests whose answer has a largest size.
    private static let calls: [@Sendable (HubClient) throws -> Void] = [
        { client in _ = try client.renewToken(at: 0, toHold: 0) },
        { client in _ = try client.newEpoch() },
        { client in _ = try client.volume(VolumeRequest(name: "v")) },
        { client in _ = try client.wanted(volume) },
        { client in _ = try client.have(volume, []) },
        { client in _ = try client.durability(volume, []) },
        { client in _ = try client.volumes() },
        { client in _ = try client.devices() },
        { client in
            _ = try client.changes(
                volume, after: 0, limit: 1, epoch: .random(), withTrash: false)
        },
    ]

    @Test("answers that are too long, or have too many values") func lengths() throws {
        let hub = try ScriptedHub()
        defer { hub.stop() }
        let spaces = [UInt8](repeating: 0x20, count: 1 << 20)
        for (index, call) in Self.calls.enumerated() {
            hub.answer(spaces, times: 300)
            #expect(try reason(hub, call).contains("more than"), "\(index)")
            #expect(hub.sent < 300, "\(index)")
        }
        hub.answer([UInt8](repeating: UInt8(ascii: "["), count: 2 << 20))
        let values = try reason(hub) { client in _ = try client.volumes() }
        #expect(values.contains("values"))
    }

    @Test("answers that never end, a byte at a time") func dripping() throws {
        let hub = try ScriptedHub()
        defer { hub.stop() }
        var timeouts = HubTimeouts()
        (timeouts.head, timeouts.body, timeouts.rate) = (1, 0, 1024)
        let all: [@Sendable (HubClient) throws -> Void] =
            Self.calls + [
                { client in _ = try client.manifests(Self.volume, [.random()]) },
                { client in try client.read(Self.volume, []) { _ in true } },
                { client in try client.feed(Self.volume, epoch: .random()) { _ in true } },
            ]
        for (index, call) in all.enumerated() {
            for status in [200, 503] where status == 200 || index == 0 {
                hub.answer([0], times: 100, status: status, pause: 200_000)
                let slow = try reason(hub, timeouts: timeouts, call)
                #expect(slow.contains("too slowly"), "\(index) \(status) \(slow)")
            }
        }
        // What is slow but useful arrives: each piece has the time that its bytes may take.
        let volumes = Array(try JSONEncoder().encode(VolumeList(volumes: [])))
        let spaces = [UInt8](repeating: 0x20, count: 2048)
        let pieces = [[UInt8]](repeating: spaces, count: 40) + [volumes]
        hub.answer(pieces, pause: 100_000)
        #expect(try reason(hub, timeouts: timeouts) { _ = try $0.volumes() } == "")
    }

    @Test("a failure that is too long") func longFailure() throws {
        let hub = try ScriptedHub()
        defer { hub.stop() }
        hub.answer([UInt8](repeating: 0x20, count: 1 << 20), times: 300, status: 503)
        let long = try reason(hub) { client in _ = try client.volumes() }
        #expect(long.contains("more than") && hub.sent < 300)
    }

    @Test("answers with values that cannot be") func values() throws {
        let hub = try ScriptedHub()
        defer { hub.stop() }
        let id = Identifier.random()
        let volume = Identifier.random()
        func refused(
            _ answer: some Encodable, _ ask: (HubClient) throws -> Void
        ) throws -> String {
            hub.answer(Array(try JSONEncoder().encode(answer)))
            return try reason(hub, ask)
        }
        func devices(_ name: String, _ seen: Int64 = 1) throws -> String {
            let entry = DeviceEntry(
                id: id, name: name, enrolled: 1, seen: seen, isRevoked: false, isSelf: false)
            return try refused(DeviceList(devices: [entry])) { client in
                _ = try client.devices()
            }
        }
        #expect(try devices("laptop") == "")
        #expect(try devices("\u{1b}[2J").contains("control characters"))
        #expect(try devices("laptop", .max).contains("time"))
        func wanted(_ count: Int) throws -> String {
            let ids = [Digest](repeating: .sha256([1]), count: count)
            return try refused(WantedAnswer(chunks: PackedIDs(ids))) { client in
                _ = try client.wanted(volume)
            }
        }
        #expect(try wanted(HubLimits.ids) == "")
        #expect(try wanted(HubLimits.ids + 1).contains("at once"))
        let durability = try refused(DurabilityAnswer(devices: [-1])) { client in
            _ = try client.durability(volume, [id])
        }
        #expect(durability.contains("does not match"))
        let token = try refused(TokenAnswer(token: "a\r\nX: y")) { client in
            _ = try client.renewToken(at: 0, toHold: 0)
        }
        #expect(token.contains("token"))
        func renewal(_ expires: Int64?) throws -> String {
            try refused(TokenAnswer(token: "cct_1", expires: expires)) { client in
                _ = try client.renewToken(at: 1_000, toHold: 7)
            }
        }
        #expect(try renewal(1_007) == "" && renewal(nil) == "")
        #expect(try renewal(1_006).contains("too soon"))
        #expect(try renewal(.min).contains("too soon"))
        let request = EnrolRequest(code: "c", deviceName: "d", device: id)
        let other = EnrolAnswer(
            token: "cct_1", user: "u", account: id, device: .random(), epoch: 1, volumes: [])
        let enrolled = try refused(other) { client in
            _ = try client.enrol(request)
        }
        #expect(enrolled.contains("another device"))
    }

    @Test("leases that cannot be, or too many of them") func leases() throws {
        let hub = try ScriptedHub()
        defer { hub.stop() }
        func refused(_ count: Int = 1, _ change: (inout LeaseList) -> Void) throws -> String {
            let lease = LeaseList.Lease(
                item: .random(), device: .random(), deviceName: "laptop", user: "ann",
                use: .edits, age: 1)
            var list = LeaseList(
                revision: 1, leases: [LeaseList.Lease](repeating: lease, count: count))
            change(&list)
            hub.answer(Array(try JSONEncoder().encode(list)))
            return try reason(hub) { client in _ = try client.leases(Self.volume) }
        }
        #expect(try refused { _ in } == "")
        #expect(try refused { $0.revision = .max }.contains("63 bits"))
        #expect(try refused { $0.leases[0].age = -1 }.contains("years"))
        #expect(try refused { $0.leases[0].age = .max }.contains("years"))
        #expect(try refused { $0.leases[0].user = "a\u{1b}[2J" }.contains("control"))
        #expect(try refused { $0.leases[0].deviceName = "a\nb" }.contains("control"))
        let long = String(repeating: "x", count: 256)
        #expect(try refused { $0.leases[0].deviceName = long }.contains("255"))
        #expect(try refused(HubLimits.leasesTogether + 1) { _ in }.contains("4096"))
    }

    @Test("hints that cannot be, or without an end") func feed() throws {
        let hub = try ScriptedHub()
        defer { hub.stop() }
        func refused(_ hint: Hint) throws -> String {
            hub.answer(Array(try JSONEncoder().encode(hint)) + [UInt8(ascii: "\n")])
            return try reason(hub) { client in
                try client.feed(Self.volume, epoch: .random()) { _ in true }
            }
        }
        #expect(try refused(Hint(head: 5, beat: 1)) == "")
        #expect(try refused(Hint(head: .max)).contains("63 bits"))
        #expect(try refused(Hint(beat: .min)).contains("time"))
        #expect(try refused(Hint(leases: .max)).contains("63 bits"))
        hub.answer([UInt8](repeating: 0x20, count: 1 << 16), times: 1000)
        let long = try reason(hub) { client in
            try client.feed(Self.volume, epoch: .random()) { _ in true }
        }
        #expect(long.contains("too long") && hub.sent < 1000)
    }
}
