import Model

extension Transaction {
    /// Adds a version to an item. The caller must update the item's own row (`latest`, `current`).
    ///
    /// - Throws: `.invalid` when the item is missing, or when the id or the number is already used.
    package func insert(
        _ version: Version, of key: Int64, manifest: [UInt8]
    ) throws(VolumeError) {
        let stored = try store(manifest, content: version.content)
        try run(Change.insert, version.values + [.integer(key), .integer(stored)])
        if version.durability == .hub { try addConfirmation(version.id) }
        if let protection = version.protection { try setProtection(of: version.id, protection) }
        if let session = version.session {
            try run(Change.session, [.identifier(version.id), .text(session.text)])
        }
    }

    /// Sets who owns a version. For the current version this changes together with the document.
    package func setProtection(of id: Identifier, _ protection: Protection) throws(VolumeError) {
        try run(
            Change.protection,
            [
                .identifier(id), .integer(Int64(protection.owner)),
                .integer(Int64(protection.group)), .integer(Int64(protection.mode)),
                .bytes(protection.accessList),
            ])
    }

    package func setKind(_ id: Identifier, _ kind: Version.Kind) throws(VolumeError) {
        try run(Change.kind, [.code(kind.rawValue), .identifier(id)])
        try expectChange("version \(id)")
    }

    /// Sets when the contents were modified, nanoseconds since 1970.
    package func setModified(_ time: Int64, of id: Identifier) throws(VolumeError) {
        try run(Change.modified, [.integer(time), .identifier(id)])
        try expectChange("version \(id)")
    }

    /// Nil removes the label.
    package func setLabel(_ id: Identifier, _ label: String?) throws(VolumeError) {
        try run(Change.label, [.text(label), .identifier(id)])
        try expectChange("version \(id)")
    }

    /// Sets the durability of versions. Ignores those that were removed in the meantime. `.hub`
    /// means the hub that the volume belongs to now.
    package func setDurability(
        _ ids: some Sequence<Identifier>, to durability: Version.Durability
    ) throws(VolumeError) {
        for id in ids {
            try run(Change.durability, [.code(durability.rawValue), .identifier(id)])
            if durability == .hub { try addConfirmation(id) }
        }
    }

    /// Removes the version, and its manifest when no other version shares it.
    package func remove(version id: Identifier) throws(VolumeError) {
        let manifest = try first(Change.manifestOf, [.identifier(id)]) { $0.integer(0) }
        guard let manifest else {
            throw VolumeError(.notFound, "The journal \(path) has no version \(id).")
        }
        try run("DELETE FROM versions WHERE id = ?", [.identifier(id)])
        try endHolding(id)
        try removeConfirmation(id)
        for table in ["owners", "sessions"] {
            try run("DELETE FROM \(table) WHERE version = ?", [.identifier(id)])
        }
        try run(Change.dropManifest, [.integer(manifest), .integer(manifest)])
    }

    /// Moves all versions and settlements of an item to another item, which must have none. The
    /// caller must update the rows of the items (`latest`, `current`).
    package func moveVersions(of key: Int64, to other: Int64) throws(VolumeError) {
        for table in ["versions", "settlements"] {
            try run(
                "UPDATE \(table) SET item = ? WHERE item = ?", [.integer(other), .integer(key)])
        }
    }

    /// Returns the key of the row with exactly these bytes; adds the row if there is none. The
    /// content's digest leaves out times and permissions, so several manifests can have the same
    /// digest.
    func store(_ manifest: [UInt8], content: Digest) throws(VolumeError) -> Int64 {
        let values: [Value] = [.digest(content), .bytes(manifest)]
        if let found = try first(Change.findManifest, values, { $0.integer(0) }) { return found }
        try run("INSERT INTO manifests (content, bytes) VALUES (?, ?)", values)
        return lastInsertedKey
    }
}

private enum Change {
    static let insert = """
        INSERT INTO versions (\(Version.columns), item, manifest)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """
    static let protection = """
        INSERT OR REPLACE INTO owners (version, owner, owner_group, permissions, access_list)
        VALUES (?, ?, ?, ?, ?)
        """
    static let session = "INSERT OR REPLACE INTO sessions (version, session) VALUES (?, ?)"
    static let kind = "UPDATE versions SET kind = ? WHERE id = ?"
    static let modified = "UPDATE versions SET modified = ? WHERE id = ?"
    static let label = "UPDATE versions SET label = ? WHERE id = ?"
    static let durability = "UPDATE versions SET durability = ? WHERE id = ?"
    static let manifestOf = "SELECT manifest FROM versions WHERE id = ?"
    /// Searches only the newest few rows with this content: a file that was copied ten thousand
    /// times has ten thousand manifests that differ in their times.
    static let findManifest = """
        SELECT key FROM
            (SELECT key, bytes FROM manifests WHERE content = ? ORDER BY key DESC LIMIT 8)
        WHERE bytes = ?
        """
    static let dropManifest = """
        DELETE FROM manifests
        WHERE key = ? AND NOT EXISTS (SELECT 1 FROM versions WHERE manifest = ?)
        """
}
