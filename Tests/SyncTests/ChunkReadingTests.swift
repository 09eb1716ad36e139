import ChunkStore
import Glibc
import HubProtocol
import Model
import Support
import Testing

@testable import Sync

@Suite("Chunks from the hub") struct ChunkReadingTests {
    private let contents = ["one", "two", "three"].map { Array($0.utf8) }

    private var references: [ChunkReference] {
        contents.map { ChunkReference(id: .sha256($0), length: UInt32($0.count)) }
    }

    private func frame(_ bytes: [UInt8]) -> ChunkFrame {
        ChunkFrame(id: .sha256(bytes), codec: .plain, bytes: bytes)
    }

    private func bytes(of reference: ChunkReference) -> [UInt8] {
        contents.first { .sha256($0) == reference.id } ?? []
    }

    @Test("only corrupted chunks are requested again") func askedAgain() throws {
        var asked: [Int] = []
        let read = try HubContents.verified(references) { references throws(VolumeError) in
            asked.append(references.count)
            return references.map { reference in
                var bytes = bytes(of: reference)
                if asked.count == 1, bytes == contents[1] { bytes[0] ^= 1 }
                return frame(bytes)
            }
        }
        #expect(read == contents)
        #expect(asked == [3, 1])
    }

    @Test("a chunk that is in several places is requested once") func repeated() throws {
        var asked: [Int] = []
        let all = references + references.reversed()
        let read = try HubContents.verified(all) { references throws(VolumeError) in
            asked.append(references.count)
            return references.map { frame(bytes(of: $0)) }
        }
        #expect(read == contents + contents.reversed())
        #expect(asked == [3])
        // The same chunk cannot have two lengths.
        let other = ChunkReference(id: references[0].id, length: 99)
        #expect(throws: VolumeError.self) {
            try HubContents.verified(references + [other]) { references throws(VolumeError) in
                references.map { frame(bytes(of: $0)) }
            }
        }
    }

    @Test("a chunk that is damaged at the hub is an error after three tries") func damaged() {
        var asked = 0
        #expect(throws: VolumeError.self) {
            try HubContents.verified(references) { references throws(VolumeError) in
                asked += 1
                return references.map { _ in frame([0]) }
            }
        }
        #expect(asked == 3)
    }

    @Test("a compressed chunk expands only to the length that its manifest says, if that is valid")
    func expansion() throws {
        func plain(_ count: Int, says length: Int) -> Int? {
            let zeros = [UInt8](repeating: 0, count: count)
            let packed = Compression.compress(zeros) ?? []
            let frame = ChunkFrame(id: .sha256(zeros), codec: .zstd, bytes: packed)
            return frame.plain(length: length)?.count
        }
        #expect(plain(1000, says: 1000) == 1000)
        #expect(plain(2000, says: 1000) == nil)
        let tooLong = HubLimits.chunkBytes + 1
        #expect(plain(tooLong, says: tooLong) == nil)
        // The frame says that it has 4 GiB.
        var frame = ChunkFrame(id: .sha256([]), codec: .zstd, bytes: [0x28, 0xB5, 0x2F, 0xFD])
        frame.bytes += [0xE0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0]
        #expect(frame.plain(length: 1 << 32) == nil)
    }

    @Test("a chunk that the hub does not have is requested once") func absent() {
        var asked = 0
        #expect(throws: VolumeError.self) {
            try HubContents.verified(references) { references throws(VolumeError) in
                asked += 1
                return references.map { ChunkFrame(id: $0.id, codec: .absent, bytes: []) }
            }
        }
        #expect(asked == 1)
    }

    @Test("a chunk that the hub does not have keeps back no other one") func others() throws {
        var asked: [Int] = []
        let found = try HubContents.readable(references) { references throws(VolumeError) in
            asked.append(references.count)
            return references.map { reference in
                let bytes = bytes(of: reference)
                if bytes == contents[0] {
                    return ChunkFrame(id: reference.id, codec: .absent, bytes: [])
                }
                return frame(bytes == contents[1] ? [0] : bytes)
            }
        }
        #expect(found == [references[2].id: contents[2]])
        // The one that is damaged may have been corrupted on the network.
        #expect(asked == [3, 1, 1])
    }

    @Test("only the document that needs a lost chunk cannot be written") func lost() throws {
        let contents = Contents()
        contents.chunks = [references[1].id: self.contents[1]]
        contents.missingChunks = [references[0].id: HubContents.lost(references[0])]
        let file = try OpenFile("/dev/null", O_WRONLY)
        try contents.write([references[1]], to: file.descriptor)
        #expect(throws: HubContents.lost(references[0])) {
            try contents.write(references, to: file.descriptor)
        }
    }
}

@Suite("The pace of saves") struct EditPaceTests {
    private let item = Identifier(high: 1, low: 1)
    private let second: Int64 = 1_000_000_000

    @Test("the first saves are sent at once, and further ones once a second") func flood() {
        var pace = EditPace(burst: 3, seconds: 1)
        for _ in 0..<3 {
            #expect(pace.pause(for: item, now: 10) == 0)
            pace.sent(item, now: 10)
        }
        #expect(pace.pause(for: item, now: 10) == second)
        #expect(pace.pause(for: Identifier(high: 1, low: 2), now: 10) == 0)
        pace.sent(item, now: 10 + second)
        #expect(pace.pause(for: item, now: 10 + second) == second)
    }

    @Test("after a pause, saves are sent at once again") func rest() {
        var pace = EditPace(burst: 2, seconds: 1)
        for _ in 0..<9 { pace.sent(item, now: 0) }
        #expect(pace.pause(for: item, now: 0) == 8 * second)
        #expect(pace.pause(for: item, now: 9 * second) == 0)
        pace.sent(item, now: 9 * second)
        #expect(pace.pause(for: item, now: 9 * second) == 0)
    }
}
