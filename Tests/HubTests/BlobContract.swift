import ChunkStore
import Foundation
import Hub
import HubS3
import Logging
import Model
import Support
import Testing

/// The contract of each blob store. A new implementation adds itself to `kinds`.
struct BlobContract {
    struct Kind: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// Opening the same place twice returns the same store, as after a restart of its owner.
        let open: @Sendable (_ place: String) throws -> any BlobStore
        /// Ends what the store does later.
        var settle: @Sendable (_ store: any BlobStore) async throws -> Void = { _ in }
    }

    static let kinds =
        [
            Kind(testDescription: "directory") { place in
                try DirectoryBlobs(directory: place + "/blobs", packBytesMax: 100_000)
            }
        ] + (S3Server.obstacle == nil ? LedgerKind.all.map(s3) : [])

    private static func s3(_ ledger: LedgerKind) -> Kind {
        Kind(testDescription: "S3 with a ledger in \(ledger.testDescription)") { place in
            var limits = S3Blobs.Limits()
            limits.packBytes = 100_000
            return try S3Blobs(
                try S3Address(try S3Server.place(for: place)), ledger: try ledger.open(place),
                limits: limits, log: RunningHub.quiet)
        } settle: {
            try await ($0 as? S3Blobs)?.settle()
        }
    }

    private func chunks(_ count: Int, seed: UInt64) -> [PlainChunk] {
        var random = SeededRandom(seed: seed)
        return (0..<count).map { index in
            let bytes = (0..<(index * 97 % 5000)).map { _ in
                // Half of the chunks are compressible.
                index.isMultiple(of: 2) ? UInt8(7) : UInt8(truncatingIfNeeded: random.next())
            }
            return PlainChunk(plain: .sha256(bytes), bytes: bytes)
        }
    }

    private func plain(_ stored: StoredChunk) -> [UInt8]? {
        stored.codec == .zstd
            ? Compression.decompress(stored.bytes, limit: 1 << 20) : stored.bytes
    }

    @Test(arguments: kinds) func whatWasKeptComesBack(_ kind: Kind) async throws {
        let scratch = try TemporaryDirectory("blobs")
        let chunks = chunks(200, seed: 1)
        let places = try await kind.open(scratch.path).keep(chunks)
        let store = try kind.open(scratch.path)
        for (chunk, place) in zip(chunks, places) {
            #expect(plain(try await store.read(chunk.plain, at: place)) == chunk.bytes)
        }
        try await store.endPack()
        try await kind.settle(store)
        for (chunk, place) in zip(chunks, places) {
            #expect(plain(try await store.read(chunk.plain, at: place)) == chunk.bytes)
        }
        let sizes = try await store.packs()
        #expect(sizes.count > 1)
        #expect(try await store.listPacks() == sizes)
        for place in places {
            #expect(try #require(sizes[place.pack]) >= place.offset + UInt64(place.storedLength))
        }
    }

    @Test(arguments: kinds) func anotherChunkIsNotGivenForOne(_ kind: Kind) async throws {
        let scratch = try TemporaryDirectory("blobs")
        let store = try kind.open(scratch.path)
        let chunks = chunks(3, seed: 2)
        let places = try await store.keep(chunks)
        await #expect(throws: VolumeError.self) {
            try await store.read(chunks[1].plain, at: places[2])
        }
    }

    @Test(arguments: kinds) func packsEndAreEmptiedAndRemoved(_ kind: Kind) async throws {
        let scratch = try TemporaryDirectory("blobs")
        let store = try kind.open(scratch.path)
        let chunks = chunks(10, seed: 3)
        let places = try await store.keep(chunks)
        let pack = places[0].pack
        try await store.endPack()
        try await kind.settle(store)
        let later = try await store.keep(self.chunks(2, seed: 4))
        #expect(later.allSatisfy { $0.pack != pack })
        let wanted = zip(chunks, places).prefix(3).map { PlacedChunk(plain: $0.plain, place: $1) }
        let moved = try await store.move(wanted, from: pack)
        #expect(moved.count == 3)
        try await store.remove(pack: pack)
        #expect(try await store.packs()[pack] == nil)
        for (chunk, place) in zip(chunks, places).prefix(3) {
            let now = try #require(moved[place.offset])
            #expect(plain(try await store.read(chunk.plain, at: now)) == chunk.bytes)
        }
        await #expect(throws: VolumeError.self) {
            try await store.read(chunks[5].plain, at: places[5])
        }
    }

    @Test(arguments: kinds) func packsInQuarantineComeBack(_ kind: Kind) async throws {
        let scratch = try TemporaryDirectory("blobs")
        let store = try kind.open(scratch.path)
        let chunks = chunks(10, seed: 5)
        let places = try await store.keep(chunks)
        let pack = places[0].pack
        try await store.endPack()
        try await kind.settle(store)
        #expect(try await store.collectablePacks()[pack] != nil)
        try await store.quarantine(pack: pack)
        #expect(try await store.packs()[pack] == nil)
        #expect(try await store.collectablePacks()[pack] == nil)
        #expect(try await store.quarantinedPacks().keys.contains(pack))
        await #expect(throws: VolumeError.self) {
            try await store.read(chunks[5].plain, at: places[5])
        }
        try await store.restore(pack: pack)
        #expect(plain(try await store.read(chunks[5].plain, at: places[5])) == chunks[5].bytes)
    }

    @Test(arguments: kinds) func marksAreKept(_ kind: Kind) async throws {
        let scratch = try TemporaryDirectory("blobs")
        let store = try kind.open(scratch.path)
        #expect(try await store.mark() == nil)
        for number in UInt64(1)...2 {
            let mark = StoreStamp(store: .random(), number: number)
            try await store.setMark(mark)
            #expect(try await kind.open(scratch.path).mark() == mark)
        }
    }

    @Test(arguments: kinds) func manyKeepAtOnce(_ kind: Kind) async throws {
        let scratch = try TemporaryDirectory("blobs")
        let store = try kind.open(scratch.path)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for seed in UInt64(10)..<18 {
                let chunks = chunks(30, seed: seed)
                group.addTask {
                    let places = try await store.keep(chunks)
                    for (chunk, place) in zip(chunks, places) {
                        _ = try await store.read(chunk.plain, at: place)
                    }
                }
            }
            try await group.waitForAll()
        }
    }
}
