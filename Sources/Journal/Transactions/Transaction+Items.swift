import Model

extension Transaction {
    /// Nil removes the value.
    package func set(_ key: String, to value: String?) throws(VolumeError) {
        guard let value else {
            try run("DELETE FROM meta WHERE key = ?", [.text(key)])
            return
        }
        try run("INSERT OR REPLACE INTO meta VALUES (?, ?)", [.text(key), .text(value)])
    }

    /// Inserts the item and returns its new key. The key that `item` has is ignored.
    ///
    /// - Throws: `.invalid` when the directory has an alive item of that name, or for a second
    ///   root.
    @discardableResult
    package func insert(_ item: Item) throws(VolumeError) -> Int64 {
        guard item.parent != 0 else {
            throw VolumeError(.invalid, "The journal \(path) already has a root: update that.")
        }
        try run(Change.insert, item.values)
        return lastInsertedKey
    }

    /// Writes all fields of the item with that key.
    ///
    /// - Throws: `.notFound`; `.invalid` when the directory has another alive item of that name.
    package func update(_ item: Item) throws(VolumeError) {
        let key = Value.integer(item.key)
        // SQLite updates the index of every column that is set, even if the value is the same. Most
        // updates change only a size and times.
        try run(Change.updatePlain, item.plainValues + [key] + item.indexedValues)
        guard changeCount == 0 else { return }
        try run(Change.update, item.values + [key])
        try expectChange("item \(item.key)")
    }

    /// Sets all inodes to unknown. This is needed when the working tree is a copy, because its
    /// files have other inodes.
    package func forgetInodes() throws(VolumeError) {
        try run("UPDATE items SET inode = 0 WHERE inode <> 0", [])
    }

    /// Removes an item's row. Its key is never used again.
    ///
    /// - Throws: `.notFound`; `.invalid` for the root, and while the item has versions or is the
    ///   parent of another item.
    package func removeRow(_ key: Int64) throws(VolumeError) {
        guard key != Item.root else {
            throw VolumeError(.invalid, "The root of the journal \(path) cannot be removed.")
        }
        let row = Value.integer(key)
        if try first(Change.isParent, [row, row], { $0.integer(0) }) == 1 {
            throw VolumeError(
                .invalid, "Item \(key) of the journal \(path) holds other items: remove them first."
            )
        }
        if try first(Change.hasVersions, [row], { $0.integer(0) }) == 1 {
            throw VolumeError(
                .invalid, "Item \(key) of the journal \(path) has versions: remove them first.")
        }
        try run("DELETE FROM name_changes WHERE item = ?", [row])
        try run("DELETE FROM directory_owners WHERE item = ?", [row])
        try run("DELETE FROM items WHERE key = ?", [.integer(key)])
        try expectChange("item \(key)")
    }

    func expectChange(_ thing: String) throws(VolumeError) {
        guard changeCount > 0 else {
            throw VolumeError(.notFound, "The journal \(path) has no \(thing).")
        }
    }
}

private enum Change {
    static let insert = """
        INSERT INTO items (id, parent, name, inode, deleted, kind, birth, size, modified, changed,
        latest, current, in_place, mode, attributes)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """
    static let update = """
        UPDATE items SET id = ?, parent = ?, name = ?, inode = ?, deleted = ?, kind = ?, birth = ?,
        size = ?, modified = ?, changed = ?, latest = ?, current = ?, in_place = ?,
        mode = ?, attributes = ? WHERE key = ?
        """
    static let updatePlain = """
        UPDATE items SET kind = ?, birth = ?, size = ?, modified = ?, changed = ?, latest = ?,
        current = ?, in_place = ?, mode = ?, attributes = ?
        WHERE key = ? AND id = ? AND parent = ? AND name = ? AND inode = ? AND deleted IS ?
        """
    static let hasVersions = "SELECT EXISTS (SELECT 1 FROM versions WHERE item = ?)"
    static let isParent = """
        SELECT EXISTS (SELECT 1 FROM items WHERE parent = ? AND deleted IS NULL)
        OR EXISTS (SELECT 1 FROM items WHERE parent = ? AND deleted IS NOT NULL)
        """
}
