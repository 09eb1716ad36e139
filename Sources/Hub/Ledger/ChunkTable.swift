import ChunkStore
import HubProtocol
import Model

package enum ChunkState: Int64, Sendable {
    case there = 0
    /// No version uses the chunk. A later collection removes it unless it is uploaded again.
    case condemned = 1
    /// The chunk's bytes are missing or wrong. An upload repairs it.
    case damaged = 2
}

package struct ChunkRow: Hashable, Sendable {
    package let volume: Identifier
    package let id: Digest
    package let plain: Digest
    package let place: ChunkLocation
    package let state: ChunkState
    package let uses: Int64
}

extension LedgerTransaction {
    package var chunks: ChunkTable { ChunkTable(transaction: self) }
}

/// The chunks of all volumes: where each is stored, and how many versions use it.
package struct ChunkTable {
    let transaction: any LedgerTransaction

    private func decode(_ row: LedgerRow) throws -> ChunkRow {
        ChunkRow(
            volume: try row.id(0), id: try row.digest(1), plain: try row.digest(2),
            place: ChunkLocation(
                pack: UInt32(clamping: try row.integer(3)), offset: try row.count(4),
                storedLength: UInt32(clamping: try row.integer(5)),
                length: UInt32(clamping: try row.integer(6))),
            state: ChunkState(rawValue: try row.integer(7)) ?? .damaged, uses: try row.integer(8))
    }

    private static var columns: String {
        "volume, id, plain, pack, place, stored, length, state, uses"
    }

    package func row(_ id: Digest, in volume: Identifier) throws -> ChunkRow? {
        try transaction.rows(Self.reading(id, in: volume)).first.map(decode)
    }

    private static func reading(_ id: Digest, in volume: Identifier) -> LedgerStatement {
        LedgerStatement(
            "SELECT \(columns) FROM chunks WHERE volume = $1 AND id = $2",
            [.id(volume), .digest(id)])
    }

    /// Returns the rows of chunks, in the same order.
    package func rows(_ ids: some Collection<Digest>, in volume: Identifier) throws -> [ChunkRow?] {
        try transaction.expect(ids.map { Self.reading($0, in: volume) })
        return try ids.map { try row($0, in: volume) }
    }

    /// Returns a page of chunks of all volumes, ordered by volume and id, for a check of all
    /// chunks.
    package func page(
        after: (volume: Identifier, id: [UInt8]), limit: Int
    ) throws -> [ChunkRow] {
        try transaction.rows(
            """
            SELECT \(Self.columns) FROM chunks
            WHERE volume > $1 OR (volume = $1 AND id > $2) ORDER BY volume, id LIMIT $3
            """, [.id(after.volume), .bytes(after.id), .integer(Int64(limit))]
        ).map(decode)
    }

    package func rows(inPack pack: UInt32) throws -> [ChunkRow] {
        try transaction.rows(
            "SELECT \(Self.columns) FROM chunks WHERE pack = $1 ORDER BY place",
            [.integer(Int64(pack))]
        ).map(decode)
    }

    /// Returns damaged chunks that versions need.
    package func wanted(in volume: Identifier, limit: Int) throws -> [Digest] {
        try transaction.rows(
            """
            SELECT id FROM chunks WHERE state = 2 AND uses > 0 AND volume = $1 LIMIT $2
            """, [.id(volume), .integer(Int64(limit))]
        ).map { try $0.digest(0) }
    }

    /// Records that the chunk is stored at this place, whatever state it had before.
    package func put(
        _ id: Digest, plain: Digest, at place: ChunkLocation, in volume: Identifier,
        time: Int64
    ) throws {
        let statement = LedgerStatement(
            """
            INSERT INTO chunks (\(Self.columns), since)
            VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, $8)
            ON CONFLICT (volume, id) DO UPDATE
            SET pack = $4, place = $5, stored = $6, length = $7, state = 0, since = $8
            """,
            [
                .id(volume), .digest(id), .digest(plain), .integer(Int64(place.pack)),
                .count(place.offset), .integer(Int64(place.storedLength)),
                .integer(Int64(place.length)), .integer(time),
            ])
        let reads = [
            .chunkUse(id, in: volume), Self.reading(id, in: volume),
            Self.finding(id, in: volume),
        ]
        if reads.contains(where: { transaction.known($0) != nil }) {
            try transaction.execute(statement.sql, statement.arguments)
        } else {
            try transaction.executeLater(statement, changes: nil, then: [:])
        }
    }

    /// Skips chunks that another compaction or upload has moved in the meantime.
    package func move(
        _ id: Digest, in volume: Identifier, from old: ChunkLocation, to new: ChunkLocation
    ) throws {
        try transaction.execute(
            """
            UPDATE chunks SET pack = $1, place = $2, stored = $3
            WHERE volume = $4 AND id = $5 AND pack = $6 AND place = $7
            """,
            [
                .integer(Int64(new.pack)), .count(new.offset),
                .integer(Int64(new.storedLength)), .id(volume), .digest(id),
                .integer(Int64(old.pack)), .count(old.offset),
            ])
    }

    /// Skips chunks that were uploaded again in the meantime.
    package func setDamaged(_ chunk: ChunkRow) throws {
        try transaction.execute(
            """
            UPDATE chunks SET state = 2 WHERE volume = $1 AND id = $2 AND pack = $3 AND place = $4
            """,
            [
                .id(chunk.volume), .digest(chunk.id), .integer(Int64(chunk.place.pack)),
                .count(chunk.place.offset),
            ])
    }

    /// Counts one more use of a stored chunk. Returns its length if this is the first use, and 0
    /// otherwise; nil if the chunk is not stored.
    package func retain(_ id: Digest, in volume: Identifier) throws -> UInt64? {
        let read = LedgerStatement.chunkUse(id, in: volume)
        guard let found = try transaction.rows(read).first, try found.integer(0) == 0 else {
            return nil
        }
        let (uses, length) = (try found.integer(1), try found.count(2))
        let statement = LedgerStatement(
            """
            UPDATE chunks SET uses = uses + 1 WHERE volume = $1 AND id = $2 AND state = 0
            """, [.id(volume), .digest(id)])
        let row = LedgerRow([.integer(0), .integer(uses + 1), .count(length)])
        let isDone = try transaction.executeLater(statement, changes: 1, then: [read: [row]])
        return isDone ? uses == 0 ? length : 0 : nil
    }

    /// Returns the length of a chunk that no version uses; 0 if a version uses it, or if the chunk
    /// does not exist.
    func unusedLength(_ id: Digest, in volume: Identifier) throws -> UInt64 {
        guard let found = try transaction.rows(.chunkUse(id, in: volume)).first,
            try found.integer(1) == 0
        else { return 0 }
        return try found.count(2)
    }

    package func isThere(_ id: Digest, in volume: Identifier) throws -> Bool {
        try transaction.rows(Self.finding(id, in: volume)).first != nil
    }

    private static func finding(_ id: Digest, in volume: Identifier) -> LedgerStatement {
        LedgerStatement(
            "SELECT 1 FROM chunks WHERE volume = $1 AND id = $2 AND state = 0",
            [.id(volume), .digest(id)])
    }

    /// Returns whether each chunk is stored, in the same order.
    package func areThere(_ ids: some Collection<Digest>, in volume: Identifier) throws -> [Bool] {
        try transaction.expect(ids.map { Self.finding($0, in: volume) })
        return try ids.map { try isThere($0, in: volume) }
    }

    /// Counts one use less. Returns the chunk's length if no use is left, and 0 otherwise.
    @discardableResult
    package func release(_ id: Digest, in volume: Identifier) throws -> UInt64 {
        let found = try transaction.row(
            """
            UPDATE chunks SET uses = uses - 1 WHERE volume = $1 AND id = $2
            RETURNING uses, length
            """, [.id(volume), .digest(id)])
        return try found.map { try $0.integer(0) == 0 ? try $0.count(1) : 0 } ?? 0
    }

    // MARK: Collection

    /// Removes unused chunks that were condemned before `time`. Returns their number.
    package func sweep(condemnedBefore time: Int64, in volume: Identifier) throws -> Int {
        try transaction.execute(
            """
            DELETE FROM chunks WHERE volume = $1 AND uses = 0 AND state <> 0 AND since <= $2
            """, [.id(volume), .integer(time)])
    }

    /// Condemns unused chunks that arrived before `time`. Returns their number.
    package func condemn(
        cameBefore time: Int64, in volume: Identifier, at now: Int64
    ) throws -> Int {
        try transaction.execute(
            """
            UPDATE chunks SET state = 1, since = $3
            WHERE volume = $1 AND uses = 0 AND state = 0 AND since <= $2
            """, [.id(volume), .integer(time), .integer(now)])
    }

    package func countCollection(of volume: Identifier) throws {
        try transaction.execute(
            "UPDATE volumes SET collection = collection + 1 WHERE id = $1", [.id(volume)])
    }

    /// Returns the stored bytes and the number of chunks in each pack.
    package func packUse() throws -> [UInt32: (bytes: UInt64, chunks: Int)] {
        var use: [UInt32: (bytes: UInt64, chunks: Int)] = [:]
        for row in try transaction.rows(
            "SELECT pack, sum(stored), count(*) FROM chunks GROUP BY pack", [])
        {
            use[UInt32(clamping: try row.integer(0))] = (
                try row.count(1), Int(try row.integer(2))
            )
        }
        return use
    }
}

extension LedgerStatement {
    static func chunkUse(_ id: Digest, in volume: Identifier) -> LedgerStatement {
        LedgerStatement(
            "SELECT state, uses, length FROM chunks WHERE volume = $1 AND id = $2",
            [.id(volume), .digest(id)])
    }
}
