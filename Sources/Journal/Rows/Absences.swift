import Model

// Items whose file is only a placeholder, and items that users want to keep on this device.
extension Reader {
    /// The version whose bytes belong in an item's file but are not all there. Nil when they are,
    /// as far as the journal knows.
    package func absentVersion(of key: Int64) throws(VolumeError) -> Identifier? {
        try first("SELECT version FROM absent WHERE item = ?", [.integer(key)]) {
            (columns) throws(VolumeError) in try columns.identifier(0)
        }
    }

    /// Keys of items that are absent, in ascending order, beginning after `key`.
    package func absentItems(after key: Int64, limit: Int) throws(VolumeError) -> [Int64] {
        try all(
            "SELECT item FROM absent WHERE item > ? ORDER BY item LIMIT ?",
            [.integer(key), .integer(Int64(limit))]
        ) { $0.integer(0) }
    }

    package func absentCount() throws(VolumeError) -> Int {
        try first("SELECT count(*) FROM absent", []) { Int($0.integer(0)) } ?? 0
    }

    /// What a user has set for this item itself: true to keep it on this device, false not to keep
    /// it although a directory above it is kept. Nil when nothing is set.
    package func pin(of key: Int64) throws(VolumeError) -> Bool? {
        try first("SELECT pinned FROM pins WHERE item = ?", [.integer(key)]) { $0.integer(0) != 0 }
    }

    package func pins() throws(VolumeError) -> [(item: Int64, isPinned: Bool)] {
        try all("SELECT item, pinned FROM pins ORDER BY item", []) {
            (item: $0.integer(0), isPinned: $0.integer(1) != 0)
        }
    }

    /// Whether an item is to be kept on this device, and which item's setting decides that: its
    /// own, or else that of the nearest directory above it that has one. Nil when none has.
    package func decidingPin(for key: Int64) throws(VolumeError) -> (item: Int64, isPinned: Bool)? {
        var next = key
        // A limit above the depth of any path, so that a cycle of damaged parents ends, too.
        for _ in 0..<4096 {
            if let pin = try pin(of: next) { return (next, pin) }
            guard next != Item.root, let parent = try parent(of: next) else { return nil }
            next = parent
        }
        return nil
    }

    package func isPinned(_ key: Int64) throws(VolumeError) -> Bool {
        try SettingsFile.isOne(key, in: self) ? true : decidingPin(for: key)?.isPinned ?? false
    }
}

extension SettingsFile {
    /// Whether the item with that key is such a file.
    package static func isOne(_ key: Int64, in reader: Reader) throws(VolumeError) -> Bool {
        guard try reader.parent(of: key) == Item.root, let item = try reader.item(key) else {
            return false
        }
        return isOne([item.name])
    }
}

extension Transaction {
    package func setAbsent(_ key: Int64, version: Identifier) throws(VolumeError) {
        try endHolding(version)
        try run(
            "INSERT OR REPLACE INTO absent (item, version) VALUES (?, ?)",
            [.integer(key), .identifier(version)])
    }

    package func removeAbsent(_ key: Int64) throws(VolumeError) {
        guard let version = try absentVersion(of: key) else { return }
        try addHolding(version)
        try run("DELETE FROM absent WHERE item = ?", [.integer(key)])
    }

    /// Nil removes the setting.
    package func setPin(_ key: Int64, to isPinned: Bool?) throws(VolumeError) {
        guard let isPinned else {
            return try run("DELETE FROM pins WHERE item = ?", [.integer(key)])
        }
        try run(
            "INSERT OR REPLACE INTO pins (item, pinned) VALUES (?, ?)",
            [.integer(key), .integer(isPinned ? 1 : 0)])
    }

    /// Stores the list of chunks of a version that had none yet, and the digest of the list's
    /// content form.
    package func setManifest(_ manifest: [UInt8], content: Digest, of version: Identifier)
        throws(VolumeError)
    {
        let known = try first(
            """
            SELECT manifests.key FROM versions
            JOIN manifests ON manifests.key = versions.manifest WHERE versions.id = ?
            """, [.identifier(version)]
        ) { $0.integer(0) }
        guard let known else { return }
        let stored = try store(manifest, content: content)
        guard stored != known else { return }
        try run(
            "UPDATE versions SET manifest = ?, content = ? WHERE id = ?",
            [.integer(stored), .digest(content), .identifier(version)])
        try run(
            """
            DELETE FROM manifests
            WHERE key = ? AND NOT EXISTS (SELECT 1 FROM versions WHERE manifest = ?)
            """, [.integer(known), .integer(known)])
    }
}
