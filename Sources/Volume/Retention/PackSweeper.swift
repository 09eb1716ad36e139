import ChunkStore
import Journal
import Model

/// Removes the bytes that no version needs from the packs.
struct PackSweeper {
    let journal: Journal
    let packs: PackStore
    let tree: Int32
    let closing: ClosingTime

    /// Removes chunks without references, and rewrites packs of which half is unused, or with
    /// `isThorough` a quarter. Returns the number of bytes that this frees.
    @discardableResult
    func sweep(isThorough: Bool = false) throws(VolumeError) -> Int64 {
        let before = packs.bytes()
        // Only chunks in the packs are considered, because manifests of unchanged documents are
        // many.
        var dead: Set<Digest> = []
        var liveBytes: [UInt32: UInt64] = [:]
        var liveCount: [UInt32: Int] = [:]
        try journal.read { reader in
            try reader.forEachChunk { id, _ in dead.insert(id) }
            try reader.forEachManifest { _, _, bytes in
                guard !dead.isEmpty, let manifest = Manifest(encoded: bytes) else { return }
                for entry in manifest.entries {
                    for chunk in entry.chunks { dead.remove(chunk.id) }
                }
            }
            try reader.forEachChunk { id, place in
                guard !dead.contains(id) else { return }
                liveBytes[place.pack, default: 0] += UInt64(place.storedLength)
                liveCount[place.pack, default: 0] += 1
            }
        }
        if !dead.isEmpty { try journal.write { t in try t.removeChunks(dead) } }
        // Packs without any used chunk come first; they make room for rewriting the others.
        let all = packs.packs().sorted {
            liveBytes[$0.pack, default: 0] < liveBytes[$1.pack, default: 0]
        }
        let part: UInt64 = isThorough ? 3 : 2
        var isMarked = false
        for (pack, bytes) in all
        where liveBytes[pack, default: 0] * 4 < bytes * part && !closing.isOverdue {
            // Without enough space a rewrite would only use up more.
            let live = Int64(liveBytes[pack, default: 0])
            if live > 0, let space = DiskSpace(of: tree), space.free < live + live / 8 { continue }
            if !isMarked {
                try PartMarks(tree: tree, journal: journal, packs: packs).advance()
                isMarked = true
            }
            try compact(pack, liveCount[pack, default: 0])
        }
        let after = packs.bytes()
        return after < before ? Int64(before - after) : 0
    }

    private func compact(_ pack: UInt32, _ needed: Int) throws(VolumeError) {
        let moved = try packs.compact(pack) { id, location in
            (try? journal.read { try $0.place(of: id) }) == location
        }
        // Needed chunks that were not found are damaged; the pack stays for `fsctl doctor`.
        guard moved.count >= needed else { return }
        try journal.write { t in try t.movePlaces(moved) }
        // Another journal may need chunks that this one does not know.
        if pack <= (try journal.read { try Parts.State($0) }).foreignPack {
            try packs.quarantine(pack: pack)
        } else {
            try packs.remove(pack: pack)
        }
    }
}
