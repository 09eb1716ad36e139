import Model

/// What decides the state of an item: it is spread over several tables, and one statement reads it.
package struct ItemFacts: Hashable, Sendable {
    /// Whether its file is only a placeholder.
    package var isAbsent: Bool
    /// Whether it has changed since it was last compared for the hub.
    package var isUnsent: Bool
    /// Whether an operation on it waits for the hub's confirmation.
    package var isInOutbox: Bool
    /// Nil when nothing is known about it at the hub.
    package var mirror: MirrorRow.State?
    /// The durability of the current version; nil when there is none.
    package var durability: Version.Durability?
    package var isConflicted: Bool
}

extension ItemFacts {
    /// Nil when there is no such item.
    package init?(of key: Int64, _ reader: Reader) throws(VolumeError) {
        let found = try reader.first(Select.one, [.integer(key)]) { (columns) throws(VolumeError) in
            try ItemFacts(columns: columns, from: 0)
        }
        guard let found else { return nil }
        self = found
    }

    /// Calls `body` with the alive items in a directory and what decides their states, sorted by
    /// the bytes of their names. It takes one statement for some hundred items.
    package static func forEachEntry(
        of key: Int64, _ reader: Reader, _ body: (Item, ItemFacts) throws -> Void
    ) throws {
        try reader.forEachPage(
            Select.page, [.integer(key)], from: .bytes([]),
            cursor: { .bytes($0.item.name.bytes) },
            { (columns) throws(VolumeError) in
                (
                    item: try Item(columns: columns),
                    facts: try ItemFacts(columns: columns, from: Item.columnCount)
                )
            }, { try body($0.item, $0.facts) })
    }
}

private enum Select {
    static let facts = """
        EXISTS (SELECT 1 FROM absent WHERE item = items.key),
        EXISTS (SELECT 1 FROM unsent WHERE item = items.key),
        EXISTS (SELECT 1 FROM outbox WHERE item = items.id),
        (SELECT state FROM mirror WHERE id = items.id),
        (SELECT \(Version.presentDurability) FROM versions WHERE id = items.current),
        EXISTS (SELECT 1 FROM versions WHERE item = items.key AND kind = 3)
        """
    static let one = "SELECT \(facts) FROM items WHERE key = ?"
    static let page = """
        SELECT \(Item.columns), \(facts) FROM items
        WHERE parent = ? AND deleted IS NULL AND name > ? ORDER BY name LIMIT ?
        """
}

extension ItemFacts {
    fileprivate init(columns: Columns, from index: Int32) throws(VolumeError) {
        self.init(
            isAbsent: columns.integer(index) == 1, isUnsent: columns.integer(index + 1) == 1,
            isInOutbox: columns.integer(index + 2) == 1,
            mirror: columns.isNull(index + 3) ? nil : try columns.code(index + 3),
            durability: columns.isNull(index + 4) ? nil : try columns.code(index + 4),
            isConflicted: columns.integer(index + 5) == 1)
    }
}
