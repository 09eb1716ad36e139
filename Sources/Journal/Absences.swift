import Model

// What of the tree is only a placeholder, and what people want here.
extension Reader {
    /// The version whose bytes belong into an item's file and are not all there; nil: they are, as
    /// far as the journal knows.
    package func absentVersion(of key: Int64) throws(VolumeError) -> Identifier? {
        try first("SELECT version FROM absent WHERE item = ?", [.integer(key)]) {
            (columns) throws(VolumeError) in try columns.identifier(0)
        }
    }

    /// Keys of items that are absent, in their order, after one of them.
    package func absentItems(after key: Int64, limit: Int) throws(VolumeError) -> [Int64] {
        try all(
            "SELECT item FROM absent WHERE item > ? ORDER BY item LIMIT ?",
            [.integer(key), .integer(Int64(limit))]
        ) { $0.integer(0) }
    }

    package func absentCount() throws(VolumeError) -> Int {
        try first("SELECT count(*) FROM absent", []) { Int($0.integer(0)) } ?? 0
    }

    /// What somebody said of this very item: true to keep it here, false not to (below a directory
    /// that is kept); nil nothing.
    package func pin(of key: Int64) throws(VolumeError) -> Bool? {
        try first("SELECT pinned FROM pins WHERE item = ?", [.integer(key)]) { $0.integer(0) != 0 }
    }

    package func pins() throws(VolumeError) -> [(item: Int64, isPinned: Bool)] {
        try all("SELECT item, pinned FROM pins ORDER BY item", []) {
            (item: $0.integer(0), isPinned: $0.integer(1) != 0)
        }
    }

    /// Whether an item is to be kept here: by what was said of it, or else of the nearest directory
    /// above it.
    package func isPinned(_ key: Int64) throws(VolumeError) -> Bool {
        var next = key
        // Deeper than any path: damaged parents end, too.
        for _ in 0..<4096 {
            if let pin = try pin(of: next) { return pin }
            guard next != Item.root else { return false }
            let parent = try first("SELECT parent FROM items WHERE key = ?", [.integer(next)]) {
                $0.integer(0)
            }
            guard let parent else { return false }
            next = parent
        }
        return false
    }

    /// Bytes of files whose contents the present hub has and that are here all the same.
    package func spareBytes() throws(VolumeError) -> Int64 {
        try first(
            """
            SELECT coalesce(sum(items.size), 0) FROM items
            JOIN versions ON versions.id = items.current
            WHERE items.deleted IS NULL AND items.kind = 1 AND versions.durability = 3
            AND \(Version.isConfirmed) AND items.key NOT IN (SELECT item FROM absent)
            """, []
        ) { $0.integer(0) } ?? 0
    }

    /// Those files, by key, after one of them.
    package func spareItems(after key: Int64, limit: Int) throws(VolumeError) -> [Int64] {
        try all(
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

    /// Nil: nothing is said any more.
    package func setPin(_ key: Int64, to isPinned: Bool?) throws(VolumeError) {
        guard let isPinned else {
            return try run("DELETE FROM pins WHERE item = ?", [.integer(key)])
        }
        try run(
            "INSERT OR REPLACE INTO pins (item, pinned) VALUES (?, ?)",
            [.integer(key), .integer(isPinned ? 1 : 0)])
    }

    /// Gives a version, whose list of chunks was not here, that list, and the digest of its content
    /// form.
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
