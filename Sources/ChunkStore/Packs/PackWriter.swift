import Model
import SystemCalls

/// Appends records to the last pack, and to a new pack when that one is full.
struct PackWriter: ~Copyable {
    private struct Current {
        let file: PackFile
        var end: UInt64
        /// The length of the record that ends at `end`; 0 when that record may be incomplete.
        var last: UInt64 = 0
        var isDirty = false
    }

    private let directory: PackDirectory
    private let limit: UInt64
    private let encoder = RecordEncoder()
    private var current: Current?
    /// The highest pack number in use. A store object never uses a number twice.
    private var newest: UInt32
    /// The last pack of an earlier run, if it has room.
    private var unfinishedPack: UInt32?
    private var isDirectoryDirty = false
    /// The first error of fsync(2). The kernel reports an error once and may have dropped the
    /// bytes, so a later success proves nothing.
    private var failure: VolumeError?

    init(_ directory: PackDirectory, limit: UInt64) {
        self.directory = directory
        self.limit = limit
        let last = directory.packs.last
        newest = directory.newest
        unfinishedPack = last.flatMap { $0.bytes < limit ? $0.pack : nil }
    }

    mutating func append(_ id: Digest, _ plain: UnsafeRawBufferPointer) throws(VolumeError)
        -> ChunkLocation
    {
        guard plain.count <= PackStore.Limits.chunkBytes else {
            throw VolumeError(
                .invalid,
                "A chunk of \(plain.count) bytes is too long to be stored; cut the content into "
                    + "chunks of at most \(PackStore.Limits.chunkBytes) bytes.")
        }
        return try write(encoder.encode(id, plain))
    }

    mutating func append(_ record: Record) throws(VolumeError) -> ChunkLocation {
        try write(encoder.encode(record))
    }

    /// Writes the record whose payload is in the encoder's buffer.
    private mutating func write(_ header: RecordHeader) throws(VolumeError) -> ChunkLocation {
        if let failure { throw failure }
        var current = try currentPack(withRoomFor: header.recordLength)
        var header = header
        header.back = UInt32(current.last)
        let offset = current.end
        current.isDirty = true
        do throws(Errno) {
            try current.file.write(encoder.finish(header), at: offset)
        } catch {
            discardPartialWrite(current)
            throw VolumeError(failure: error, "The pack \(name(current.file)) cannot be written")
        }
        current.end += header.recordLength
        current.last = header.recordLength
        self.current = current
        directory.setSize(of: current.file.pack, current.end)
        return ChunkLocation(
            pack: current.file.pack, offset: offset, storedLength: header.storedLength,
            length: header.length)
    }

    /// Removes what a failed write has left. If that fails, too, the next record is written after
    /// it.
    private mutating func discardPartialWrite(_ current: Current) {
        var current = current
        do throws(Errno) {
            try current.file.truncate(to: current.end)
        } catch {
            current.last = 0
            current.end = max(current.end, (try? current.file.size()) ?? current.end)
            directory.setSize(of: current.file.pack, current.end)
        }
        self.current = current
    }

    private mutating func currentPack(withRoomFor length: UInt64) throws(VolumeError) -> Current {
        if let unfinishedPack {
            self.unfinishedPack = nil
            current = try open(unfinishedPack, isNew: false)
        }
        if let current {
            if current.end == 0 || current.end + length <= limit { return current }
            try retire()
        }
        guard newest < .max else {
            throw VolumeError(
                .full, "\(directory.path) has used up its pack numbers; start a new chunk store.")
        }
        newest += 1
        let opened = try open(newest, isNew: true)
        isDirectoryDirty = true
        current = opened
        return opened
    }

    private func open(_ pack: UInt32, isNew: Bool) throws(VolumeError) -> Current {
        do throws(Errno) {
            let file = try directory.openForWriting(pack, isNew: isNew)
            return Current(file: file, end: try file.size())
        } catch {
            throw VolumeError(
                failure: error, "The pack \(packName(pack)) of \(directory.path) cannot be opened")
        }
    }

    /// Makes everything that was appended survive a loss of power.
    mutating func sync() throws(VolumeError) {
        if let failure { throw failure }
        do throws(Errno) {
            if let current, current.isDirty { try current.file.sync() }
            if isDirectoryDirty { try directory.sync() }
        } catch {
            let failure = VolumeError(
                failure: error,
                "The chunks in \(directory.path) could not be synced to the disk, and the store "
                    + "takes no more chunks until the program is started again")
            self.failure = failure
            throw failure
        }
        current?.isDirty = false
        isDirectoryDirty = false
    }

    /// Syncs and closes the current pack. The next record goes into another one.
    mutating func retire() throws(VolumeError) {
        try sync()
        current = nil
    }

    /// Ensures that nothing is appended to the existing packs any more.
    mutating func endPack() throws(VolumeError) {
        unfinishedPack = nil
        try retire()
    }

    /// Ensures that nothing is appended to this pack any more.
    mutating func leave(_ pack: UInt32) throws(VolumeError) {
        if unfinishedPack == pack { unfinishedPack = nil }
        if current?.file.pack == pack { try retire() }
    }

    private func name(_ file: PackFile) -> String { "\(packName(file.pack)) of \(directory.path)" }
}
