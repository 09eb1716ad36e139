import Model

// Makes the recovered rows consistent: no row refers to a lost one, and every item has a path to
// the root.
extension Salvager {
    func repair() throws(VolumeError) {
        try repairVersions()
        try repairParents()
        try deleteBelowDeleted()
        try target.run(
            "UPDATE items SET changed = 0 WHERE deleted IS NULL AND kind IN (1, 3)", [])
        try raiseLastKey()
    }

    private func repairVersions() throws(VolumeError) {
        try target.run(
            """
            DELETE FROM versions WHERE manifest NOT IN (SELECT key FROM manifests)
            OR item NOT IN (SELECT key FROM items)
            """, [])
        droppedVersions = target.changeCount
        if broken.contains("versions") { try adoptManifests() }
        try target.run(
            """
            UPDATE items SET current = NULL WHERE current IS NOT NULL AND NOT EXISTS
            (SELECT 1 FROM versions WHERE id = items.current AND item = items.key)
            """, [])
        try target.run(
            """
            DELETE FROM manifests
            WHERE NOT EXISTS (SELECT 1 FROM versions WHERE manifest = manifests.key)
            """, [])
    }

    /// Contents whose version is lost become deleted documents. Their document is unknown, but the
    /// contents are kept.
    private func adoptManifests() throws(VolumeError) {
        let keys = try target.all(
            "SELECT key FROM manifests WHERE key NOT IN (SELECT manifest FROM versions)", []
        ) { $0.integer(0) }
        for manifest in keys { try adopt(manifest) }
        try rebuildDocuments()
    }

    private func adopt(_ manifest: Int64) throws(VolumeError) {
        let item = try nextKey("items")
        let version = try nextKey("versions")
        lost.versions.traces[version] = VersionTrace(
            id: Identifier.random().bytes, item: item, number: 1, manifest: manifest)
        try rebuildVersion(version)
        lost.versions.traces[version] = nil
    }

    private func nextKey(_ table: String) throws(VolumeError) -> Int64 {
        let last = try target.first("SELECT max(key) FROM \(table)", []) { $0.integer(0) } ?? 0
        guard table == "items" else { return max(last, lost.versions.traces.keys.max() ?? 0) + 1 }
        let key = max(last, try lastKnownKey()) + 1
        lastKey = key
        return key
    }

    // MARK: Directories

    /// Follows the parents of every item. Each item is visited once.
    private func repairParents() throws(VolumeError) {
        var parents: [Int64: Int64] = [:]
        let rows = try target.all("SELECT key, parent FROM items", []) {
            ($0.integer(0), $0.integer(1))
        }
        for (key, parent) in rows { parents[key] = parent }
        var settled: Set<Int64> = [Item.root]
        var missing: Set<Int64> = []
        for start in parents.keys.sorted() {
            var key = start
            var climbed: Set<Int64> = []
            while !settled.contains(key), climbed.insert(key).inserted {
                guard let parent = parents[key] else {
                    missing.insert(key)
                    break
                }
                key = parent
            }
            if !settled.contains(key), parents[key] != nil { try moveToRecovered(key) }
            settled.formUnion(climbed)
        }
        for key in missing.sorted() { try replaceDirectory(key) }
    }

    /// Replaces a lost directory by one whose name is its key. So its items stay together and can
    /// be found: by the comparison with the working tree, through their inodes, or by a user.
    private func replaceDirectory(_ key: Int64) throws(VolumeError) {
        let row: [Value] = [.integer(key)]
        result.orphans +=
            try target.first("SELECT count(*) FROM items WHERE parent = ?", row) {
                Int($0.integer(0))
            } ?? 0
        let directory = try recoveredDirectory()
        try add(
            key, lost.items.traces[key]?.id, parent: directory, name: Array(String(key).utf8),
            .directory)
    }

    /// Moves an item that is its own ancestor.
    private func moveToRecovered(_ key: Int64) throws(VolumeError) {
        let values: [Value] = [.integer(try recoveredDirectory()), .integer(key)]
        try target.run("UPDATE OR IGNORE items SET parent = ? WHERE key = ?", values)
        if target.changeCount == 0 {
            try target.run(
                "UPDATE items SET parent = ?, deleted = ?3 WHERE key = ?2", values + [.integer(now)]
            )
        }
        result.orphans += 1
    }

    private func recoveredDirectory() throws(VolumeError) -> Int64 {
        if let recovered { return recovered }
        let key = try nextKey("items")
        var name = "recovered"
        var count = 1
        while try target.item(parent: Item.root, name: Name(name)) != nil {
            count += 1
            name = "recovered \(count)"
        }
        try add(key, nil, parent: Item.root, name: Array(name.utf8), .directory)
        result.items.rebuilt -= 1
        recovered = key
        return key
    }

    /// Deletes what is in a deleted directory: a directory may have been marked as deleted because
    /// another item has its name.
    private func deleteBelowDeleted() throws(VolumeError) {
        guard clashes > 0 else { return }
        repeat {
            try target.run(
                """
                UPDATE items SET deleted = ? WHERE deleted IS NULL
                AND parent IN (SELECT key FROM items WHERE deleted IS NOT NULL AND kind = 2)
                """, [.integer(now)])
        } while target.changeCount > 0
    }

    // MARK: Keys

    /// Raises the counter of keys above every key that was used. A key is never used twice, because
    /// a reference to the key would then mean another item.
    private func raiseLastKey() throws(VolumeError) {
        try target.run(
            "UPDATE sqlite_sequence SET seq = ? WHERE name = 'items'",
            [.integer(try lastKnownKey())])
    }

    private func lastKnownKey() throws(VolumeError) -> Int64 {
        let used =
            try target.first(
                """
                SELECT max((SELECT max(key) FROM items), (SELECT max(parent) FROM items),
                ifnull((SELECT max(item) FROM versions), 0),
                ifnull((SELECT max(item) FROM stash), 0))
                """, []
            ) { $0.integer(0) } ?? 0
        let known = max(used, lost.items.traces.keys.max() ?? 0)
        if let lastKey { return max(known, lastKey) }
        // Items that were removed long ago may have had higher keys, of which no trace is left.
        lastKey = known + 1 << 20
        return lastKey!
    }
}
