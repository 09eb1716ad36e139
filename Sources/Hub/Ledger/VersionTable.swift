import HubProtocol
import Model

extension LedgerTransaction {
    func versions(in volume: Identifier) -> VersionTable {
        VersionTable(transaction: self, volume: volume)
    }
}

/// The number of versions that documents of a volume have, and the uses of chunks that no row of
/// `revisions` stands for: those of a version that is being received in several transactions, and
/// those of a removed version. They are in parts, so that a transaction can handle some of them.
struct VersionTable {
    let transaction: any LedgerTransaction
    let volume: Identifier

    /// The chunks of one part.
    static let partChunks = 1000
    /// The chunks of a removed version whose uses end in the same transaction.
    private static let releasedAtOnce = 16
    /// The parts that are read at once.
    private static let partsAtOnce: Int64 = 100

    /// A version of a document, and when it arrived by the hub's clock.
    struct Arrival: Hashable, Sendable {
        let id: Identifier
        let time: Int64
    }

    // MARK: Versions

    /// The number of the document's versions, or `limit` if there are more.
    func count(of item: Identifier, upTo limit: Int) throws -> Int {
        let found = try transaction.rows(.versionCount(item, upTo: limit, in: volume)).first
        return Int(try found?.integer(0) ?? 0)
    }

    /// The document's versions, the newest first.
    func arrivals(of item: Identifier) throws -> [Arrival] {
        try transaction.rows(
            """
            SELECT id, added FROM revisions WHERE volume = $1 AND item = $2
            ORDER BY sequence DESC
            """, [.id(volume), .id(item)]
        ).map { Arrival(id: try $0.id(0), time: try $0.integer(1)) }
    }

    /// Removes a version. If it has many chunks, they stay in use until `endUses` is called.
    ///
    /// - Returns: The bytes that were stored for the version besides its chunks; nil if there is
    ///   no such version.
    func remove(_ revision: Identifier) throws -> Int? {
        let found = try transaction.row(
            """
            DELETE FROM revisions WHERE volume = $1 AND id = $2
            RETURNING chunks, length(manifest) + length(chunks) + length(state)
            """, [.id(volume), .id(revision)])
        guard let found else { return nil }
        try transaction.execute(
            "DELETE FROM holdings WHERE volume = $1 AND revision = $2",
            [.id(volume), .id(revision)])
        let chunks = PackedIDs(bytes: try found.bytes(0))?.ids ?? []
        let bytes = try found.integer(1)
        var freed = bytes
        if chunks.count <= VersionTable.releasedAtOnce {
            for id in chunks {
                freed += Int64(clamping: try transaction.chunks.release(id, in: volume))
            }
        } else {
            // A version that was removed before, or is being received again, may have some.
            let first = try nextPart(of: revision)
            for (part, ids) in VersionTable.parts(of: chunks).enumerated() {
                try add(PackedIDs(Array(ids)), of: revision, part: first + part, due: 0)
            }
        }
        try charge(-freed)
        return Int(bytes)
    }

    // MARK: Uses without a version

    static func parts(of chunks: [Digest]) -> [ArraySlice<Digest>] {
        stride(from: 0, to: chunks.count, by: partChunks).map { chunks[$0...].prefix(partChunks) }
    }

    /// The number after those of the version's parts.
    private func nextPart(of revision: Identifier) throws -> Int {
        let last = try transaction.row(
            """
            SELECT part FROM loose_uses WHERE volume = $1 AND revision = $2
            ORDER BY part DESC LIMIT 1
            """, [.id(volume), .id(revision)])
        return try last.map { Int(try $0.integer(0)) + 1 } ?? 0
    }

    private func add(_ ids: PackedIDs, of revision: Identifier, part: Int, due: Int64) throws {
        try transaction.execute(
            """
            INSERT INTO loose_uses (volume, revision, part, due, chunks)
            VALUES ($1, $2, $3, $4, $5)
            """,
            [
                .id(volume), .id(revision), .integer(Int64(part)), .integer(due),
                .bytes(ids.bytes),
            ])
    }

    /// Counts the uses of one part of a version that has not been recorded yet. They end at `due`
    /// unless `takeUses` is called before. Does it only once for each part.
    ///
    /// - Returns: The first chunk that is not stored; nil if all are.
    func use(
        _ chunks: ArraySlice<Digest>, of revision: Identifier, part: Int, until due: Int64
    ) throws -> Digest? {
        let known = try transaction.execute(
            "UPDATE loose_uses SET due = $4 WHERE volume = $1 AND revision = $2 AND part = $3",
            [.id(volume), .id(revision), .integer(Int64(part)), .integer(due)])
        guard known == 0 else { return nil }
        try transaction.expect(chunks.map { .chunkUse($0, in: volume) })
        var bytes: UInt64 = 0
        for id in chunks {
            guard let more = try transaction.chunks.retain(id, in: volume) else { return id }
            bytes += more
        }
        try add(PackedIDs(Array(chunks)), of: revision, part: part, due: due)
        try charge(Int64(clamping: bytes))
        return nil
    }

    /// Makes the counted uses those of a version that the same transaction records.
    ///
    /// - Returns: Whether exactly these chunks were counted. If not, the transaction must not be
    ///   kept.
    func takeUses(of revision: Identifier, _ chunks: PackedIDs) throws -> Bool {
        let parts = try transaction.rows(
            "SELECT chunks FROM loose_uses WHERE volume = $1 AND revision = $2 ORDER BY part",
            [.id(volume), .id(revision)])
        guard try parts.flatMap({ try $0.bytes(0) }) == chunks.bytes else { return false }
        try transaction.execute(
            "DELETE FROM loose_uses WHERE volume = $1 AND revision = $2",
            [.id(volume), .id(revision)])
        return true
    }

    /// The uses of a version that was not recorded end with the next `endUses`.
    func dropUses(of revision: Identifier) throws {
        try transaction.execute(
            "UPDATE loose_uses SET due = 0 WHERE volume = $1 AND revision = $2",
            [.id(volume), .id(revision)])
    }

    /// Ends uses that are due, of about as many chunks as a part has.
    ///
    /// - Returns: Whether there were any.
    func endUses(at time: Int64) throws -> Bool {
        let parts = try transaction.rows(
            """
            SELECT revision, part, chunks FROM loose_uses WHERE volume = $1 AND due <= $2 LIMIT $3
            """,
            [.id(volume), .integer(time), .integer(VersionTable.partsAtOnce)])
        var (count, freed) = (0, UInt64(0))
        for part in parts where count < VersionTable.partChunks {
            for id in PackedIDs(bytes: try part.bytes(2))?.ids ?? [] {
                freed += try transaction.chunks.release(id, in: volume)
                count += 1
            }
            count += 1
            try transaction.execute(
                "DELETE FROM loose_uses WHERE volume = $1 AND revision = $2 AND part = $3",
                [.id(volume), .id(try part.id(0)), .integer(try part.integer(1))])
        }
        try charge(-Int64(clamping: freed))
        return !parts.isEmpty
    }

    /// Returns the volumes with uses that are due.
    static func volumesWithUses(
        dueAt time: Int64, _ transaction: any LedgerTransaction
    ) throws -> [Identifier] {
        try transaction.rows(
            "SELECT DISTINCT volume FROM loose_uses WHERE due <= $1", [.integer(time)]
        ).map { try $0.id(0) }
    }

    private func charge(_ bytes: Int64) throws {
        guard let volume = try transaction.volume(volume) else { return }
        try transaction.charge(volume.account, bytes)
    }
}
