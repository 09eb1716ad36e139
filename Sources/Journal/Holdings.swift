import Model

// Versions whose bytes are on this device, as far as the hub has been told.
extension Reader {
    /// What is still to be told: that they are here, or that they are not any more.
    package func untoldHoldings(limit: Int) throws(VolumeError) -> [(
        version: Identifier, isGone: Bool
    )] {
        try all(
            "SELECT version, state FROM holdings WHERE state <> 2 LIMIT ?",
            [.integer(Int64(limit))]
        ) { (columns) throws(VolumeError) in
            (version: try columns.identifier(0), isGone: columns.integer(1) == 3)
        }
    }

    package func hasUntoldHoldings() throws(VolumeError) -> Bool {
        try first("SELECT EXISTS (SELECT 1 FROM holdings WHERE state <> 2)", []) {
            $0.integer(0) == 1
        } ?? false
    }
}

extension Transaction {
    /// Its bytes are here: the hub is to be told, unless it has been.
    package func addHolding(_ version: Identifier) throws(VolumeError) {
        try run(
            """
            INSERT INTO holdings (version, state) VALUES (?, 1)
            ON CONFLICT (version) DO UPDATE SET state = 1 WHERE state = 3
            """, [.identifier(version)])
    }

    /// They are not any more.
    func endHolding(_ version: Identifier) throws(VolumeError) {
        try run("UPDATE holdings SET state = 3 WHERE version = ?", [.identifier(version)])
    }

    /// The hub has been told as it was asked for; what changed since is told the next time.
    package func setTold(_ version: Identifier, isGone: Bool) throws(VolumeError) {
        let sql =
            isGone
            ? "DELETE FROM holdings WHERE version = ? AND state = 3"
            : "UPDATE holdings SET state = 2 WHERE version = ? AND state = 1"
        try run(sql, [.identifier(version)])
    }

    package func removeHolding(_ version: Identifier) throws(VolumeError) {
        try run("DELETE FROM holdings WHERE version = ?", [.identifier(version)])
    }

    /// The hub, or what it knows of this device, is another one.
    package func retellHoldings() throws(VolumeError) {
        try run("UPDATE holdings SET state = 1 WHERE state = 2", [])
    }

    /// What a device has recorded and no hub has confirmed is another device's.
    package func readdressVersions(of device: Identifier, to other: Identifier)
        throws(VolumeError)
    {
        try run(
            "UPDATE versions SET device = ? WHERE device = ? AND durability < 3",
            [.identifier(other), .identifier(device)])
    }

    /// The hub may have forgotten what it had confirmed: of all whose bytes are in the tree, it has
    /// to say so again.
    package func doubtConfirmations() throws(VolumeError) {
        try run(
            """
            UPDATE versions SET durability = 2 WHERE durability = 3 AND id IN
                (SELECT current FROM items WHERE deleted IS NULL AND current IS NOT NULL
                AND key NOT IN (SELECT item FROM absent))
            """, [])
    }

    /// The hub knows the current version of an item, by that id: another device's of the same
    /// contents, perhaps.
    ///
    /// - Returns: False when another version has the id.
    package func confirm(current version: Identifier, of key: Int64, as id: Identifier)
        throws(VolumeError) -> Bool
    {
        if id != version, try self.version(id: id) != nil { return false }
        try run(
            "UPDATE versions SET id = ?, durability = 3 WHERE id = ?",
            [.identifier(id), .identifier(version)])
        try addConfirmation(id)
        guard id != version else { return true }
        try removeConfirmation(version)
        try run(
            "UPDATE items SET current = ? WHERE key = ? AND current = ?",
            [.identifier(id), .integer(key), .identifier(version)])
        try run("DELETE FROM holdings WHERE version = ?", [.identifier(version)])
        return true
    }
}
