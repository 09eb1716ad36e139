import ChunkStore
import Foundation
import Model
import Testing

/// Whatever happens to a pack, a read returns the right bytes or throws `.damaged`, and a scan
/// still finds the rest.
@Suite struct PackDamageTests {
    /// A pack with three chunks, and functions that damage it.
    private struct Sample {
        let scratch = Scratch()
        let chunks: [[UInt8]]
        let stored: [(id: Digest, place: ChunkLocation)]
        let pristine: [UInt8]

        init() throws {
            var noise = Noise(seed: 44)
            chunks = [noise.bytes(3_000), Array(repeating: 9, count: 50_000), noise.bytes(2_000)]
            let store = try PackStore(directory: scratch.packs)
            stored = try chunks.map { try store.store($0) }
            try store.sync()
            pristine = try contents(of: scratch.pack(1))
        }

        /// The byte range of a record in the pack.
        func record(_ index: Int) -> Range<Int> {
            let place = stored[index].place
            return Int(place.offset)..<Int(place.offset) + 55 + Int(place.storedLength)
        }

        func damaged(_ change: (inout [UInt8]) -> Void) throws -> PackStore {
            var bytes = pristine
            change(&bytes)
            try overwrite(scratch.pack(1), with: bytes)
            return try PackStore(directory: scratch.packs)
        }

        /// Expects that one chunk is damaged and named in full, and that the others are not.
        func expectLost(_ index: Int, in store: PackStore, isFound: Bool, _ what: String) throws {
            for (other, (id, place)) in stored.enumerated() where other != index {
                #expect(try store.read(id, at: place) == chunks[other], "\(what)")
            }
            let (id, place) = stored[index]
            let error = #expect(throws: VolumeError.self, "\(what)") {
                try store.read(id, at: place)
            }
            #expect(error?.code == .damaged, "\(what)")
            for part in ["00000001.pack", " \(place.offset) ", id.description] {
                #expect(error?.message.contains(part) == true, "\(what): \(error?.message ?? "")")
            }
            let found = store.found()
            let expected = stored.enumerated().filter { $0.offset != index || isFound }
            #expect(Set(found.chunks.keys) == Set(expected.map(\.element.id)), "\(what)")
            #expect(found.damages.isEmpty == isFound, "\(what)")
            #expect(store.verify().contains { $0.offset == place.offset }, "\(what)")
        }
    }

    @Test(arguments: 0..<3)
    func aFlippedBitInAHeader(index: Int) throws {
        let sample = try Sample()
        for byte in 0..<55 {
            let store = try sample.damaged { $0[sample.record(index).lowerBound + byte] ^= 0x10 }
            try sample.expectLost(index, in: store, isFound: false, "byte \(byte) of the header")
        }
    }

    /// A scan does not read a payload if a valid record follows. It reads that of the last one.
    @Test(arguments: 0..<3)
    func aFlippedBitInAPayload(index: Int) throws {
        let sample = try Sample()
        let record = sample.record(index)
        for byte in [55, 55 + (record.count - 55) / 2, record.count - 1] {
            let store = try sample.damaged { $0[record.lowerBound + byte] ^= 1 }
            try sample.expectLost(
                index, in: store, isFound: index < 2, "byte \(byte) of the record")
        }
    }

    @Test(arguments: 0..<3)
    func aBlockOfZeros(index: Int) throws {
        let sample = try Sample()
        let record = sample.record(index)
        let store = try sample.damaged {
            $0.replaceSubrange(record, with: [UInt8](repeating: 0, count: record.count))
        }
        try sample.expectLost(index, in: store, isFound: false, "zeros")
    }

    @Test func aTornTail() throws {
        let sample = try Sample()
        let record = sample.record(2)
        for kept in [1, 30, 54, 55, 56, 1_000, record.count - 1] {
            let store = try sample.damaged { $0.removeSubrange((record.lowerBound + kept)...) }
            try sample.expectLost(2, in: store, isFound: false, "\(kept) bytes of the last record")
        }
    }

    @Test func aPackCutOffBetweenRecordsOrToNothing() throws {
        let sample = try Sample()
        for kept in 0..<3 {
            let store = try sample.damaged { $0.removeSubrange(sample.record(kept).lowerBound...) }
            #expect(store.found().damages == [])
            #expect(Set(store.found().chunks.keys) == Set(sample.stored[..<kept].map(\.id)))
            for (id, place) in sample.stored[kept...] {
                let error = #expect(throws: VolumeError.self) { try store.read(id, at: place) }
                #expect(error?.code == .damaged)
            }
        }
    }

    @Test func bytesThatAreMissingOrTooManyInTheMiddle() throws {
        let sample = try Sample()
        let place = sample.record(1).lowerBound + 60
        for isMissing in [true, false] {
            let store = try sample.damaged {
                if isMissing { $0.remove(at: place) } else { $0.insert(0, at: place) }
            }
            let found = store.found()
            #expect(Set(found.chunks.keys) == Set([sample.stored[0].id, sample.stored[2].id]))
            #expect(found.damages.count == 1)
            #expect(found.damages.first?.id == sample.stored[1].id)
            for (id, place) in found.chunks {
                #expect(Digest.sha256(try store.read(id, at: place)) == id)
            }
        }
    }

    @Test func aDeletedPack() throws {
        let sample = try Sample()
        try FileManager.default.removeItem(atPath: sample.scratch.pack(1))
        let store = try PackStore(directory: sample.scratch.packs)
        for (id, place) in sample.stored {
            let error = #expect(throws: VolumeError.self) { try store.read(id, at: place) }
            #expect(error?.code == .damaged)
            #expect(error?.message.contains("00000001.pack") == true)
        }
        #expect(store.found().chunks.isEmpty)
    }

    @Test func aPackThatVanishesFromUnderAnOpenStore() throws {
        let sample = try Sample()
        let store = try PackStore(directory: sample.scratch.packs)
        try FileManager.default.removeItem(atPath: sample.scratch.pack(1))
        #expect(store.found().damages.map(\.length) == [0])
        #expect(store.verify().count == 1)
    }

    /// A wrong index, whoever damaged it, never gets the bytes of another chunk.
    @Test func aWrongPlace() throws {
        let sample = try Sample()
        let store = try PackStore(directory: sample.scratch.packs)
        let (id, right) = sample.stored[0]
        var places = [sample.stored[1].place, right, right, right, right, right, right]
        places[1].offset += 1
        places[2].offset = .max
        places[3].length -= 1
        places[4].storedLength -= 1
        places[5].storedLength = .max
        places[6].pack = 7
        for place in places {
            let error = #expect(throws: VolumeError.self, "\(place)") {
                try store.read(id, at: place)
            }
            #expect(error?.code == .damaged)
        }
    }

    @Test func aNewerFormatIsCalledNewer() throws {
        let sample = try Sample()
        let start = sample.record(0).lowerBound
        let store = try sample.damaged { bytes in
            bytes[start + 4] = 2
            let checksum = plainCRC32(bytes[start..<start + 51])
            for index in 0..<4 { bytes[start + 51 + index] = UInt8(checksum >> (8 * index) & 0xFF) }
        }
        let (id, place) = sample.stored[0]
        let error = #expect(throws: VolumeError.self) { try store.read(id, at: place) }
        #expect(error?.code == .newer)
        #expect(store.found().chunks.count == 2)
    }

    /// Overwrites a random range with random bytes, 300 times. A read never returns wrong bytes,
    /// and chunks outside the range are not lost.
    @Test func randomDamage() throws {
        let sample = try Sample()
        let seed: UInt64 = 8_128
        var noise = Noise(seed: seed)
        for round in 0..<300 {
            let start = Int(noise.next() % UInt64(sample.pristine.count))
            let length = 1 + Int(noise.next() % 200)
            let hit = start..<min(start + length, sample.pristine.count)
            let store = try sample.damaged { $0.replaceSubrange(hit, with: noise.bytes(hit.count)) }
            let found = store.found().chunks
            for (index, (id, place)) in sample.stored.enumerated() {
                let bytes = try? store.read(id, at: place)
                let what: Comment = "chunk \(index), round \(round), seed \(seed)"
                #expect(bytes == nil || bytes == sample.chunks[index], what)
                if !hit.overlaps(sample.record(index)) {
                    #expect(bytes != nil, what)
                    #expect(found[id] == place, what)
                }
            }
        }
    }
}

/// The definition of CRC-32, bit by bit.
private func plainCRC32(_ bytes: some Sequence<UInt8>) -> UInt32 {
    var remainder = UInt32.max
    for byte in bytes {
        remainder ^= UInt32(byte)
        for _ in 0..<8 {
            remainder = remainder & 1 == 1 ? remainder >> 1 ^ 0xEDB8_8320 : remainder >> 1
        }
    }
    return ~remainder
}
