import ChunkStore
import Hub
import Logging
import Model
import Synchronization

/// Blobs in objects of an S3 bucket, one object a pack. The records of the pack that is being
/// filled are in the ledger. Several processes may use the same ledger and bucket.
package final class S3Blobs: BlobStore {
    let ledger: any Ledger
    let client: S3Client
    let log: Logger
    let limits: Limits
    let state = Mutex(State())

    package struct Limits: Sendable {
        /// A pack with this many bytes is moved into an object.
        package var packBytes: UInt64 = 8 << 20
        /// Chunks with this many bytes that arrive together become an object at once.
        package var directBytes = 4 << 20
        /// The ledger takes no more records when it has this many bytes that no object has yet.
        package var stagedBytes: UInt64 = 512 << 20

        package init() {}
    }

    struct State {
        /// The pack to which this process appends.
        var open: UInt32?
        /// Packs that are known to be in objects.
        var stored: Set<UInt32> = []
        /// Whether there may be ended packs without objects.
        var hasEnded = true
        /// Packs whose objects have other bytes. Their records stay in the ledger.
        var foreign: Set<UInt32> = []
        var upload: Task<Void, Never>?
        var isClosed = false
    }

    /// Does not use the network.
    ///
    /// - Throws: `.denied` if there are no keys.
    package convenience init(
        _ address: S3Address, ledger: any Ledger, limits: Limits = Limits(),
        pace: S3Pace = S3Pace(), log: Logger
    ) throws(VolumeError) {
        self.init(
            S3Client(address, try S3Credentials(for: address), pace: pace, log: log),
            ledger: ledger, limits: limits, log: log)
    }

    init(_ client: S3Client, ledger: any Ledger, limits: Limits, log: Logger) {
        (self.client, self.ledger, self.limits, self.log) = (client, ledger, limits, log)
    }

    var place: String { client.address.name }

    func key(_ pack: UInt32) -> String { S3Client.packs + packName(pack) }

    static func now() -> Int64 { Hub.now() }

    // MARK: The ledger

    func read<Value: Sendable>(
        _ body: @escaping @Sendable (any LedgerTransaction) throws -> Value
    ) async throws(VolumeError) -> Value {
        do { return try await ledger.read(body) } catch { throw Self.error(error) }
    }

    func write<Value: Sendable>(
        _ scope: WriteScope, _ body: @escaping @Sendable (any LedgerTransaction) throws -> Value
    ) async throws(VolumeError) -> Value {
        do { return try await ledger.write(scope, body) } catch { throw Self.error(error) }
    }

    private static func error(_ error: any Error) -> VolumeError {
        error as? VolumeError ?? VolumeError(.system, "The hub's ledger failed: \(error)")
    }

    // MARK: Storing

    package func keep(_ chunks: [PlainChunk]) async throws(VolumeError) -> [ChunkLocation] {
        let records = try EncodedRecord.encode(chunks.map { ($0.plain, $0.bytes) })
        var (places, run, runBytes) = ([ChunkLocation](), [EncodedRecord](), UInt64(0))
        if chunks.reduce(0, { $0 + $1.bytes.count }) >= limits.directBytes {
            return try await put(records)
        }
        for record in records {
            if !run.isEmpty, runBytes + UInt64(record.bytes.count) > limits.packBytes {
                places += try await stage(run)
                (run, runBytes) = ([], 0)
            }
            run.append(record)
            runBytes += UInt64(record.bytes.count)
        }
        return places + (run.isEmpty ? [] : try await stage(run))
    }

    private func places(of records: [EncodedRecord], in pack: UInt32, at start: UInt64)
        -> [ChunkLocation]
    {
        var offset = start
        return records.map { record in
            defer { offset += UInt64(record.bytes.count) }
            return ChunkLocation(
                pack: pack, offset: offset, storedLength: record.storedLength,
                length: record.length)
        }
    }

    /// Writes an object with these records.
    private func put(_ records: [EncodedRecord]) async throws(VolumeError) -> [ChunkLocation] {
        let bytes = records.reduce(into: [UInt8]()) { $0 += $1.bytes }
        let count = UInt64(bytes.count)
        let pack = try await write(.nothing) {
            try PackTable($0).add(.writing, bytes: count, at: Self.now())
        }
        try await putObject(pack, bytes)
        let isOurs = try await write(.nothing) {
            try PackTable($0).set(pack, from: .writing, to: .stored, at: Self.now())
        }
        guard isOurs else {
            throw VolumeError(
                .busy, "The pack \(packName(pack)) took so long that a collection removed it.")
        }
        _ = state.withLock { $0.stored.insert(pack) }
        return places(of: records, in: pack, at: 0)
    }

    /// Writes the records of one pack into the ledger.
    private func stage(_ records: [EncodedRecord]) async throws(VolumeError) -> [ChunkLocation] {
        let (bytes, limit) = (records.map(\.bytes), limits.packBytes)
        while true {
            let pack = try await openPack()
            let appended = try await write(.nothing) { transaction in
                try PackTable(transaction).append(bytes, to: pack, limit: limit, at: Self.now())
                    .map { Appended(offset: $0.offset, isEnded: $0.isEnded) }
            }
            if appended?.isEnded ?? true { endedPack(pack) }
            guard let appended else { continue }
            return places(of: records, in: pack, at: appended.offset)
        }
    }

    private struct Appended: Sendable {
        let offset: UInt64
        let isEnded: Bool
    }

    private func endedPack(_ pack: UInt32) {
        state.withLock { state in
            if state.open == pack { state.open = nil }
            state.hasEnded = true
        }
    }

    /// An open pack without records for this time belongs to a hub that has ended, or that can
    /// share it.
    private static let idle = Timestamp.span(seconds: 60)

    private func openPack() async throws(VolumeError) -> UInt32 {
        if let open = state.withLock({ $0.open }) { return open }
        let (limit, time) = (limits.stagedBytes, Self.now())
        let found = try await write(.nothing) { transaction -> UInt32? in
            guard try PackTable(transaction).stagedBytes() < limit else { return nil }
            return try PackTable(transaction).openPack(idleSince: time - Self.idle)
                ?? PackTable(transaction).add(.open, bytes: 0, at: time)
        }
        guard let found else {
            throw VolumeError(
                .offline,
                "The hub's ledger has \(limit >> 20) MiB of chunks that \(place) has not taken "
                    + "yet.")
        }
        return state.withLock { state in
            // Another call may have chosen one in the meantime; then this one is used later.
            let open = state.open ?? found
            state.open = open
            return open
        }
    }

    package func confirm(_ places: [ChunkLocation], _ transaction: any LedgerTransaction) throws {
        for pack in Set(places.map(\.pack)) {
            let state = try PackTable(transaction).row(of: pack)?.state
            guard state == .open || state == .ended || state == .stored else {
                throw VolumeError(
                    .busy,
                    "The pack \(packName(pack)) was removed before its chunks were recorded.")
            }
        }
    }

    // MARK: Reading

    package func read(_ plain: Digest, at place: ChunkLocation) async throws(VolumeError)
        -> StoredChunk
    {
        let name = "the pack \(packName(place.pack)) in \(self.place)"
        for attempt in 1... {
            let bytes = try await record(at: place, in: name)
            do throws(VolumeError) {
                let payload = try EncodedRecord.payload(in: bytes, of: plain, at: place, from: name)
                return StoredChunk(
                    codec: payload.isCompressed ? .zstd : .plain, bytes: payload.bytes)
            } catch {
                // The network may have changed the bytes, so they are read once more.
                guard error.code == .damaged, attempt == 1 else { throw error }
            }
        }
        fatalError("the loop does not end")
    }

    private func record(at place: ChunkLocation, in name: String) async throws(VolumeError)
        -> [UInt8]
    {
        if !state.withLock({ $0.stored.contains(place.pack) }) {
            let (state, staged) = try await read { transaction in
                (
                    try PackTable(transaction).row(of: place.pack)?.state,
                    try PackTable(transaction).stagedRecord(in: place.pack, at: place.offset)
                )
            }
            if let staged { return staged }
            guard state == .stored else {
                throw VolumeError(
                    .damaged, "There is no record at \(place.offset) of \(name).")
            }
            _ = self.state.withLock { $0.stored.insert(place.pack) }
        }
        let end = place.offset + PackStore.Limits.recordOverhead + UInt64(place.storedLength)
        guard let bytes = try await client.get(key(place.pack), place.offset..<end) else {
            _ = state.withLock { $0.stored.remove(place.pack) }
            throw VolumeError(
                .damaged, "There is no object with the record at \(place.offset) of \(name).")
        }
        return bytes
    }

    package func move(_ places: [PlacedChunk], from pack: UInt32) async throws(VolumeError)
        -> [UInt64: ChunkLocation]
    {
        var (moved, held, bytes) = ([UInt64: ChunkLocation](), [(UInt64, PlainChunk)](), 0)
        for (index, chunk) in places.enumerated() {
            do throws(VolumeError) {
                let stored = try await read(chunk.plain, at: chunk.place)
                let plain =
                    stored.codec == .zstd
                    ? Compression.decompress(stored.bytes, limit: Int(chunk.place.length))
                    : stored.bytes
                if let plain {
                    held.append((chunk.place.offset, PlainChunk(plain: chunk.plain, bytes: plain)))
                    bytes += plain.count
                }
            } catch {
                guard error.code == .damaged else { throw error }
            }
            guard bytes >= limits.directBytes || index == places.count - 1 else { continue }
            let kept = try await keep(held.map(\.1))
            for ((offset, _), place) in zip(held, kept) { moved[offset] = place }
            (held, bytes) = ([], 0)
        }
        return moved
    }

    // MARK: The mark

    private static let mark = "mark"

    package func mark() async throws(VolumeError) -> StoreStamp? {
        let bytes = try await client.get(Self.mark, limit: 1 << 10)
        return bytes.flatMap { StoreStamp(String(decoding: $0, as: UTF8.self)) }
    }

    package func setMark(_ mark: StoreStamp) async throws(VolumeError) {
        try await client.replace(Self.mark, Array((mark.text + "\n").utf8))
    }
}

/// Opens a hub's blobs in S3.
package struct S3Source: BlobSource {
    private let address: S3Address

    package init(_ address: S3Address) { self.address = address }

    package var name: String { address.name }

    package func open(_ ledger: any Ledger, _ log: Logger) throws(VolumeError) -> any BlobStore {
        try S3Blobs(address, ledger: ledger, log: log)
    }
}
