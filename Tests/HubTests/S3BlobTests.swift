import ChunkStore
import Foundation
import Hub
import Model
import Support
import Testing

@testable import HubS3

@Suite("Blobs in S3", .enabled(if: S3Server.obstacle == nil, "\(S3Server.obstacle ?? "")"))
struct S3BlobTests {
    /// A store behind a relay, with a ledger and a prefix of its own.
    private struct Place {
        let scratch: TemporaryDirectory
        let relay: S3Relay
        let ledger: any Ledger
        let blobs: S3Blobs

        init(
            bucket: String = "blobs", key: String = S3Server.key, secret: String = S3Server.secret,
            time: @escaping @Sendable () -> Int = S3Client.now
        ) async throws {
            let server = try S3Server.shared.get()
            try server.make("blobs")
            scratch = try TemporaryDirectory("s3")
            relay = try S3Relay(to: server.port)
            ledger = try SQLiteLedger(path: scratch.path + "/ledger.sqlite", mayCreate: true)
            let address = try S3Address(
                "s3://\(bucket)/\(UUID().uuidString)?endpoint=\(relay.endpoint)")
            let client = S3Client(
                address, S3Credentials(key: key, secret: secret), pace: Self.pace,
                log: RunningHub.quiet, time: time)
            blobs = S3Blobs(
                client, ledger: ledger, limits: S3Blobs.Limits(), log: RunningHub.quiet)
        }

        private static var pace: S3Pace {
            var pace = S3Pace()
            // A busy machine may need some seconds.
            pace.silence = .seconds(3)
            pace.patience = .seconds(120)
            pace.firstDelay = .milliseconds(10)
            pace.interval = .milliseconds(100)
            return pace
        }

        func close() { relay.close() }

        /// How often objects of packs were asked for by this method.
        func count(_ method: String) -> Int {
            relay.requests.count { $0.method == method && $0.target.contains("/packs/") }
        }
    }

    private func withPlace(_ body: (Place) async throws -> Void) async throws {
        let place = try await Place()
        defer { place.close() }
        try await body(place)
    }

    private func chunks(_ sizes: [Int], seed: UInt64 = 1) -> [PlainChunk] {
        var random = SeededRandom(seed: seed)
        return sizes.map { size in
            var bytes: [UInt8] = []
            while bytes.count < size { withUnsafeBytes(of: random.next()) { bytes += $0 } }
            return PlainChunk(plain: .sha256(bytes), bytes: bytes)
        }
    }

    private func expectReadable(
        _ chunks: [PlainChunk], at places: [ChunkLocation], in blobs: S3Blobs
    ) async throws {
        for (chunk, place) in zip(chunks, places) {
            #expect(try await blobs.read(chunk.plain, at: place).bytes == chunk.bytes)
        }
    }

    // MARK: Objects

    @Test("small chunks stay in the ledger until a pack of them is full")
    func staging() async throws {
        try await withPlace { place in
            let small = chunks(Array(repeating: 60_000, count: 10))
            let places = try await place.blobs.keep(small)
            try await place.blobs.settle()
            #expect(place.relay.requests.isEmpty)
            try await expectReadable(small, at: places, in: place.blobs)
            #expect(place.relay.requests.isEmpty)
            for seed in UInt64(2)..<5 {
                _ = try await place.blobs.keep(
                    chunks(Array(repeating: 60_000, count: 50), seed: seed))
            }
            try await place.blobs.settle()
            #expect(place.count("PUT") == 1)
            #expect(try await place.ledger.read { try PackTable($0).stagedBytes() } < 8 << 20)
            try await expectReadable(small, at: places, in: place.blobs)
            #expect(place.count("GET") == small.count)
        }
    }

    @Test("many bytes at once become an object without passing through the ledger")
    func direct() async throws {
        try await withPlace { place in
            let large = chunks(Array(repeating: 500_000, count: 10))
            let places = try await place.blobs.keep(large)
            #expect(Set(places.map(\.pack)).count == 1)
            #expect(place.count("PUT") == 1)
            #expect(try await place.ledger.read { try PackTable($0).stagedBytes() } == 0)
            try await expectReadable(large, at: places, in: place.blobs)
            // Nothing on these paths lists objects.
            #expect(!place.relay.requests.contains { $0.target.contains("list-type") })
            #expect(try await place.blobs.listPacks() == place.blobs.packs())
        }
    }

    @Test(
        "a large object is put in parts, also if answers are lost",
        arguments: [
            nil, ("POST", "uploads"), ("PUT", "partNumber=2"), ("POST", "uploadId="),
        ] as [(String, String)?])
    func parts(_ lost: (method: String, query: String)?) async throws {
        try await withPlace { place in
            if let lost {
                place.relay.damageNext(.loseAnswer) {
                    $0.method == lost.method && $0.target.contains(lost.query)
                }
            }
            let large = chunks([16 << 20, 3 << 20])
            let places = try await place.blobs.keep(large)
            #expect(place.relay.damaged == (lost == nil ? 0 : 1))
            try await expectReadable(large, at: places, in: place.blobs)
            #expect(try await place.blobs.listPacks().count == 1)
            _ = try await place.blobs.removeGarbage(after: 0, begunBefore: 0)
            #expect(try await place.blobs.client.uploads().isEmpty)
            try await expectReadable(large, at: places, in: place.blobs)
        }
    }

    // MARK: Faults that pass

    @Test(
        "what was damaged on the way is tried again, and kept once",
        arguments: [
            .answer(500, "InternalError"), .answer(503, "SlowDown"), .cutRequest, .loseAnswer,
            .cutAnswer, .stall, .stallAnswer, .answer(400, "RequestTimeout"),
        ] as [S3Relay.Damage])
    func passing(_ damage: S3Relay.Damage) async throws {
        try await withPlace { place in
            let large = chunks(Array(repeating: 500_000, count: 10))
            place.relay.damageNext(damage) { $0.method == "PUT" }
            let places = try await place.blobs.keep(large)
            #expect(place.relay.damaged == 1)
            #expect(try await place.blobs.listPacks() == place.blobs.packs())
            #expect(try await place.blobs.packs().count == 1)
            place.relay.damageNext(damage) { $0.method == "GET" }
            try await expectReadable(large, at: places, in: place.blobs)
            #expect(place.relay.damaged == 2)
        }
    }

    @Test("bytes that were changed on the way are read again, and then reported")
    func changed() async throws {
        try await withPlace { place in
            let large = chunks(Array(repeating: 500_000, count: 10))
            let places = try await place.blobs.keep(large)
            place.relay.damageNext(.changeAnswer) { $0.method == "GET" }
            try await expectReadable(large, at: places, in: place.blobs)
            #expect(place.relay.damaged == 1)
            place.relay.damage { $0.method == "GET" ? .changeAnswer : nil }
            let error = await #expect(throws: VolumeError.self) {
                try await place.blobs.read(large[0].plain, at: places[0])
            }
            #expect(error?.code == .damaged)
        }
    }

    // MARK: Faults that last

    private func expectOffline(
        _ place: Place, _ words: String..., sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        defer { place.close() }
        let error = await #expect(throws: VolumeError.self, sourceLocation: sourceLocation) {
            _ = try await place.blobs.mark()
            try await place.blobs.setMark(StoreStamp(store: .random(), number: 1))
        }
        #expect(error?.code == .offline, sourceLocation: sourceLocation)
        for word in words {
            #expect(
                error?.message.contains(word) == true, "\(error?.message ?? "")",
                sourceLocation: sourceLocation)
        }
    }

    @Test("each reason for which a server cannot be used is said")
    func reasons() async throws {
        await expectOffline(try await Place(bucket: "nowhere"), "no bucket nowhere", "--blobs")
        await expectOffline(try await Place(key: "NOBODY"), "AWS_ACCESS_KEY_ID")
        await expectOffline(try await Place(secret: "wrong"), "AWS_SECRET_ACCESS_KEY")
        await expectOffline(try await Place(key: S3Server.readingKey), "AccessDenied", "allow")
        let late: @Sendable () -> Int = { S3Client.now() + 3600 }
        await expectOffline(try await Place(time: late), "clock")
        let place = try await Place()
        place.relay.damage { _ in .answer(503, "SlowDown") }
        await expectOffline(place, "503 SlowDown")
        let closed = try await Place()
        closed.close()
        await expectOffline(closed, "cannot be reached")
    }

    @Test("while the server cannot be used, requests fail at once, until it is back")
    func outage() async throws {
        try await withPlace { place in
            let large = chunks(Array(repeating: 500_000, count: 10))
            let places = try await place.blobs.keep(large)
            place.relay.damage { _ in .answer(403, "AccessDenied") }
            await #expect(throws: VolumeError.self) {
                try await place.blobs.read(large[0].plain, at: places[0])
            }
            let before = place.relay.requests.count
            for _ in 0..<100 {
                await #expect(throws: VolumeError.self) {
                    try await place.blobs.read(large[0].plain, at: places[0])
                }
            }
            #expect(place.relay.requests.count < before + 100)
            await #expect(throws: VolumeError.self) { try await place.blobs.maintain() }
            place.relay.damage(nil)
            for _ in 0..<600 {
                do { return try await place.blobs.maintain() } catch {
                    try await Task.sleep(for: .milliseconds(20))
                }
            }
            Issue.record("the store did not notice that the server is back")
        }
    }

    // MARK: Garbage

    @Test("an object that no row names is removed, and none that is used or unknown")
    func garbage() async throws {
        try await withPlace { place in
            let blobs = place.blobs
            let large = chunks(Array(repeating: 500_000, count: 10))
            let places = try await blobs.keep(large)
            // A process ended before its object was recorded, and another one before its object
            // was deleted.
            let begun = try await place.ledger.write {
                try PackTable($0).add(.writing, bytes: 3, at: 5)
            }
            #expect(try await blobs.client.put(blobs.key(begun), [1, 2, 3]) == .stored)
            let removed = try await place.ledger.write { transaction in
                let pack = try PackTable(transaction).add(.writing, bytes: 4, at: 5)
                _ = try PackTable(transaction).removeUnused(pack)
                return pack
            }
            #expect(try await blobs.client.put(blobs.key(removed), [1, 2, 3, 4]) == .stored)
            // Another ledger wrote this one.
            #expect(try await blobs.client.put(blobs.key(99), [1]) == .stored)
            let upload = try await blobs.client.begin(blobs.key(removed))
            #expect(try await blobs.removeGarbage(after: removed, begunBefore: 4) == 0)
            #expect(try await blobs.removeGarbage(after: begun, begunBefore: 4) == 4)
            #expect(try await blobs.removeGarbage(after: 0, begunBefore: 5) == 3)
            #expect(!(try await blobs.client.uploads().contains(upload)))
            #expect(try await Set(blobs.listPacks().keys) == [places[0].pack, 99])
            try await expectReadable(large, at: places, in: blobs)
            // New packs do not get the other ledger's numbers.
            #expect(try await blobs.keep(chunks([5]))[0].pack == 100)
        }
    }

    @Test("a pack is not removed when a chunk was recorded in it, or else the chunk is refused")
    func races() async throws {
        try await withPlace { place in
            let large = chunks(Array(repeating: 500_000, count: 10))
            let volume = Identifier.random()
            let record = { (at: ChunkLocation) in
                try await place.ledger.write(.volume(volume)) { [blobs = place.blobs] in
                    try blobs.confirm([at], $0)
                    let id = large[0].plain
                    try $0.chunks.put(id, plain: id, at: at, in: volume, time: 1)
                }
            }
            let used = try await place.blobs.keep(large)[0]
            try await record(used)
            try await place.blobs.remove(pack: used.pack)
            try await place.blobs.quarantine(pack: used.pack)
            _ = try await place.blobs.read(large[0].plain, at: used)
            let unused = try await place.blobs.keep(large)[0]
            try await place.blobs.remove(pack: unused.pack)
            let error = await #expect(throws: VolumeError.self) { try await record(unused) }
            #expect(error?.code == .busy)
        }
    }

    @Test("a restored ledger, which knows only the beginning of a pack, accepts its object")
    func olderLedger() async throws {
        try await withPlace { place in
            let small = chunks([100, 200, 300])
            let first = try await place.blobs.keep([small[0]])[0]
            try (place.ledger as? SQLiteLedger)?.copy(to: place.scratch.path + "/old.sqlite")
            _ = try await place.blobs.keep([small[1]])
            try await place.blobs.endPack()
            try await place.blobs.settle()
            let old = try SQLiteLedger(path: place.scratch.path + "/old.sqlite", mayCreate: false)
            let blobs = S3Blobs(
                place.blobs.client, ledger: old, limits: S3Blobs.Limits(), log: RunningHub.quiet)
            try await blobs.endPack()
            try await blobs.settle()
            #expect(try await old.read { try PackTable($0).row(of: first.pack)?.state } == .stored)
            try await expectReadable([small[0]], at: [first], in: blobs)
            // A pack with the same number and other bytes stays in the ledger.
            #expect(try await blobs.client.put(blobs.key(first.pack + 1), [9]) == .stored)
            let other = try await blobs.keep([small[2]])[0]
            #expect(other.pack == first.pack + 1)
            try await blobs.endPack()
            try await blobs.settle()
            #expect(try await old.read { try PackTable($0).row(of: other.pack)?.state } == .ended)
            try await expectReadable([small[2]], at: [other], in: blobs)
        }
    }
}
