import Model
import Synchronization

/// Chunks on the local disk, in append-only packs of self-describing records: what an index says
/// about them can be found out again from them (`scan`). ChunkStore.docc/Format.md has the format.
///
/// One thread at a time appends, syncs and compacts, any number read meanwhile. One process at a
/// time uses a directory: the lock is the caller's. Chunks appended since the last `sync` may be
/// lost with the power, so an index names them only after it.
package final class PackStore: Sendable {
    let directory: PackDirectory
    let decoder = RecordDecoder()
    let writer: Mutex<PackWriter>
    let reads = Atomic<Int>(0)

    /// Opens the store and makes its directory (mode 0700) where there is none; reads no pack.
    package convenience init(directory: String) throws(VolumeError) {
        try self.init(directory: directory, packBytesMax: Limits.packBytes)
    }

    /// Tests take smaller packs.
    package init(directory path: String, packBytesMax: UInt64) throws(VolumeError) {
        let directory = try PackDirectory(path)
        self.directory = directory
        writer = Mutex(PackWriter(directory, limit: packBytesMax))
    }

    /// Stores a chunk, compressed where that pays, and does not look whether it is there already.
    /// `id` is the digest of the bytes. Throws `.full` when the disk is; then nothing has changed.
    package func append(_ id: Digest, _ plain: UnsafeRawBufferPointer) throws(VolumeError)
        -> ChunkLocation
    {
        try writer.withLock { writer throws(VolumeError) in try writer.append(id, plain) }
    }

    /// Makes everything appended so far outlive a loss of power. When that fails once, it and
    /// `append` fail until the store is opened again: the bytes may be gone, whatever a second try
    /// says.
    package func sync() throws(VolumeError) {
        try writer.withLock { writer throws(VolumeError) in try writer.sync() }
    }

    /// The plain bytes of a chunk. They are what was stored under this id, or `.damaged` is thrown.
    package func read(_ id: Digest, at location: ChunkLocation) throws(VolumeError) -> [UInt8] {
        reads.add(1, ordering: .relaxed)
        do throws(RecordFault) {
            return try plain(of: record(of: id, at: location))
        } catch {
            throw damage(error, id, location)
        }
    }

    /// What `read` would give, as it is stored: for somebody who decompresses it himself. It has
    /// been checked as `read` checks it.
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

    /// Syncs, and begins a new pack with what is appended next.
    package func endPack() throws(VolumeError) {
        try writer.withLock { writer throws(VolumeError) in try writer.endPack() }
    }

    /// The chunks read so far, for assertions of cost.
    package var readCount: Int { reads.load(ordering: .relaxed) }

    /// Bytes of all packs.
    package func bytes() -> UInt64 { directory.bytes }

    /// The packs, oldest first, with their bytes.
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
