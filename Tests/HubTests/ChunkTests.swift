import AsyncHTTPClient
import ChunkStore
import Foundation
import Hub
import HubProtocol
import Model
import NIOCore
import Support
import Testing

struct ChunkTests {
    static func noise(_ count: Int, seed: UInt64) -> [UInt8] {
        var random = SeededRandom(seed: seed)
        return (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    }

    @Test func onlyWhatIsMissingHasToGo() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let chunks = (0..<50).map { Self.noise($0 * 100, seed: UInt64($0)) }
            let ids = chunks.map { device.id(of: $0) }
            #expect(try await device.have(ids).present.allSatisfy { !$0 })
            let answer = try await device.upload(Array(chunks[10..<30]))
            #expect(answer.kept == 20 && answer.bad.isEmpty)
            #expect(try await device.have(ids).present == (0..<50).map { (10..<30).contains($0) })
            let frames = try await device.read(ids)
            #expect(frames.map(\.id) == ids)
            for (index, frame) in frames.enumerated() {
                let plain =
                    frame.codec == .zstd
                    ? Compression.decompress(frame.bytes, limit: 1 << 20) ?? [] : frame.bytes
                #expect((10..<30).contains(index) ? plain == chunks[index] : frame.codec == .absent)
            }
        }
    }

    @Test func compressedChunksAreTheSameChunks() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let plain = [UInt8](repeating: 7, count: 100_000)
            let packed = try #require(Compression.compress(plain))
            let frame = ChunkFrame(id: device.id(of: plain), codec: .zstd, bytes: packed)
            #expect(try await device.upload([frame]).bad.isEmpty)
            let back = try #require(try await device.read([frame.id]).first)
            #expect(back.codec == .zstd && back.bytes.count < 1000)
            #expect(Compression.decompress(back.bytes, limit: 100_000) == plain)
        }
    }

    @Test func bytesThatAreNotThoseOfTheIdAreRefused() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let (good, other) = (device.frame(bytes("good")), device.frame(bytes("other")))
            var bad = [ChunkFrame(id: other.id, codec: .plain, bytes: bytes("evil"))]
            bad.append(ChunkFrame(id: other.id, codec: .zstd, bytes: bytes("no zstd")))
            bad.append(ChunkFrame(id: other.id, codec: .absent, bytes: []))
            // The frame claims to have 2^62 bytes.
            bad.append(
                ChunkFrame(
                    id: other.id, codec: .zstd,
                    bytes: [0x28, 0xB5, 0x2F, 0xFD, 0xE0, 0, 0, 0, 0, 0, 0, 0, 0x40]))
            let answer = try await device.upload(bad + [good])
            #expect(answer.kept == 1 && answer.bad.count == 4)
            #expect(try await device.have([good.id, other.id]).present == [true, false])
        }
    }

    @Test func whatCameWholeStaysWhenTheLineIsCut() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let chunks = (0..<40).map { Self.noise(50_000, seed: UInt64(100 + $0)) }
            let all = chunks.flatMap { device.frame($0).encoded }
            let cut = Array(all.prefix(all.count * 3 / 4 + 100))
            // The body ends in the middle of a frame.
            let reply = try await Wire.send(device.path(.chunks), cut, token: device.token)
            #expect(reply.failure?.code == .malformed)
            let present = try await device.have(chunks.map { device.id(of: $0) }).present
            #expect(present == (0..<40).map { $0 < 30 })
        }
    }

    @Test func aConnectionThatDiesKeepsWhatCameWhole() async throws {
        try await RunningHub.with { hub in
            let device = try await hub.device()
            let chunks = (0..<20).map { Self.noise(50_000, seed: UInt64(200 + $0)) }
            let all = chunks.flatMap { device.frame($0).encoded }
            let half = ByteBuffer(bytes: all.prefix(all.count / 2))
            var request = HTTPClientRequest(url: device.path(.chunks))
            request.method = .POST
            request.headers.add(name: "Authorization", value: "Bearer \(device.token)")
            request.headers.add(name: "Content-Type", value: ContentType.binary)
            let pieces = AsyncThrowingStream<ByteBuffer, any Error> { pieces in
                pieces.yield(half)
                pieces.finish(throwing: CancellationError())
            }
            request.body = .stream(pieces, length: .known(Int64(all.count)))
            _ = try? await HTTPClient.shared.execute(request, timeout: .seconds(30))
            let ids = chunks.map { device.id(of: $0) }
            let expected = (0..<20).map { $0 < 10 }
            var present: [Bool] = []
            for _ in 0..<100 where present != expected {
                try await Task.sleep(for: .milliseconds(50))
                present = try await device.have(ids).present
            }
            #expect(present == expected)
        }
    }

    @Test func anotherVolumeDoesNotHaveThem() async throws {
        try await RunningHub.with { hub in
            let anna = try await hub.device()
            let berta = try await hub.device(of: "berta")
            try await anna.upload([bytes("secret")])
            let id = anna.id(of: bytes("secret"))
            #expect(id != berta.id(of: bytes("secret")))
            #expect(try await berta.have([id]).present == [false])
            #expect(try await berta.read([id]).first?.codec == .absent)
        }
    }

    // MARK: Damage

    @Test func damageIsFoundNamedAndHealed() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let (good, bad) = (Self.noise(3000, seed: 1), Self.noise(3000, seed: 2))
            try await device.save("good", good)
            try await device.save("bad", bad)
            try hub.damage { data in
                let at = data.range(of: Data(bad[100..<200]))!
                data[at.lowerBound] ^= 1
            }
            let report = try await hub.administration().check()
            #expect(report.faults.count == 1)
            #expect(report.faults.first?.contains("1 versions") == true)
            let ids = [device.id(of: good), device.id(of: bad)]
            #expect(try await device.have(ids).present == [true, false])
            #expect(try await device.wanted().ids == [ids[1]])
            #expect(try await device.read(ids).map(\.codec) == [.plain, .absent])
            try await device.upload([bad])
            #expect(try await device.have(ids).present == [true, true])
            #expect(try await device.wanted().ids == [])
            #expect(try await device.read(ids).map(\.bytes) == [good, bad])
            #expect(try await hub.administration().check().faults == [])
        }
    }

    @Test func damageThatAReadMeetsIsNoted() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let content = Self.noise(3000, seed: 3)
            try await device.save("x", content)
            try hub.damage { $0[$0.range(of: Data(content[9..<99]))!.lowerBound] ^= 1 }
            let id = device.id(of: content)
            #expect(try await device.read([id]).first?.codec == .absent)
            #expect(try await device.have([id]).present == [false])
            try await device.upload([content])
            #expect(try await device.read([id]).first?.bytes == content)
        }
    }

    @Test func aPackThatIsGoneIsNotClaimed() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let content = Self.noise(3000, seed: 4)
            try await device.save("x", content)
            let id = device.id(of: content)
            for pack in try hub.packs() { try FileManager.default.removeItem(atPath: pack) }
            hub.advance(seconds: 2)
            #expect(try await device.have([id]).present == [false])
            #expect(try await device.wanted().ids == [id])
        }
    }

    // MARK: Collection

    @Test func aPausedUploadIsAskedForAgain() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.save("kept", bytes("kept"))
            let half = Self.noise(5000, seed: 5)
            try await device.upload([half])
            let (present, collection) = try await device.have([device.id(of: half)])
            #expect(present == [true])
            hub.advance(seconds: 3600)
            #expect(try await hub.hub.collect(grace: 60_000_000_000).condemned == 1)
            #expect(try await device.have([device.id(of: half)]).present == [false])
            hub.advance(seconds: 3600)
            #expect(try await hub.hub.collect(grace: 60_000_000_000).removed == 1)
            let entry = device.creation("half", half)
            let old = try await failure { try await device.commit([entry], collection: collection) }
            #expect(old.code == .collection)
            let missing = try await failure { try await device.commit([entry]) }
            #expect(missing.code == .missing)
            try await device.upload([half])
            let now = try await device.have([device.id(of: half)])
            #expect(now.present == [true])
            try await device.commit([entry], collection: now.collection)
            #expect(try await device.read([device.id(of: half)]).first?.bytes == half)
            #expect(try await hub.administration().check().faults == [])
        }
    }

    @Test func packsOfWhichLittleIsLeftAreEmptied() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let kept = Self.noise(2000, seed: 6)
            try await device.upload((0..<40).map { Self.noise(5000, seed: UInt64(300 + $0)) })
            try await device.save("kept", kept)
            let before = try hub.packBytes()
            for _ in 0..<2 {
                hub.advance(seconds: 100)
                _ = try await hub.hub.collect(grace: 1_000_000_000)
            }
            #expect(try hub.packBytes() < before / 10)
            #expect(try await device.read([device.id(of: kept)]).first?.bytes == kept)
            #expect(try await hub.administration().check().faults == [])
        }
    }

    @Test func collectionsAmongUploadsLoseNothing() async throws {
        try await RunningHub.with { hub in
            var devices: [TestDevice] = []
            for _ in 0..<3 { devices.append(try await hub.device()) }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (number, device) in devices.enumerated() {
                    group.addTask {
                        var device = device
                        for index in 0..<15 {
                            let seed = UInt64(1000 + number * 100 + index)
                            let content = Self.noise(20_000, seed: seed)
                            let entry = device.creation("\(number)-\(index)", content)
                            while true {
                                try await device.upload([content])
                                do {
                                    try await device.commit([entry])
                                    break
                                } catch let failure as Failure where failure.code == .missing {}
                            }
                        }
                    }
                }
                group.addTask {
                    for _ in 0..<30 {
                        _ = try await hub.hub.collect(grace: 0)
                        try await Task.sleep(for: .milliseconds(10))
                    }
                }
                try await group.waitForAll()
            }
            let report = try await hub.administration().check()
            #expect(report.faults == [])
            #expect(report.revisions == 45)
        }
    }
}

extension RunningHub {
    func packs() throws -> [String] {
        let path = directory.path + "/blobs"
        return try FileManager.default.contentsOfDirectory(atPath: path)
            .filter { $0.hasSuffix(".pack") }.map { "\(path)/\($0)" }
    }

    func packBytes() throws -> Int {
        try packs().reduce(0) { $0 + (try Data(contentsOf: URL(filePath: $1)).count) }
    }

    func damage(_ body: (inout Data) throws -> Void) throws {
        for pack in try packs() {
            let file = try FileHandle(forUpdating: URL(filePath: pack))
            var data = try file.readToEnd() ?? Data()
            try body(&data)
            try file.seek(toOffset: 0)
            try file.write(contentsOf: data)
            try file.close()
        }
    }
}

extension TestDevice {
    func wanted() async throws -> PackedIDs {
        let answer: WantedAnswer = try await Wire.get(path(.wanted), token: token)
        return answer.chunks
    }
}
