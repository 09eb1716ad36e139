import Model

extension Transaction {
    /// From now on triggers add each item to `unsent` whose change a hub must know about. Triggers
    /// are used so that no code path can forget it. All existing items become unsent.
    package func startChangeTracking() throws(VolumeError) {
        for sql in ChangeTracking.triggers { try run(sql, []) }
        try markAllUnsent()
    }

    /// All existing items become unsent, so that they are compared with what is known of the hub.
    package func markAllUnsent() throws(VolumeError) {
        try run(ChangeTracking.allUnsent, [])
    }

    /// Items that no hub is known to have become unsent, if changes are tracked.
    package func markUnknownUnsent() throws(VolumeError) {
        guard try first(ChangeTracking.count, [], { $0.integer(0) }) ?? 0 > 0 else { return }
        let isUnknown = "NOT EXISTS (SELECT 1 FROM mirror WHERE mirror.id = items.id)"
        try run("\(ChangeTracking.allUnsent) AND \(isUnknown)", [])
    }
}

/// The triggers that fill the table `unsent`.
enum ChangeTracking {
    static let count = "SELECT count(*) FROM sqlite_schema WHERE name = 'note_item'"
    static let allUnsent = """
        INSERT OR IGNORE INTO unsent (item) SELECT key FROM items
        WHERE deleted IS NULL AND kind <> 5 AND key <> 1
        """
    static let removals = ["note_item", "note_item_change", "note_conflict", "note_settled"].map {
        "DROP TRIGGER IF EXISTS \($0)"
    }

    /// Nanoseconds, with a resolution of a millisecond. (`unixepoch('subsec')` needs a newer SQLite
    /// than Debian's.)
    private static let now =
        "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000000"

    // An edit sets `modified` together with `current`. That is not a change of attributes.
    static let triggers = [
        """
        CREATE TRIGGER IF NOT EXISTS note_item AFTER INSERT ON items WHEN new.kind <> 5
        BEGIN
            INSERT OR IGNORE INTO unsent (item, placed, attributed)
            VALUES (new.key, \(now), \(now));
        END
        """,
        """
        CREATE TRIGGER IF NOT EXISTS note_item_change AFTER UPDATE ON items
        WHEN new.kind <> 5 AND (new.parent IS NOT old.parent OR new.name IS NOT old.name
            OR new.kind IS NOT old.kind OR new.deleted IS NOT old.deleted
            OR new.current IS NOT old.current OR new.mode IS NOT old.mode
            OR new.attributes IS NOT old.attributes OR new.modified IS NOT old.modified
            OR old.changed = 0 AND new.changed <> 0)
        BEGIN
            INSERT OR IGNORE INTO unsent (item) VALUES (new.key);
            UPDATE unsent SET placed = \(now)
            WHERE item = new.key AND (new.parent IS NOT old.parent OR new.name IS NOT old.name
                OR new.deleted IS NOT old.deleted);
            UPDATE unsent SET attributed = \(now)
            WHERE item = new.key AND (new.mode IS NOT old.mode
                OR new.attributes IS NOT old.attributes
                OR new.modified IS NOT old.modified AND new.current IS old.current
                    AND new.changed <> 0);
        END
        """,
        """
        CREATE TRIGGER IF NOT EXISTS note_conflict AFTER INSERT ON versions WHEN new.kind = 3
        BEGIN INSERT OR IGNORE INTO unsent (item) VALUES (new.item); END
        """,
        """
        CREATE TRIGGER IF NOT EXISTS note_settled AFTER UPDATE OF kind ON versions
        WHEN new.kind = 3 OR old.kind = 3
        BEGIN INSERT OR IGNORE INTO unsent (item) VALUES (new.item); END
        """,
    ]
}
