import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// The contents of a recorded version, for random reads on any thread.
///
/// Bytes of an old version are in the chunk store, or in the tree's file if the current version has
/// the same chunk, or for a moment in the stash. Each chunk is verified by its hash wherever it is
/// read.
package struct VersionContent: Sendable {
    package let manifest: Manifest
    private let item: Int64
    private let volume: Volume
    /// The offset at which each chunk of an entry begins.
    private let offsets: [[Int64]]

    init(manifest: Manifest, item: Int64, volume: Volume) {
        self.manifest = manifest
        self.item = item
        self.volume = volume
        offsets = manifest.entries.map { entry in
            var at: Int64 = 0
            return entry.chunks.map { chunk in
                defer { at += Int64(chunk.length) }
                return at
            }
        }
    }

    /// Reads from the entry with this index (0 for a file document). Returns fewer bytes than asked
    /// for only at the end.
    ///
    /// Bytes that are not on this device come from the hub, unless `locally` is set.
    ///
    /// - Throws: `.damaged` if no undamaged copy of a chunk exists; `.offline`, `.timeout`.
    package func read(
        _ entry: Int, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64,
        locally: Bool = false
    ) throws(VolumeError) -> Int {
        guard offsets.indices.contains(entry) else {
            throw VolumeError(.damaged, "This version has no contents.")
        }
        let starts = offsets[entry]
        var done = 0
        var index = starts.partitionIndex(after: offset) - 1
        while done < buffer.count, index >= 0, index < starts.count {
            let reference = manifest.entries[entry].chunks[index]
            let bytes = try chunk(reference, locally: locally)
            let skip = Int(offset + Int64(done) - starts[index])
            guard skip < bytes.count else { break }
            let count = min(bytes.count - skip, buffer.count - done)
            bytes.withUnsafeBytes { source in
                UnsafeMutableRawBufferPointer(rebasing: buffer[done..<done + count])
                    .copyMemory(from: UnsafeRawBufferPointer(rebasing: source[skip..<skip + count]))
            }
            done += count
            index += 1
        }
        return done
    }

    private func chunk(_ reference: ChunkReference, locally: Bool) throws(VolumeError) -> [UInt8] {
        if let bytes = volume.recentChunks.bytes(of: reference.id) { return bytes }
        let bytes = try volume.bytes(of: reference, item: item, locally: locally)
        volume.recentChunks.keep(bytes, of: reference.id)
        return bytes
    }
}

extension [Int64] {
    /// The index of the first element greater than the offset; the array is sorted.
    fileprivate func partitionIndex(after offset: Int64) -> Int {
        var low = 0
        var high = count
        while low < high {
            let middle = (low + high) / 2
            if self[middle] <= offset { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

extension Volume {
    /// Reads a chunk of a version of the item from any place that has it.
    package func bytes(of chunk: ChunkReference, item key: Int64, locally: Bool = false)
        throws(VolumeError) -> [UInt8]
    {
        var damage: VolumeError?
        if let place = try journal.read({ try $0.place(of: chunk.id) }) {
            do throws(VolumeError) {
                return try packs.read(chunk.id, at: ChunkLocation(place))
            } catch {
                // The tree or the hub may have the chunk too.
                damage = error
            }
        }
        let found = try journal.read { reader -> (Item, Manifest, [Name])? in
            guard let item = try reader.item(key), let current = item.current,
                let bytes = try reader.manifest(of: current),
                let manifest = Manifest(encoded: bytes), let path = try reader.path(of: key)
            else { return nil }
            return (item, manifest, path)
        }
        if let (item, manifest, path) = found,
            let bytes = read(chunk, of: item, manifest, at: path)
        {
            return bytes
        }
        if let bytes = try remoteBytes(of: chunk, item: key, locally: locally) { return bytes }
        if let damage { throw damage }
        // It may just have been displaced; the recorder then puts it into the chunk store now.
        if recorder.catchUp(with: .item(key), timeoutSeconds: 5),
            let place = try journal.read({ try $0.place(of: chunk.id) })
        {
            return try packs.read(chunk.id, at: ChunkLocation(place))
        }
        throw VolumeError(
            .damaged,
            "Chunk \(chunk.id) of \(found?.2.last?.text ?? "item \(key)") is lost or damaged; run "
                + "`fsctl doctor`.")
    }

    /// Reads a chunk that the current version has too from the tree's file or from a copy of it in
    /// the stash.
    private func read(_ chunk: ChunkReference, of item: Item, _ manifest: Manifest, at path: [Name])
        -> [UInt8]?
    {
        for entry in manifest.entries {
            var offset: Int64 = 0
            for reference in entry.chunks {
                if reference == chunk {
                    let inner = entry.path.split(separator: UInt8(ascii: "/")).map {
                        Name(bytes: Array($0))
                    }
                    if let bytes = read(chunk, at: offset, of: path + inner) { return bytes }
                    if let bytes = readStashed(chunk, at: offset, of: item, path + inner) {
                        return bytes
                    }
                }
                offset += Int64(reference.length)
            }
        }
        return nil
    }

    private func read(_ chunk: ChunkReference, at offset: Int64, of path: [Name]) -> [UInt8]? {
        guard let file = try? Volume.openTree(path, root) else { return nil }
        // A hole in a placeholder need not be read.
        if cl_lseek(file.raw, offset, SEEK_DATA) < 0, PlaceholderMark(of: file.raw) != nil {
            return nil
        }
        return verified(chunk, FileContent(descriptor: file.raw), at: offset)
    }

    private func readStashed(
        _ chunk: ChunkReference, at offset: Int64, of item: Item, _ path: [Name]
    ) -> [UInt8]? {
        let entries = (try? stash.entries()) ?? []
        for entry in entries where entry.inode == item.inode && item.inode != 0 {
            guard let file = try? stash.open(entry.file) else { continue }
            if entry.kind != .preImages {
                if let bytes = verified(chunk, FileContent(descriptor: file.raw), at: offset) {
                    return bytes
                }
            } else if let live = try? Volume.openTree(path, root),
                let bytes = verified(
                    chunk,
                    OverlayContent(
                        preImages: file.raw, name: entry.file,
                        base: .file(FileContent(descriptor: live.raw))),
                    at: offset)
            {
                return bytes
            }
        }
        return nil
    }

    private func verified(_ chunk: ChunkReference, _ source: some ContentSource, at offset: Int64)
        -> [UInt8]?
    {
        var source = source
        var bytes = [UInt8](repeating: 0, count: Int(chunk.length))
        let count = try? bytes.withUnsafeMutableBytes { try source.read(into: $0, at: offset) }
        guard count == bytes.count, Digest.sha256(bytes) == chunk.id else { return nil }
        return bytes
    }

    static func openTree(_ path: [Name], _ root: Int32) throws(Errno) -> Descriptor {
        try openBeneath(path, from: root, flags: O_RDONLY | O_NOATIME | O_NONBLOCK)
    }
}
