import ChunkStore
import Foundation
import Model
import Testing

/// A run that ended in the middle of a record, and the run after it.
@Suite struct TornTailTests {
    private let scratch = Scratch()

    /// Stores two chunks and keeps only the first bytes of the second one's record.
    private func tear(second: [UInt8], keeping kept: Int) throws -> Digest {
        let store = try PackStore(directory: scratch.packs)
        let first = try store.store(Array("first".utf8))
        let torn = try store.store(second)
        try store.sync()
        let bytes = try contents(of: scratch.pack(1))
        try overwrite(scratch.pack(1), with: Array(bytes[..<(Int(torn.place.offset) + kept)]))
        return first.id
    }

    /// With around 64 KiB, the next record's magic number crosses a block border of the search.
    @Test(arguments: [0, 1, 4, 54, 55, 56, 5_000, 100_054] + Array(65_532...65_539))
    func theNextRunAppendsBehindIt(kept: Int) throws {
        var noise = Noise(seed: 12)
        let first = try tear(second: noise.bytes(100_000), keeping: kept)
        let store = try PackStore(directory: scratch.packs)
        let later = try [10, 20_000, 0, 30_000].map { try store.store(noise.bytes($0)) }
        #expect(later[0].place.pack == 1)
        #expect(later[0].place.offset == UInt64(60 + kept))
        for store in [store, try PackStore(directory: scratch.packs)] {
            let found = store.found()
            #expect(Set(found.chunks.keys) == Set([first] + later.map(\.id)), "kept \(kept)")
            #expect(found.damages.map(\.offset) == (kept == 0 ? [] : [60]))
            #expect(found.damages.allSatisfy { $0.length == UInt64(kept) })
            for (id, place) in later {
                #expect(Digest.sha256(try store.read(id, at: place)) == id)
                #expect(found.chunks[id] == place)
            }
        }
    }

    /// The torn record's length reaches exactly to the beginning of a later record. A scan that
    /// trusted its header would skip the record between. The `back` field prevents this.
    @Test func aTornRecordThatEndsWhereALaterOneBegins() throws {
        var noise = Noise(seed: 13)
        let first = try tear(second: noise.bytes(40_000), keeping: 55 + 1_000)
        let store = try PackStore(directory: scratch.packs)
        let hidden = try store.store(noise.bytes(39_000 - 55))
        let behind = try store.store(noise.bytes(500))
        #expect(behind.place.offset == 60 + 55 + 40_000)
        let found = store.found()
        #expect(Set(found.chunks.keys) == Set([first, hidden.id, behind.id]))
        #expect(found.damages.map(\.offset) == [60])
    }

    /// Twenty runs end at random places: all complete chunks are found, and nothing else.
    @Test func manyTornRuns() throws {
        let seed: UInt64 = 1_000_003
        var noise = Noise(seed: seed)
        var whole: Set<Digest> = []
        for _ in 0..<20 {
            let store = try PackStore(directory: scratch.packs, packBytesMax: 60_000)
            for _ in 0..<3 { whole.insert(try store.store(noise.bytes(4_000)).id) }
            let torn = try store.store(noise.bytes(4_000))
            let path = scratch.pack(torn.place.pack)
            let kept = Int(torn.place.offset) + Int(noise.next() % 4_055)
            try overwrite(path, with: Array(try contents(of: path)[..<kept]))
        }
        let store = try PackStore(directory: scratch.packs)
        let found = store.found()
        #expect(Set(found.chunks.keys) == whole, "seed \(seed)")
        for (id, place) in found.chunks {
            #expect(Digest.sha256(try store.read(id, at: place)) == id)
        }
    }

    /// A user's file may itself be a pack: the scan must ignore records inside a payload.
    @Test func aPackInAPack() throws {
        let inner = Scratch()
        var noise = Noise(seed: 14)
        let store = try PackStore(directory: inner.packs)
        for _ in 0..<5 { try store.store(noise.bytes(5_000)) }
        let outer = try PackStore(directory: scratch.packs)
        let stored = try outer.store(try contents(of: inner.pack(1)))
        try outer.store([1])
        #expect(stored.place.storedLength == stored.place.length)
        #expect(outer.found().chunks.count == 2)
    }
}
