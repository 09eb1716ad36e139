import Model

extension Reader {
    /// The versions of an item, sorted by number.
    package func versions(of key: Int64) throws(VolumeError) -> [Version] {
        try all(Select.ofItem, [.integer(key)], Version.init(columns:))
    }

    package func version(of key: Int64, number: Int) throws(VolumeError) -> Version? {
        try first(
            Select.byNumber, [.integer(key), .integer(Int64(number))], Version.init(columns:))
    }

    package func hasVersion(of key: Int64, content: Digest) throws(VolumeError) -> Bool {
        try first(
            "SELECT EXISTS (SELECT 1 FROM versions WHERE item = ? AND content = ?)",
            [.integer(key), .digest(content)]
        ) { $0.integer(0) == 1 } ?? false
    }

    package func version(id: Identifier) throws(VolumeError) -> (item: Int64, version: Version)? {
        try first(Select.byID, [.identifier(id)]) { (columns) throws(VolumeError) in
            (
                item: columns.integer(Version.selectionCount),
                version: try Version(columns: columns)
            )
        }
    }

    /// The key of the item that has this version.
    package func item(ofVersion id: Identifier) throws(VolumeError) -> Int64? {
        try first("SELECT item FROM versions WHERE id = ?", [.identifier(id)]) { $0.integer(0) }
    }

    /// The keys of at most 20 items that have a version with the same manifest as this one.
    package func items(like version: Identifier) throws(VolumeError) -> [Int64] {
        try all(Select.itemsLike, [.identifier(version)]) { $0.integer(0) }
    }

    /// The encoded manifest of a version.
    package func manifest(of version: Identifier) throws(VolumeError) -> [UInt8]? {
        try first(Select.manifest, [.identifier(version)]) { $0.bytes(0) }
    }

    /// Calls `body` with the item's key, the id and the encoded manifest of every version, also of
    /// deleted items. `body` may write.
    ///
    /// A manifest that several versions share is passed with each of them.
    package func forEachManifest(_ body: (Int64, Identifier, [UInt8]) throws -> Void) throws {
        try forEachPage(
            Select.manifestPage, [], from: .integer(Int64.min), cursor: { .integer($0.key) },
            { (columns) throws(VolumeError) in
                (
                    key: columns.integer(0), item: columns.integer(1),
                    id: try columns.identifier(2)
                )
            },
            { row in
                // Read one at a time, because the manifest of a photo library has megabytes.
                guard let bytes = try manifest(of: row.id) else { return }
                try body(row.item, row.id, bytes)
            })
    }

    /// Versions that the present hub has confirmed, in the order of their keys, beginning after
    /// `key`.
    package func confirmedVersions(after key: Int64, limit: Int) throws(VolumeError) -> [(
        key: Int64, id: Identifier, item: Int64, number: Int
    )] {
        try all(
            """
            SELECT key, id, item, number FROM versions
            WHERE durability = 3 AND key > ? AND \(Version.isConfirmed)
            ORDER BY key LIMIT ?
            """, [.integer(key), .integer(Int64(limit))]
        ) { (columns) throws(VolumeError) in
            (
                key: columns.integer(0), id: try columns.identifier(1), item: columns.integer(2),
                number: Int(columns.integer(3))
            )
        }
    }

    /// The row keys of an item's versions. Row keys increase, so a greater one was inserted later.
    package func versionRows(of key: Int64) throws(VolumeError) -> [Identifier: Int64] {
        let rows = try all("SELECT id, key FROM versions WHERE item = ?", [.integer(key)]) {
            (columns) throws(VolumeError) in (try columns.identifier(0), columns.integer(1))
        }
        return Dictionary(rows) { one, _ in one }
    }

    package func lastVersionRow() throws(VolumeError) -> Int64 {
        try first("SELECT max(key) FROM versions", []) { $0.isNull(0) ? 0 : $0.integer(0) } ?? 0
    }

    /// When the newest version was saved; nil when there are no versions.
    package func newestSave() throws(VolumeError) -> Int64? {
        try first("SELECT max(saved) FROM versions", []) { $0.isNull(0) ? nil : $0.integer(0) }
            ?? nil
    }

    /// The latest change of a file that is known, by the clock of the file system; 0 if there is
    /// none.
    package func newestChange() throws(VolumeError) -> Int64 {
        try first("SELECT max(changed) FROM items", []) { $0.isNull(0) ? 0 : $0.integer(0) } ?? 0
    }

    package func versionCount() throws(VolumeError) -> Int {
        try first("SELECT count(*) FROM versions", []) { Int($0.integer(0)) } ?? 0
    }

    package func manifestCount() throws(VolumeError) -> Int {
        try first("SELECT count(*) FROM manifests", []) { Int($0.integer(0)) } ?? 0
    }
}

private enum Select {
    static let ofItem = """
        SELECT \(Version.selection) FROM \(Version.tables) WHERE item = ? ORDER BY number
        """
    static let byNumber = """
        SELECT \(Version.selection) FROM \(Version.tables) WHERE item = ? AND number = ?
        """
    static let byID = "SELECT \(Version.selection), item FROM \(Version.tables) WHERE id = ?"
    static let manifest = """
        SELECT bytes FROM manifests WHERE key = (SELECT manifest FROM versions WHERE id = ?)
        """
    static let itemsLike = """
        SELECT DISTINCT item FROM versions
        WHERE manifest = (SELECT manifest FROM versions WHERE id = ?) LIMIT 20
        """
    static let manifestPage = """
        SELECT key, item, id FROM versions WHERE key > ? ORDER BY key LIMIT ?
        """
}
