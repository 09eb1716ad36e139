import ChunkStore
import Foundation
import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub

/// Requests that are short and ask for much, and clients that have many addresses.
struct ListTests {
    @Test func anIdIsInAListOnce() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.save("x", bytes("x"))
            let (id, revision) = (device.id(of: bytes("x")), Identifier.random())
            for call in [VolumeCall.have, .read] {
                for (ids, status) in [([id], 200), ([id, device.id(of: [1]), id], 400)] {
                    let body = PackedIDs(ids).bytes
                    let reply = try await Wire.send(device.path(call), body, token: device.token)
                    #expect(reply.status == status, "\(call) \(ids.count)")
                }
            }
            for call in [VolumeCall.manifests, .durability, .holding] {
                for (count, status) in [(1, 200), (2, 400)] {
                    let ids = [Identifier](repeating: revision, count: count)
                    let body = [UInt8](try JSONEncoder().encode(RevisionList(revisions: ids)))
                    let reply = try await Wire.send(
                        device.path(call), body, token: device.token, type: ContentType.json)
                    #expect(reply.status == status, "\(call) \(count)")
                }
            }
            let gone = HoldingRequest(revisions: [], gone: [revision, revision])
            let reply = try await Wire.send(
                device.path(.holding), [UInt8](try JSONEncoder().encode(gone)),
                token: device.token, type: ContentType.json)
            #expect(reply.failure?.code == .malformed)
        }
    }

    /// Uploaded chunks wait in memory while a collection runs. Compressed, they are short; without
    /// compression they are long.
    @Test func uploadsThatWaitAreBounded() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let frames = (0..<8).map { number -> ChunkFrame in
                let plain = [UInt8](repeating: UInt8(number), count: 15 << 20)
                return ChunkFrame(
                    id: device.id(of: plain), codec: .zstd,
                    bytes: Compression.compress(plain) ?? [])
            }
            #expect(frames.allSatisfy { !$0.bytes.isEmpty && $0.bytes.count < 64 << 10 })
            let (answered, answer) = AsyncStream<Int>.makeStream()
            let (opened, open) = AsyncStream<Void>.makeStream()
            let gate = Task { await hub.hub.gate.alone { for await _ in opened { break } } }
            let uploads = frames.map { frame in
                Task {
                    let reply = try await Wire.send(
                        device.path(.chunks), frame.encoded, token: device.token)
                    answer.yield(reply.status)
                }
            }
            let impatience = Task {
                try await Task.sleep(for: .seconds(30))
                answer.finish()
            }
            var statuses: [Int] = []
            // Those that do not fit are refused while the others wait.
            for await status in answered {
                statuses.append(status)
                if statuses.count == 6 { break }
            }
            impatience.cancel()
            #expect(statuses == [Int](repeating: 503, count: 6))
            open.yield()
            await gate.value
            for upload in uploads { try await upload.value }
            let some = try await device.upload([bytes("x")])
            #expect(some.kept == 1)
        }
    }

    @Test func addressesOfOneNetworkAreOneClient() async throws {
        for (address, group) in [
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"), ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
            ("2001:DB8:1:3::1", "2001:db8:1:3::/64"), ("fe80::1%eth0", "fe80::/64"),
            ("::1", "::/64"), ("::ffff:1.2.3.4", "1.2.3.4"), ("1.2.3.4", "1.2.3.4"), ("", ""),
            ("nonsense", "nonsense"),
        ] {
            #expect(ClientAddress.group(of: address) == group)
        }
        try await RunningHub.with { hub in
            let network = (0..<11).map { "2001:db8::\($0)" }
            let answers = try await hub.guessCodes(forwardedFor: network + ["2001:db8:0:1::10"])
            #expect(answers == Array(repeating: 403, count: 10) + [429, 403])
        }
    }

    // MARK: What an account can make without contents

    @Test func volumesAndSplitDevicesAreBounded() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let account = try #require(try await hub.administration().accounts().first).id
            let time = Hub.now()
            try await hub.hub.ledger.write { transaction in
                for number in 1..<HubLimits.volumes {
                    let volume = VolumeRow(
                        id: .random(), account: account, name: "\(number)", epoch: .random(),
                        chunkKey: [], nameKey: [], head: 0, collection: 0)
                    try transaction.addVolume(volume, at: time)
                    _ = try transaction.devices.enrol(
                        .random(), account: account, name: "d", at: time)
                }
            }
            let volume = try await failure { () -> VolumeAnswer in
                try await Wire.post(
                    hub.url + Routes.volumes, VolumeRequest(name: "one more"), token: device.token)
            }
            #expect(volume.code == .quota && volume.message.contains("volumes"))
            let split = try await failure { () -> EnrolAnswer in
                try await Wire.post(
                    hub.url + Routes.selfSplit,
                    SplitRequest(device: .random(), deviceName: "copy"), token: device.token)
            }
            #expect(split.code == .quota && split.message.contains("devices"))
            // A code is from the operator of the hub.
            _ = try await hub.device()
        }
    }

    @Test func aFormerEpochLeavesNothing() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            func rows(_ table: String) async throws -> Int64 {
                try await hub.hub.ledger.read {
                    try $0.row("SELECT count(*) FROM \(table)", [])?.integer(0) ?? 0
                }
            }
            for epoch in UInt32(1)...3 {
                try await device.commit((0..<50).map { device.directory("\(epoch) \($0)") })
                #expect(try await rows("answers") == 50)
                #expect(try await rows("numbers") == 1)
                let reply = try await Wire.send(
                    hub.url + Routes.selfEpoch, nil, token: device.token)
                let answer: EpochAnswer = try reply.decoded()
                (device.epoch, device.number) = (answer.epoch, 1)
            }
            #expect(try await rows("answers") == 0)
        }
    }
}
