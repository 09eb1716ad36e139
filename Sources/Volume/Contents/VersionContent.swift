import ChunkStore
import Model

/// The contents of a recorded version, for random reads on any thread.
///
/// Bytes of an old version are in the chunk store, or in the tree's file if the current version has
/// the same chunk, or for a moment in the stash. Each chunk is verified by its hash wherever it is
/// read.
package struct VersionContent: Sendable {
    package let manifest: Manifest
    private let item: Int64
    private let reader: VersionReader
    /// The offset at which each chunk of an entry begins.
    private let offsets: [[Int64]]

    init(manifest: Manifest, item: Int64, reader: VersionReader) {
        self.manifest = manifest
        self.item = item
        self.reader = reader
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
        if let bytes = reader.recentChunks.bytes(of: reference.id) { return bytes }
        let bytes = try reader.bytes(of: reference, item: item, locally: locally)
        reader.recentChunks.keep(bytes, of: reference.id)
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
