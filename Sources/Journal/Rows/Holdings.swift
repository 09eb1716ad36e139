import Model

// Holdings: which versions have their bytes on this device, and what the hub has been told about
// that.
extension HubTables {
    /// What the hub has not been told yet: that a version's bytes are here, or that they are not
    /// here any more.
    package func unreportedHoldings(limit: Int) throws(VolumeError) -> [(
        version: Identifier, isGone: Bool
    )] {
        try reader.all(
            "SELECT version, state FROM holdings WHERE state <> 2 LIMIT ?",
            [.integer(Int64(limit))]
        ) { (columns) throws(VolumeError) in
            (version: try columns.identifier(0), isGone: columns.integer(1) == 3)
        }
    }

    package func hasUnreportedHoldings() throws(VolumeError) -> Bool {
        try reader.first("SELECT EXISTS (SELECT 1 FROM holdings WHERE state <> 2)", []) {
            $0.integer(0) == 1
        } ?? false
    }
}

extension Transaction {
    /// Records that the version's bytes are here. The hub will be told unless it has been told
    /// already.
    package func addHolding(_ version: Identifier) throws(VolumeError) {
        try run(
            """
            INSERT INTO holdings (version, state) VALUES (?, 1)
            ON CONFLICT (version) DO UPDATE SET state = 1 WHERE state = 3
            """, [.identifier(version)])
    }

    /// Records that the version's bytes are not here any more.
    func endHolding(_ version: Identifier) throws(VolumeError) {
        try run("UPDATE holdings SET state = 3 WHERE version = ?", [.identifier(version)])
    }

    /// Records that the hub has been told this. If the state has changed since, the hub is told
    /// again the next time.
    package func setReported(_ version: Identifier, isGone: Bool) throws(VolumeError) {
        let sql =
            isGone
            ? "DELETE FROM holdings WHERE version = ? AND state = 3"
            : "UPDATE holdings SET state = 2 WHERE version = ? AND state = 1"
        try run(sql, [.identifier(version)])
    }

    package func removeHolding(_ version: Identifier) throws(VolumeError) {
        try run("DELETE FROM holdings WHERE version = ?", [.identifier(version)])
    }

    /// The hub is another one, or has lost what it knew about this device. It is told everything
    /// again.
    package func resendHoldings() throws(VolumeError) {
        try run("UPDATE holdings SET state = 1 WHERE state = 2", [])
    }

    /// Makes all versions that one device has recorded and no hub has confirmed another device's.
    package func reassignVersions(of device: Identifier, to other: Identifier)
        throws(VolumeError)
    {
        try run(
            "UPDATE versions SET device = ? WHERE device = ? AND durability < 3",
            [.identifier(other), .identifier(device)])
    }

    /// The hub may have lost what it has confirmed. It must confirm all versions again whose bytes
    /// are in the tree.
    package func revokeConfirmations() throws(VolumeError) {
        try run(
            """
            UPDATE versions SET durability = 2 WHERE durability = 3 AND id IN
                (SELECT current FROM items WHERE deleted IS NULL AND current IS NOT NULL
                AND key NOT IN (SELECT item FROM absent))
            """, [])
    }

    /// The hub has the current version of an item, under that id. The id differs when another
    /// device has sent the same contents first.
    ///
    /// - Returns: False when a different version has the id.
    package func confirm(current version: Identifier, of key: Int64, as id: Identifier)
        throws(VolumeError) -> Bool
    {
        if id != version {
            guard try self.version(id: id) == nil else { return false }
            let isUnsent = try hub.isUnsent(key)
            try rename(version: version, to: id, of: key)
            // The change of the id is none that the hub must be told.
            if !isUnsent { try removeUnsent(key) }
        }
        try setDurability([id], to: .hub)
        return true
    }

    /// Gives a version another id, because a hub has the id for another item's version. No hub has
    /// confirmed the version under the new id.
    ///
    /// - Returns: The new id; nil if there is no such version.
    @discardableResult
    package func renew(version id: Identifier) throws(VolumeError) -> Identifier? {
        guard let key = try item(ofVersion: id) else { return nil }
        let new = Identifier.random()
        try rename(version: id, to: new, of: key)
        try run(
            "UPDATE versions SET durability = min(durability, 2) WHERE id = ?", [.identifier(new)])
        return new
    }

    /// Frees the id of a deleted item's version for another item. The version gets another id, or
    /// is removed if its contents were never here: no hub would find them by another id.
    package func free(version id: Identifier) throws(VolumeError) {
        guard try manifest(of: id)?.isEmpty == true, let key = try item(ofVersion: id) else {
            try renew(version: id)
            return
        }
        try run("UPDATE items SET current = NULL WHERE current = ?", [.identifier(id)])
        if try absentVersion(of: key) == id { try removeAbsent(key) }
        try remove(version: id)
    }

    /// Replaces the id of a version wherever it stands. What a hub has said of it is forgotten.
    private func rename(
        version id: Identifier, to new: Identifier, of key: Int64
    ) throws(VolumeError) {
        let values: [Value] = [.identifier(new), .identifier(id)]
        try run("UPDATE versions SET id = ? WHERE id = ?", values)
        for table in ["owners", "sessions"] {
            try run("UPDATE \(table) SET version = ? WHERE version = ?", values)
        }
        if try absentVersion(of: key) == id { try setAbsent(key, version: new) }
        try run(
            "UPDATE items SET current = ? WHERE key = ? AND current = ?",
            [.identifier(new), .integer(key), .identifier(id)])
        for other in try versions(of: key) where other.parents.contains(id) {
            let parents = other.parents.map { $0 == id ? new : $0 }
            try run(
                "UPDATE versions SET parents = ? WHERE id = ?",
                [.bytes(parents.flatMap(\.bytes)), .identifier(other.id)])
        }
        try removeConfirmation(id)
        try removeHolding(id)
    }
}
