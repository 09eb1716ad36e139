import Model
import Synchronization

/// Stores chunks on the local disk, in append-only packs. Records describe themselves, so an index
/// of them can be rebuilt by `scan`. ChunkStore.docc/Format.md defines the format.
///
/// One thread at a time may append, sync and compact, while any number of threads read. Only one
/// process at a time may use a directory; the caller ensures this with a lock. Chunks that were
/// appended since the last `sync` may be lost when the power fails, so an index must name them only
/// after it.
package final class PackStore: Sendable {
    let directory: PackDirectory
    let decoder = RecordDecoder()
    let writer: Mutex<PackWriter>
    let reads = Atomic<Int>(0)

    /// Opens the store. Creates its directory (mode 0700) when it does not exist. Reads no pack.
    package convenience init(directory: String) throws(VolumeError) {
        try self.init(directory: directory, packBytesMax: Limits.packBytes)
    }

    /// Tests use smaller packs.
    package init(directory path: String, packBytesMax: UInt64) throws(VolumeError) {
        let directory = try PackDirectory(path)
        self.directory = directory
        writer = Mutex(PackWriter(directory, limit: packBytesMax))
    }

    /// Stores a chunk, compressed if that saves space, without checking whether it is stored
    /// already. `id` is the digest of the bytes. Throws `.full` when the disk is full; then nothing
    /// has changed.
    package func append(_ id: Digest, _ plain: UnsafeRawBufferPointer) throws(VolumeError)
        -> ChunkLocation
    {
        try writer.withLock { writer throws(VolumeError) in try writer.append(id, plain) }
    }

    /// Makes everything that was appended so far survive a loss of power. When this has failed
    /// once, it and `append` fail until the store is opened again: the kernel may have dropped the
    /// bytes, and a second fsync(2) would succeed nevertheless.
    package func sync() throws(VolumeError) {
        try writer.withLock { writer throws(VolumeError) in try writer.sync() }
    }

    /// Returns the uncompressed bytes of a chunk. Throws `.damaged` when they are not those that
    /// were stored under this id.
    package func read(_ id: Digest, at location: ChunkLocation) throws(VolumeError) -> [UInt8] {
        reads.add(1, ordering: .relaxed)
        do throws(RecordFault) {
            return try plain(of: record(of: id, at: location))
        } catch {
            throw damage(error, id, location)
        }
    }

    /// Returns the payload as it is stored, for a caller that decompresses it. It is checked like
    /// the result of `read`.
    package func payload(_ id: Digest, at location: ChunkLocation) throws(VolumeError)
        -> (isCompressed: Bool, bytes: [UInt8])
    {
        reads.add(1, ordering: .relaxed)
        do throws(RecordFault) {
            let record = try record(of: id, at: location)
            let plain = try plain(of: record)
            guard record.header.codec == .zstd else { return (false, plain) }
            return (true, record.withPayload { Array($0) })
        } catch {
            throw damage(error, id, location)
        }
    }

    /// Syncs. The next chunk begins a new pack.
    package func endPack() throws(VolumeError) {
        try writer.withLock { writer throws(VolumeError) in try writer.endPack() }
    }

    /// The number of chunks that were read so far; tests assert costs with it.
    package var readCount: Int { reads.load(ordering: .relaxed) }

    /// The size of all packs in bytes.
    package func bytes() -> UInt64 { directory.bytes }

    /// The packs and their sizes in bytes, oldest first.
    package func packs() -> [(pack: UInt32, bytes: UInt64)] { directory.packs }

    func record(of id: Digest, at location: ChunkLocation) throws(RecordFault) -> Record {
        let record = try directory.file(location.pack)
            .record(at: location.offset, storedLength: location.storedLength)
        guard record.header.id == id, record.header.length == location.length else {
            throw .otherRecord
        }
        return record
    }

    func plain(of record: Record) throws(RecordFault) -> [UInt8] { try decoder.plain(of: record) }

    func damage(_ fault: RecordFault, _ id: Digest, _ location: ChunkLocation) -> VolumeError {
        let record =
            "The record at \(location.offset) of pack \(packName(location.pack)) in "
            + "\(directory.path), chunk \(id),"
        if case .newer = fault {
            return VolumeError(.newer, "\(record) \(fault). Start the newer build.")
        }
        return VolumeError(
            .damaged,
            "\(record) \(fault). Restore the file from a backup, or give up the versions "
                + "that need the chunk.")
    }
}
