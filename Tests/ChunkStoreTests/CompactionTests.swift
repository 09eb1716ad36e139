import ChunkStore
import Foundation
import Model
import Testing

@Suite struct CompactionTests {
    private let scratch = Scratch()

    @Test func whatIsNeededMovesAndTheRestGoes() throws {
        let store = try PackStore(directory: scratch.packs, packBytesMax: 100_000)
        var noise = Noise(seed: 21)
        let text = Array(String(repeating: "compress me ", count: 500).utf8)
        let chunks = (0..<12).map { index in
            noise.bytes(10_000) + (index % 3 == 0 ? text + text + text : [])
        }
        let stored = try chunks.map { try store.store($0) }
        let inFirst = stored.filter { $0.place.pack == 1 }
        let needed = Set(inFirst.enumerated().filter { $0.offset % 2 == 0 }.map(\.element.id))
        #expect(inFirst.count > needed.count && needed.count > 2)

        let moved = try store.compact(1) { id, place in
            #expect(stored.contains { $0.id == id && $0.place == place })
            return needed.contains(id)
        }
        #expect(Set(moved.map(\.0)) == needed)
        for (id, place) in moved {
            #expect(place.pack > 1)
            #expect(Digest.sha256(try store.read(id, at: place)) == id)
        }
        // The old places are valid until the pack is removed.
        for (id, place) in stored { #expect(Digest.sha256(try store.read(id, at: place)) == id) }

        let before = store.bytes()
        let size = try #require(store.packs().first).bytes
        try store.remove(pack: 1)
        #expect(store.bytes() == before - size)
        #expect(!FileManager.default.fileExists(atPath: scratch.pack(1)))
        let error = #expect(throws: VolumeError.self) {
            try store.read(inFirst[0].id, at: inFirst[0].place)
        }
        #expect(error?.code == .damaged)
        let reopened = try PackStore(directory: scratch.packs)
        #expect(reopened.found().damages == [])
        #expect(
            Set(reopened.found().chunks.keys)
                == needed.union(stored.filter { $0.place.pack > 1 }.map(\.id)))
        #expect(reopened.verify() == [])
    }

    @Test(arguments: [false, true])
    func aPackIsNotCompactedIntoItself(isReopened: Bool) throws {
        var store = try PackStore(directory: scratch.packs)
        let stored = try store.store([1, 2, 3])
        if isReopened { store = try PackStore(directory: scratch.packs) }
        let moved = try store.compact(1) { _, _ in true }
        #expect(moved.map(\.0) == [stored.id])
        #expect(moved[0].1 == ChunkLocation(pack: 2, offset: 0, storedLength: 3, length: 3))
        try store.remove(pack: 1)
        #expect(try store.store([4]).place.pack == 2)
        #expect(try store.read(stored.id, at: moved[0].1) == [1, 2, 3])
    }

    @Test func nothingNeededWritesNothing() throws {
        let store = try PackStore(directory: scratch.packs)
        try store.store([1, 2, 3])
        #expect(try store.compact(1) { _, _ in false }.isEmpty)
        try store.remove(pack: 1)
        #expect(store.packs().isEmpty)
        #expect(store.bytes() == 0)
        // The number is not used again.
        #expect(try store.store([4]).place.pack == 2)
    }

    @Test func damageToWhatIsNeededStopsIt() throws {
        let store = try PackStore(directory: scratch.packs)
        let (good, bad) = (try store.store([1, 2, 3]), try store.store([4, 5, 6]))
        try store.store([7])
        var bytes = try contents(of: scratch.pack(1))
        bytes[Int(bad.place.offset) + 55] ^= 1
        try overwrite(scratch.pack(1), with: bytes)
        let error = #expect(throws: VolumeError.self) { try store.compact(1) { _, _ in true } }
        #expect(error?.code == .damaged)
        #expect(error?.message.contains(bad.id.description) == true)
        #expect(try store.read(good.id, at: good.place) == [1, 2, 3])
        let moved = try store.compact(1) { id, _ in id != bad.id }
        #expect(moved.count == 2)
    }

    @Test func aPackThatIsNotThereIsNamed() throws {
        let store = try PackStore(directory: scratch.packs)
        for attempt in [
            { _ = try store.compact(9) { _, _ in true } }, { try store.remove(pack: 9) },
        ] as [() throws -> Void] {
            let error = #expect(throws: VolumeError.self) { try attempt() }
            #expect(error?.code == .notFound)
            #expect(error?.message.contains("00000009.pack") == true)
        }
    }
}
