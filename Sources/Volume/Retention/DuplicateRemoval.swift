import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// Removes duplicates: bytes of current contents that the packs have as well as the tree. They are
/// stored for documents that programs keep open, or write in place again and again. Nothing is lost
/// when they are removed from the packs, so they give way before any version does. Only the
/// recorder's thread uses it.
struct DuplicateRemoval {
    let writer: JournalWriter
    let tree: Int32
    let kept: KeptContents
    let sweeper: PackSweeper

    /// The current contents of a document and those of its chunks that are in the packs.
    private struct Duplicate {
        var item: Item
        var path: [Name]
        var chunks: Set<Digest>
        var bytes: Int64
    }

    /// Removes duplicates, the largest first, until `bytes` are free.
    func remove(_ bytes: Int64) throws(VolumeError) -> RemovedForSpace {
        let found = try writer.journal.read { try self.duplicates($0) }
        var left = bytes
        var chosen: [Duplicate] = []
        for duplicate in found.sorted(by: { $0.bytes > $1.bytes }) where left > 0 {
            guard isUnchanged(duplicate) else { continue }
            chosen.append(duplicate)
            left -= duplicate.bytes
        }
        guard !chosen.isEmpty else { return RemovedForSpace() }
        try writer.journal.write { t in
            for duplicate in chosen {
                guard try t.item(duplicate.item.key)?.current == duplicate.item.current else {
                    continue
                }
                try t.removeChunks(duplicate.chunks)
            }
        }
        return RemovedForSpace(duplicateBytes: try sweeper.sweep(isThorough: true))
    }

    /// The bytes that `remove` could free.
    func freeable(_ reader: Reader) throws -> Int64 {
        try duplicates(reader).reduce(0) { $0 + $1.bytes }
    }

    /// A chunk that several documents use stays: each keeps only its own bytes when it changes.
    private func duplicates(_ reader: Reader) throws -> [Duplicate] {
        var users: [Digest: Int64?] = [:]
        var sizes: [Digest: Int64] = [:]
        try reader.forEachChunk { sizes[$0] = Int64($1.storedLength) }
        guard !sizes.isEmpty else { return [] }
        try reader.forEachManifest { key, _, bytes in
            for id in Manifest(encoded: bytes)?.chunkIDs ?? [] where sizes[id] != nil {
                if case .some(let user) = users[id], user != key {
                    users.updateValue(nil, forKey: id)
                } else {
                    users[id] = key
                }
            }
        }
        var found: [Duplicate] = []
        for key in Set(users.values.compactMap { $0 }) where writer.state.pending[key] == nil {
            guard let item = try reader.item(key), item.kind == .file, item.deleted == nil,
                item.changed != 0, let current = item.current,
                let manifest = try reader.manifest(of: current).flatMap(Manifest.init(encoded:)),
                let path = try reader.path(of: key)
            else { continue }
            let chunks = manifest.chunkIDs.filter { users[$0] == key }
            let bytes = chunks.reduce(0) { $0 + (sizes[$1] ?? 0) }
            if bytes > 0 {
                found.append(Duplicate(item: item, path: path, chunks: chunks, bytes: bytes))
            }
        }
        return found
    }

    /// Whether the tree has these contents, no program can be changing them, and any that begins to
    /// from now on copies them first.
    private func isUnchanged(_ duplicate: Duplicate) -> Bool {
        guard
            let file = try? openBeneath(
                duplicate.path, from: tree, flags: O_RDONLY | O_NOATIME | O_NONBLOCK),
            cl_probe_writers(file.raw) == 0, PlaceholderMark(of: file.raw) == nil
        else { return false }
        let snapshot = FileSnapshot(duplicate.item)
        // The writers are looked for again, because one may have opened the file before the
        // contents were released.
        return kept.release(snapshot) && cl_probe_writers(file.raw) == 0
            && !FileSnapshot(of: file.raw).differs(from: snapshot)
    }
}
