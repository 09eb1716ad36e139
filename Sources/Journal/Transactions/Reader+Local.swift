import Model

/// An item with everything that is compared with the hub. It is read by one statement.
package struct LocalItem: Sendable {
    package var key: Int64
    package var kind: Item.Kind
    package var parent: Identifier
    package var parentKey: Int64
    package var name: Name
    package var isAlive: Bool
    package var size: UInt64
    package var modified: Int64
    /// Nanoseconds since 1970; 0 while the present contents are not recorded.
    package var changed: Int64
    package var mode: UInt16
    package var attributes: [UInt8]?
    package var current: Identifier?
    /// The content of the current version.
    package var content: Digest?
    package var versionModified: Int64?
    package var hasConflicts: Bool
}

extension Reader {
    /// The conflict versions of an item, in the order of their ids.
    package func conflicts(of key: Int64) throws(VolumeError) -> [Identifier] {
        try all(
            "SELECT id FROM versions WHERE item = ? AND kind = 3 ORDER BY id", [.integer(key)]
        ) { (columns) throws(VolumeError) in try columns.identifier(0) }
    }

    package func key(of id: Identifier) throws(VolumeError) -> Int64? {
        try first("SELECT key FROM items WHERE id = ?", [.identifier(id)]) { $0.integer(0) }
    }

    package func id(of key: Int64) throws(VolumeError) -> Identifier? {
        try first("SELECT id FROM items WHERE key = ?", [.integer(key)]) {
            (columns) throws(VolumeError) in try columns.identifier(0)
        }
    }

    package func childID(_ name: Name, of parent: Int64) throws(VolumeError) -> Identifier? {
        try first(
            """
            SELECT id FROM items
            WHERE parent = ? AND name = ? AND deleted IS NULL AND kind <> 5
            """, [.integer(parent), .bytes(name.bytes)]
        ) { (columns) throws(VolumeError) in try columns.identifier(0) }
    }

    package func hasChildren(_ key: Int64) throws(VolumeError) -> Bool {
        try first(
            "SELECT EXISTS (SELECT 1 FROM items WHERE parent = ? AND deleted IS NULL)",
            [.integer(key)]
        ) { $0.integer(0) == 1 } ?? false
    }
}

extension HubTables {
    /// The item with that id, alive or deleted.
    package func localItem(_ id: Identifier) throws(VolumeError) -> LocalItem? {
        try reader.first(LocalItem.byID, [.identifier(id)], LocalItem.init(columns:))
    }

    package func localItem(key: Int64) throws(VolumeError) -> LocalItem? {
        try reader.first(LocalItem.byKey, [.integer(key)], LocalItem.init(columns:))
    }
}

extension LocalItem {
    fileprivate static let select = """
        SELECT i.key, i.kind, p.id, i.parent, i.name, i.deleted, i.size, i.modified, i.changed,
        i.mode, i.attributes, i.current, v.content, v.modified,
        EXISTS (SELECT 1 FROM versions c WHERE c.item = i.key AND c.kind = 3)
        FROM items i JOIN items p ON p.key = i.parent LEFT JOIN versions v ON v.id = i.current
        """
    fileprivate static let byID = select + " WHERE i.id = ?"
    fileprivate static let byKey = select + " WHERE i.key = ?"

    fileprivate init(columns: Columns) throws(VolumeError) {
        self.init(
            key: columns.integer(0), kind: try columns.code(1),
            parent: try columns.identifier(2), parentKey: columns.integer(3),
            name: Name(bytes: columns.bytes(4)), isAlive: columns.isNull(5),
            size: columns.bits(6), modified: columns.integer(7), changed: columns.integer(8),
            mode: UInt16(truncatingIfNeeded: columns.integer(9)),
            attributes: columns.isNull(10) ? nil : columns.bytes(10),
            current: columns.isNull(11) ? nil : try columns.identifier(11),
            content: columns.isNull(12) ? nil : try columns.digest(12),
            versionModified: columns.isNull(13) ? nil : columns.integer(13),
            hasConflicts: columns.integer(14) == 1)
    }
}

extension Transaction {
    package func setID(_ key: Int64, to id: Identifier) throws(VolumeError) {
        try run("UPDATE items SET id = ? WHERE key = ?", [.identifier(id), .integer(key)])
    }
}
