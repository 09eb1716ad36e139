import Journal
import Model
import Testing

struct ChunkTests {
    let scratch: Scratch
    let journal: Journal
    let place = ChunkLocation(pack: .max, offset: .max, storedLength: .max, length: .max)

    init() throws {
        scratch = try Scratch()
        journal = try scratch.create()
    }

    @Test func placesAreSetMovedAndRemoved() throws {
        let moved = ChunkLocation(pack: 2, offset: 0, storedLength: 1, length: 3)
        try journal.write { transaction in
            try transaction.setPlace(digest(1), place)
            try transaction.setPlace(digest(2), place)
            try transaction.setPlace(digest(2), moved)
            try transaction.setPlace(digest(3), place)
            try transaction.removeChunks([digest(3), digest(4)])
        }
        try journal.read { (reader) throws in
            #expect(try reader.place(of: digest(1)) == place)
            #expect(try reader.place(of: digest(2)) == moved)
            #expect(try reader.place(of: digest(3)) == nil)
            var count = 0
            try reader.forEachChunk { _, _ in count += 1 }
            #expect(count == 2)
        }
    }

    @Test func movingDoesNotBringARemovedChunkBack() throws {
        let moved = ChunkLocation(pack: 9, offset: 8, storedLength: 7, length: 6)
        try journal.write { transaction in
            try transaction.setPlace(digest(1), place)
            try transaction.movePlaces([(digest(1), moved), (digest(2), moved)])
        }
        try journal.read { (reader) throws in
            #expect(try reader.place(of: digest(1)) == moved)
            #expect(try reader.place(of: digest(2)) == nil)
        }
    }

    @Test func everyChunkIsVisitedInOrder() throws {
        let digests = Set((0..<1500).map { digest($0) })
        try journal.write { transaction in
            for digest in digests { try transaction.setPlace(digest, place) }
        }
        var visited: [Digest] = []
        try journal.read { (reader) throws in
            try reader.forEachChunk { digest, found in
                visited.append(digest)
                #expect(found == place)
            }
        }
        #expect(visited == digests.sorted())
    }

    @Test func theStashIsAList() throws {
        let full = StashEntry(
            name: "00ff", inode: .max, item: 7, kind: 200, saved: -1,
            actor: Actor(process: .min, uid: .max, program: "vim"), recorded: 20)
        var bare = StashEntry(
            name: "00aa", inode: 0, kind: 0, actor: Actor(process: 1, uid: 0, program: ""),
            recorded: 10)
        try journal.write { transaction in
            try transaction.insert(full)
            try transaction.insert(bare)
        }
        #expect(try journal.read { try $0.stashed() } == [bare, full])
        #expect(try journal.read { try $0.stashed(name: "00ff") } == full)
        #expect(
            failure(naming: scratch.path) { () throws(VolumeError) in
                try journal.write { try $0.insert(full) }
            } == .invalid)
        bare.item = 4
        bare.recorded = 30
        let late = StashEntry(
            name: "late", inode: 3, kind: 1, actor: full.actor, recorded: 40)
        try journal.write { transaction in
            try transaction.update(bare)
            try transaction.update(late)
        }
        #expect(try journal.read { try $0.stashed() } == [full, bare, late])
        try journal.write { transaction in
            try transaction.removeStashed("00ff")
            try transaction.removeStashed("nobody")
        }
        #expect(try journal.read { try $0.stashed() } == [bare, late])
    }
}
