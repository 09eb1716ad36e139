import Model

/// Where the records of a pack are that is not a file in the hub's directory.
package enum PackState: Int64, Sendable {
    /// In the ledger, and more records may follow.
    case open = 0
    /// In the ledger, until they have been copied into an object.
    case ended = 1
    /// In an object.
    case stored = 2
    /// In an object that may not have been written yet.
    case writing = 3
    /// In an object that another ledger may need.
    case quarantined = 4
}

package struct PackRow: Hashable, Sendable {
    package let pack: UInt32
    package let bytes: UInt64
    package let state: PackState
    /// When the pack came into this state, or received its last record.
    package let since: Int64
}

/// The packs of a blob store that is not a directory, within one transaction. A pack's row exists
/// before its object is written and until no chunk is in it, so an object without a row is garbage.
/// Numbers are never used twice.
package struct PackTable {
    private let transaction: any LedgerTransaction

    package init(_ transaction: any LedgerTransaction) { self.transaction = transaction }

    package func add(_ state: PackState, bytes: UInt64, at time: Int64) throws -> UInt32 {
        let next = try transaction.row(
            """
            INSERT INTO facts (name, value) VALUES ($1, 1)
            ON CONFLICT (name) DO UPDATE SET value = facts.value + 1 RETURNING value
            """, [.text(Fact.newestPack)])
        guard let next, let pack = UInt32(exactly: try next.integer(0)) else {
            throw VolumeError(.full, "The hub has used up its pack numbers: start a new hub.")
        }
        try transaction.execute(
            "INSERT INTO packs (pack, bytes, state, since) VALUES ($1, $2, $3, $4)",
            [.integer(Int64(pack)), .count(bytes), .integer(state.rawValue), .integer(time)])
        return pack
    }

    /// Adds a pack that has its number from another store, or puts it in place of one.
    package func replace(_ pack: UInt32, _ state: PackState, bytes: UInt64, at time: Int64) throws {
        try transaction.execute("DELETE FROM staged WHERE pack = $1", [.integer(Int64(pack))])
        try transaction.execute("DELETE FROM packs WHERE pack = $1", [.integer(Int64(pack))])
        try transaction.execute(
            "INSERT INTO packs (pack, bytes, state, since) VALUES ($1, $2, $3, $4)",
            [.integer(Int64(pack)), .count(bytes), .integer(state.rawValue), .integer(time)])
        try skipNumbers(to: pack)
    }

    /// Ensures that new packs get higher numbers than this.
    package func skipNumbers(to pack: UInt32) throws {
        guard try newest() < pack else { return }
        try transaction.setFact(Fact.newestPack, Int64(pack))
    }

    package func newest() throws -> UInt32 {
        UInt32(clamping: try transaction.fact(Fact.newestPack) ?? 0)
    }

    package func all() throws -> [PackRow] {
        try transaction.rows("SELECT pack, bytes, state, since FROM packs ORDER BY pack", []).map(
            packRow)
    }

    package func row(of pack: UInt32) throws -> PackRow? {
        try transaction.row(
            "SELECT pack, bytes, state, since FROM packs WHERE pack = $1", [.integer(Int64(pack))]
        ).map(packRow)
    }

    private func packRow(_ row: LedgerRow) throws -> PackRow {
        PackRow(
            pack: UInt32(clamping: try row.integer(0)), bytes: try row.count(1),
            state: PackState(rawValue: try row.integer(2)) ?? .quarantined,
            since: try row.integer(3))
    }

    /// Returns an open pack that nothing was appended to since `time`.
    package func openPack(idleSince time: Int64) throws -> UInt32? {
        try transaction.row(
            "SELECT pack FROM packs WHERE state = 0 AND since <= $1 ORDER BY pack LIMIT 1",
            [.integer(time)]
        ).map { UInt32(clamping: try $0.integer(0)) }
    }

    /// The bytes of all packs whose records are in the ledger.
    package func stagedBytes() throws -> UInt64 {
        try transaction.row("SELECT coalesce(sum(bytes), 0) FROM packs WHERE state <= 1", [])?
            .count(0) ?? 0
    }

    /// Appends records to an open pack, and ends it if it has `limit` bytes then.
    ///
    /// - Returns: The offset of the first record, and whether the pack has ended; nil if the pack
    ///   is not open.
    package func append(
        _ records: [[UInt8]], to pack: UInt32, limit: UInt64, at time: Int64
    ) throws -> (offset: UInt64, isEnded: Bool)? {
        let bytes = records.reduce(0) { $0 + UInt64($1.count) }
        let found = try transaction.row(
            """
            UPDATE packs SET bytes = bytes + $2, since = $4,
            state = CASE WHEN bytes + $2 >= $3 THEN 1 ELSE 0 END
            WHERE pack = $1 AND state = 0 RETURNING bytes, state
            """, [.integer(Int64(pack)), .count(bytes), .count(limit), .integer(time)])
        guard let found else { return nil }
        let start = try found.count(0) - bytes
        var (offset, rest) = (start, records[...])
        while !rest.isEmpty {
            // There are statements for two numbers of rows, so that few have to be prepared.
            let part = rest.prefix(rest.count < Self.rowsTogether ? 1 : Self.rowsTogether)
            rest = rest.dropFirst(part.count)
            var arguments: [SQLValue] = [.integer(Int64(pack))]
            for record in part {
                arguments += [.count(offset), .bytes(record)]
                offset += UInt64(record.count)
            }
            let rows = part.indices.enumerated().map { "($1, $\($0.0 * 2 + 2), $\($0.0 * 2 + 3))" }
            try transaction.executeLater(
                "INSERT INTO staged (pack, place, record) VALUES "
                    + rows.joined(separator: ", "), arguments)
        }
        return (start, try found.integer(1) == PackState.ended.rawValue)
    }

    private static var rowsTogether: Int { 16 }

    /// Ends all open packs.
    package func endAll(at time: Int64) throws {
        try transaction.execute(
            "UPDATE packs SET state = 1, since = $1 WHERE state = 0", [.integer(time)])
    }

    package func stagedRecord(in pack: UInt32, at place: UInt64) throws -> [UInt8]? {
        try transaction.row(
            "SELECT record FROM staged WHERE pack = $1 AND place = $2",
            [.integer(Int64(pack)), .count(place)]
        )?.bytes(0)
    }

    /// Returns all records of a pack, one after the other.
    package func stagedRecords(in pack: UInt32) throws -> [UInt8] {
        try transaction.rows(
            "SELECT record FROM staged WHERE pack = $1 ORDER BY place", [.integer(Int64(pack))]
        ).reduce(into: []) { $0 += try $1.bytes(0) }
    }

    /// Changes a pack's state. Returns false if it was in another state than `old`.
    package func set(_ pack: UInt32, from old: PackState, to new: PackState, at time: Int64)
        throws -> Bool
    {
        try transaction.execute(
            "UPDATE packs SET state = $3, since = $4 WHERE pack = $1 AND state = $2",
            [
                .integer(Int64(pack)), .integer(old.rawValue), .integer(new.rawValue),
                .integer(time),
            ]) > 0
    }

    /// Records that the ended pack is in an object now. Returns false if it is not an ended pack.
    package func setStored(_ pack: UInt32, at time: Int64) throws -> Bool {
        guard try set(pack, from: .ended, to: .stored, at: time) else { return false }
        try transaction.execute("DELETE FROM staged WHERE pack = $1", [.integer(Int64(pack))])
        return true
    }

    /// Whether a chunk is in the pack.
    package func isUsed(pack: UInt32) throws -> Bool {
        try transaction.row("SELECT 1 FROM chunks WHERE pack = $1 LIMIT 1", [.integer(Int64(pack))])
            != nil
    }

    /// Removes a pack's row and its records. Returns false if a chunk is in it. No chunk must be
    /// recorded in a pack meanwhile, so the transaction has the scope `everything`.
    package func removeUnused(_ pack: UInt32) throws -> Bool {
        guard try !isUsed(pack: pack) else { return false }
        try transaction.execute("DELETE FROM staged WHERE pack = $1", [.integer(Int64(pack))])
        try transaction.execute("DELETE FROM packs WHERE pack = $1", [.integer(Int64(pack))])
        return true
    }
}

extension Fact {
    /// The highest number that a pack ever had.
    static let newestPack = "newest-pack"
}
