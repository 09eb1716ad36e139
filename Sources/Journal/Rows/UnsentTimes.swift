import Model

/// When the unsent changes of items were made (`HubTables.unsentTimes`).
package enum UnsentTimes {
    /// Notes an earlier change of an item, which is sent again. A later time that is noted already
    /// stays.
    ///
    /// - Parameters:
    ///   - placed: When the item was put at its place: nanoseconds since 1970, nil when unknown.
    ///   - attributed: When its attributes were changed.
    package static func note(
        placed: Int64?, attributed: Int64?, of key: Int64, _ t: Transaction
    ) throws(VolumeError) {
        guard placed != nil || attributed != nil else { return }
        try t.run(
            """
            UPDATE unsent SET
                placed = max(coalesce(placed, ?1), coalesce(?1, placed)),
                attributed = max(coalesce(attributed, ?2), coalesce(?2, attributed))
            WHERE item = ?3
            """, [.integer(placed), .integer(attributed), .integer(key)])
    }
}
