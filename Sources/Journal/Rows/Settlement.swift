import Model

/// A decision about a document's conflict versions, kept so that it can be undone.
package struct Settlement: Hashable, Sendable {
    /// The row id; 0 before the row exists.
    package var key: Int64
    package var item: Int64
    /// Nanoseconds since 1970.
    package var time: Int64
    /// The version that was current before.
    package var before: Identifier?
    /// The version that became current; nil when the current version did not change.
    package var after: Identifier?
    /// The conflict versions that became history.
    package var settled: [Identifier]

    package init(
        key: Int64 = 0, item: Int64, time: Int64, before: Identifier?, after: Identifier?,
        settled: [Identifier]
    ) {
        self.key = key
        self.item = item
        self.time = time
        self.before = before
        self.after = after
        self.settled = settled
    }
}

extension Reader {
    /// The last settlement of a document that was not undone.
    package func lastSettlement(of item: Int64) throws(VolumeError) -> Settlement? {
        try first(
            """
            SELECT key, item, time, before, after, settled FROM settlements
            WHERE item = ? ORDER BY key DESC LIMIT 1
            """, [.integer(item)]
        ) { (columns) throws(VolumeError) in
            Settlement(
                key: columns.integer(0), item: columns.integer(1), time: columns.integer(2),
                before: columns.isNull(3) ? nil : try columns.identifier(3),
                after: columns.isNull(4) ? nil : try columns.identifier(4),
                settled: try columns.identifiers(5))
        }
    }

    /// All conflict versions of a document that were settled, by any settlement that was not
    /// undone.
    package func settledVersions(of item: Int64) throws(VolumeError) -> Set<Identifier> {
        let lists = try all(
            "SELECT settled FROM settlements WHERE item = ?", [.integer(item)]
        ) { (columns) throws(VolumeError) in try columns.identifiers(0) }
        return Set(lists.joined())
    }

    /// The keys of alive items that have conflict versions.
    package func conflictedItems() throws(VolumeError) -> [Int64] {
        try all(
            """
            SELECT DISTINCT v.item FROM versions v JOIN items i ON i.key = v.item
            WHERE v.kind = 3 AND i.deleted IS NULL ORDER BY v.item
            """, []
        ) { $0.integer(0) }
    }

    /// The names in a directory whose items have conflict versions, sorted.
    package func conflictedNames(in directory: Int64) throws(VolumeError) -> [Name] {
        try all(
            """
            SELECT DISTINCT i.name FROM versions v JOIN items i ON i.key = v.item
            WHERE v.kind = 3 AND i.deleted IS NULL AND i.parent = ? ORDER BY i.name
            """, [.integer(directory)]
        ) { Name(bytes: $0.bytes(0)) }
    }
}

extension Transaction {
    /// Makes conflict versions of an item history and records how. Does nothing when `versions` is
    /// empty.
    package func settle(
        _ versions: [Identifier], of item: Int64, before: Identifier?, after: Identifier?,
        at time: Int64
    ) throws(VolumeError) {
        guard !versions.isEmpty else { return }
        for id in versions { try setKind(id, .history) }
        try insert(
            Settlement(item: item, time: time, before: before, after: after, settled: versions))
    }

    private func insert(_ settlement: Settlement) throws(VolumeError) {
        try run(
            """
            INSERT INTO settlements (item, time, before, after, settled) VALUES (?, ?, ?, ?, ?)
            """,
            [
                .integer(settlement.item), .integer(settlement.time),
                .identifier(settlement.before), .identifier(settlement.after),
                .bytes(settlement.settled.flatMap(\.bytes)),
            ])
    }

    package func removeSettlement(_ key: Int64) throws(VolumeError) {
        try run("DELETE FROM settlements WHERE key = ?", [.integer(key)])
    }

    /// Removes settlements that are older than `time`; they cannot be undone any more.
    package func removeSettlements(before time: Int64) throws(VolumeError) {
        try run("DELETE FROM settlements WHERE time < ?", [.integer(time)])
    }
}
