import Model

// Which hub has confirmed a version. A confirmation counts only while the volume belongs to the hub
// that gave it, and while that hub has the same state. Both are recognized by random ids: the
// volume's id at the hub, and the hub's epoch.
extension HubTables {
    /// Whether the volume belongs to a hub, so that confirmations can count.
    package func belongsToHub() throws(VolumeError) -> Bool {
        try reader.first("SELECT EXISTS (SELECT 1 FROM witnesses WHERE is_current = 1)", []) {
            $0.integer(0) == 1
        } ?? false
    }

    /// Versions that some hub has confirmed but the present one has not, in the order of their
    /// keys, beginning after `key`.
    package func unconfirmedVersions(after key: Int64, limit: Int) throws(VolumeError) -> [(
        key: Int64, id: Identifier
    )] {
        try reader.all(
            """
            SELECT key, id FROM versions
            WHERE durability = 3 AND key > ? AND NOT \(Version.isConfirmed)
            ORDER BY key LIMIT ?
            """, [.integer(key), .integer(Int64(limit))]
        ) { (columns) throws(VolumeError) in
            (key: columns.integer(0), id: try columns.identifier(1))
        }
    }

    /// Whether the present hub confirmed the version in an earlier epoch, which means before it
    /// came back from a backup.
    package func wasConfirmedBeforeRestoring(_ version: Identifier) throws(VolumeError) -> Bool {
        try reader.first(
            """
            SELECT EXISTS (SELECT 1 FROM confirmations
                JOIN witnesses AS old ON old.key = witness
                JOIN witnesses AS new ON new.volume = old.volume
                WHERE version = ? AND old.is_current = 0 AND new.is_current = 1)
            """, [.identifier(version)]
        ) { $0.integer(0) == 1 } ?? false
    }

    /// The size in bytes of the files that may be evicted: their contents are here, and the present
    /// hub has confirmed them.
    package func evictableBytes() throws(VolumeError) -> Int64 {
        try reader.first(
            """
            SELECT coalesce(sum(items.size), 0) FROM items
            JOIN versions ON versions.id = items.current
            WHERE items.deleted IS NULL AND items.kind = 1 AND versions.durability = 3
            AND \(Version.isConfirmed) AND items.key NOT IN (SELECT item FROM absent)
            """, []
        ) { $0.integer(0) } ?? 0
    }

    /// The keys of these files in ascending order, beginning after `key`.
    package func evictableItems(after key: Int64, limit: Int) throws(VolumeError) -> [Int64] {
        try reader.all(
            """
            SELECT items.key FROM items JOIN versions ON versions.id = items.current
            WHERE items.key > ? AND items.deleted IS NULL AND items.kind = 1 AND items.size > 0
            AND items.changed <> 0 AND versions.durability = 3
            AND \(Version.isConfirmed) AND items.key NOT IN (SELECT item FROM absent)
            ORDER BY items.key LIMIT ?
            """, [.integer(key), .integer(Int64(limit))]
        ) { $0.integer(0) }
    }
}

extension Transaction {
    /// Sets the hub's volume and its present epoch. From now on only confirmations of this hub in
    /// this epoch count.
    package func setCurrentHub(volume: Identifier, epoch: Identifier) throws(VolumeError) {
        let values: [Value] = [.identifier(volume), .identifier(epoch)]
        let isKnown = try first(
            """
            SELECT EXISTS
                (SELECT 1 FROM witnesses WHERE is_current = 1 AND volume = ? AND epoch = ?)
            """, values
        ) { $0.integer(0) == 1 }
        if isKnown == true { return }
        try removeCurrentHub()
        try run(
            """
            INSERT INTO witnesses (volume, epoch, is_current) VALUES (?, ?, 1)
            ON CONFLICT (volume, epoch) DO UPDATE SET is_current = 1
            """, values)
    }

    /// The volume belongs to no hub any more, so no confirmation counts.
    package func removeCurrentHub() throws(VolumeError) {
        try run("UPDATE witnesses SET is_current = 0 WHERE is_current = 1", [])
    }

    /// Records that the present hub has the version.
    package func addConfirmation(_ version: Identifier) throws(VolumeError) {
        try run(
            """
            INSERT OR REPLACE INTO confirmations (version, witness)
            SELECT ?, key FROM witnesses WHERE is_current = 1
            """, [.identifier(version)])
    }

    func removeConfirmation(_ version: Identifier) throws(VolumeError) {
        try run("DELETE FROM confirmations WHERE version = ?", [.identifier(version)])
    }
}
