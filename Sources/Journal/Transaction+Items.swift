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

    /// Gives the item a key (its own is not looked at) and returns that.
    ///
    /// - Throws: `.invalid` when the directory has an alive item of that name, or for a second root.
    @discardableResult
    package func insert(_ item: Item) throws(VolumeError) -> Int64 {
        guard item.parent != 0 else {
            throw VolumeError(.invalid, "The journal \(path) has its root already: update that.")
        }
        try run(Change.insert, item.values)
        return lastInsertedKey
    }

    /// Writes all fields of the item with that key.
    ///
    /// - Throws: `.notFound`; `.invalid` when the directory has another alive item of that name.
    package func update(_ item: Item) throws(VolumeError) {
        try run(Change.update, item.values + [.integer(item.key)])
        try expectChange("item \(item.key)")
    }

    /// Forgets an item for ever. Its key is not given again.
    ///
    /// - Throws: `.notFound`; `.invalid` for the root and while it has versions or is anybody's parent.
    package func removeRow(_ key: Int64) throws(VolumeError) {
        guard key != Item.root else {
            throw VolumeError(.invalid, "The root of the journal \(path) cannot be removed.")
        }
        let isParent = try first(Change.isParent, [.integer(key), .integer(key)]) { $0.integer(0) }
        if isParent == 1 {
            throw VolumeError(
                .invalid, "Item \(key) of the journal \(path) holds other items: remove them first."
            )
        }
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
        INSERT INTO items (id, parent, name, kind, inode, birth, size, modified, changed, deleted,
        latest, current, in_place) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """
    static let update = """
        UPDATE items SET id = ?, parent = ?, name = ?, kind = ?, inode = ?, birth = ?, size = ?,
        modified = ?, changed = ?, deleted = ?, latest = ?, current = ?, in_place = ? WHERE key = ?
        """
    static let isParent = """
        SELECT EXISTS (SELECT 1 FROM items WHERE parent = ? AND deleted IS NULL)
        OR EXISTS (SELECT 1 FROM items WHERE parent = ? AND deleted IS NOT NULL)
        """
}
