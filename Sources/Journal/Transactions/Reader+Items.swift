import Model

extension Reader {
    /// A setting of the journal itself, such as the volume's id or the device's name.
    package func value(_ key: String) throws(VolumeError) -> String? {
        try first("SELECT value FROM meta WHERE key = ?", [.text(key)]) { $0.text(0) }
    }

    /// The item with that key, alive or deleted.
    package func item(_ key: Int64) throws(VolumeError) -> Item? {
        try first(Select.byKey, [.integer(key)], Item.init(columns:))
    }

    /// The item with that id, alive or deleted.
    package func item(id: Identifier) throws(VolumeError) -> Item? {
        try first(Select.byID, [.identifier(id)], Item.init(columns:))
    }

    /// The key of the directory that an item is in, 0 for the root. Nil when there is no such item.
    package func parent(of key: Int64) throws(VolumeError) -> Int64? {
        try first("SELECT parent FROM items WHERE key = ?", [.integer(key)]) { $0.integer(0) }
    }

    /// The alive item with that name.
    package func item(parent: Int64, name: Name) throws(VolumeError) -> Item? {
        try first(Select.byName, [.integer(parent), .bytes(name.bytes)], Item.init(columns:))
    }

    /// The alive items with that inode: all its hard-linked names.
    package func items(inode: UInt64) throws(VolumeError) -> [Item] {
        guard inode != 0 else { return [] }
        return try all(Select.byInode, [.bits(inode)], Item.init(columns:))
    }

    /// The same, page by page in the order of the keys: an inode can have tens of thousands of
    /// names.
    package func items(inode: UInt64, after key: Int64, limit: Int) throws(VolumeError) -> [Item] {
        guard inode != 0 else { return [] }
        return try all(
            Select.byInodePage, [.bits(inode), .integer(key), .integer(Int64(limit))],
            Item.init(columns:))
    }

    /// Whether another alive item than `key` has the inode.
    package func hasItem(inode: UInt64, otherThan key: Int64 = 0) throws(VolumeError) -> Bool {
        guard inode != 0 else { return false }
        return try first(Select.inodeExists, [.bits(inode), .integer(key)]) {
            $0.integer(0) == 1
        } ?? false
    }

    /// The alive items in a directory, sorted by the bytes of their names.
    package func children(of key: Int64) throws(VolumeError) -> [Item] {
        try all(Select.children, [.integer(key)], Item.init(columns:))
    }

    /// Like `children`, but keeps only some hundred items in memory. `body` may write. An item that
    /// it renames to a later name is visited again.
    package func forEachChild(of key: Int64, _ body: (Item) throws -> Void) throws {
        try forEachPage(
            Select.childrenPage, [.integer(key)], from: .bytes([]),
            cursor: { .bytes($0.name.bytes) }, Item.init(columns:), body)
    }

    /// The deleted items that were last in this directory, newest deletion first.
    package func deletedItems(in parent: Int64) throws(VolumeError) -> [Item] {
        try all(Select.deleted, [.integer(parent)], Item.init(columns:))
    }

    /// The most recently deleted item with that name.
    package func deletedItem(parent: Int64, name: Name) throws(VolumeError) -> Item? {
        try first(Select.deletedName, [.integer(parent), .bytes(name.bytes)], Item.init(columns:))
    }

    /// All items that were deleted before that time (nanoseconds since 1970), oldest deletion
    /// first.
    package func deletedItems(before time: Int64) throws(VolumeError) -> [Item] {
        try all(Select.deletedBefore, [.integer(time)], Item.init(columns:))
    }

    /// The number of alive items, including the root.
    package func itemCount() throws(VolumeError) -> Int {
        let sql = "SELECT count(*) FROM items WHERE deleted IS NULL"
        return try first(sql, []) { Int($0.integer(0)) } ?? 0
    }

    /// Every item, alive and deleted, in the order of keys; `body` may write.
    package func forEachItem(_ body: (Item) throws -> Void) throws {
        try forEachPage(
            Select.page, [], from: .integer(Int64.min), cursor: { .integer($0.key) },
            Item.init(columns:), body)
    }

    /// The names of the path from the root to the item; empty for the root.
    ///
    /// Nil when there is no such item, or when damaged parents do not lead to the root.
    package func path(of key: Int64) throws(VolumeError) -> [Name]? {
        guard let step = try step(key) else { return key == Item.root ? [] : nil }
        if let parent = directories.path(of: step.parent, at: totalChanges) {
            return parent + [step.name]
        }
        var names: [Name] = []
        var seen: Set<Int64> = [key]
        var next = step.parent
        while next != Item.root {
            guard seen.insert(next).inserted, let step = try self.step(next) else { return nil }
            names.append(step.name)
            next = step.parent
        }
        names.reverse()
        directories.set(names, of: step.parent, at: totalChanges)
        return names + [step.name]
    }

    private func step(_ key: Int64) throws(VolumeError) -> (parent: Int64, name: Name)? {
        guard key != Item.root else { return nil }
        return try first(Select.step, [.integer(key)]) {
            (parent: $0.integer(0), name: Name(bytes: $0.bytes(1)))
        }
    }
}

/// The statements are constants, because building the text would cost more than the lookup.
private enum Select {
    static let all = "SELECT \(Item.columns) FROM items "
    static let byKey = all + "WHERE key = ?"
    static let byID = all + "WHERE id = ?"
    static let byName = all + "WHERE parent = ? AND name = ? AND deleted IS NULL"
    static let byInode = all + "WHERE inode = ? AND inode <> 0 AND deleted IS NULL ORDER BY key"
    static let byInodePage =
        all + "WHERE inode = ? AND inode <> 0 AND deleted IS NULL AND key > ? ORDER BY key LIMIT ?"
    static let inodeExists = """
        SELECT EXISTS (SELECT 1 FROM items
        WHERE inode = ? AND inode <> 0 AND deleted IS NULL AND key <> ?)
        """
    static let children = all + "WHERE parent = ? AND deleted IS NULL ORDER BY name"
    static let childrenPage =
        all + "WHERE parent = ? AND deleted IS NULL AND name > ? ORDER BY name LIMIT ?"
    static let deleted =
        all + "WHERE parent = ? AND deleted IS NOT NULL ORDER BY deleted DESC, key DESC"
    static let deletedName =
        all
        + "WHERE parent = ? AND name = ? AND deleted IS NOT NULL "
        + "ORDER BY deleted DESC, key DESC LIMIT 1"
    static let deletedBefore = all + "WHERE deleted < ? ORDER BY deleted, key"
    static let page = all + "WHERE key > ? ORDER BY key LIMIT ?"
    static let step = "SELECT parent, name FROM items WHERE key = ?"
}

extension Reader {
    /// Keys of alive documents whose present contents have not been recorded (`changed` is 0), in
    /// ascending order.
    package func pendingItems(after key: Int64, limit: Int) throws(VolumeError) -> [Int64] {
        try all(
            """
            SELECT key FROM items WHERE changed = 0 AND deleted IS NULL AND kind IN (1, 3)
            AND key > ? ORDER BY key LIMIT ?
            """, [.integer(key), .integer(Int64(limit))]
        ) { $0.integer(0) }
    }
}

extension Reader {
    /// Keys of deleted items that never had a version, newest first. What is in a directory comes
    /// before the directory.
    package func deletedItemsWithoutVersions() throws(VolumeError) -> [Int64] {
        let sql = """
            SELECT key FROM items WHERE deleted IS NOT NULL AND latest = 0 ORDER BY key DESC
            """
        return try all(sql, []) { $0.integer(0) }
    }

    /// The number of alive files and packages.
    package func documentCount() throws(VolumeError) -> Int {
        let sql = "SELECT count(*) FROM items WHERE deleted IS NULL AND kind IN (1, 3)"
        return try first(sql, []) { Int($0.integer(0)) } ?? 0
    }
}
