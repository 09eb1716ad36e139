import Model

// Rebuilds rows whose page is lost, from what indexes and other tables know about them.
extension Salvager {
    /// Shown instead of the device, person and program of a version whose row was lost.
    private static var unknown: String { "unknown" }

    func rebuild() throws(VolumeError) {
        try rebuildRoot()
        for key in lost.items.traces.keys.sorted() { try rebuildItem(key) }
        for key in lost.versions.traces.keys.sorted() { try rebuildVersion(key) }
        try rebuildDocuments()
        try raiseNumbers()
    }

    private func rebuildRoot() throws(VolumeError) {
        guard try !exists("items", Item.root) else { return }
        let trace = lost.items.traces.removeValue(forKey: Item.root)
        try add(Item.root, trace?.id, parent: 0, name: [], .directory, inode: trace?.inode ?? 0)
    }

    /// The kind of an item follows from the rows that refer to it. An item without such rows has
    /// nothing to lose, and the comparison with the working tree finds it again.
    private func rebuildItem(_ key: Int64) throws(VolumeError) {
        guard let trace = lost.items.traces[key], let parent = trace.parent, let name = trace.name,
            try !exists("items", key)
        else { return }
        let kind: Item.Kind
        if try isParent(key) {
            kind = .directory
        } else if let manifest = try lastManifest(of: key) {
            kind = manifest.isPackage ? .package : .file
        } else {
            return
        }
        try add(
            key, trace.id, parent: parent, name: name, kind, inode: trace.inode,
            deleted: trace.deleted)
    }

    func add(
        _ key: Int64, _ id: [UInt8]?, parent: Int64, name: [UInt8], _ kind: Item.Kind,
        inode: Int64 = 0, deleted: Int64? = nil
    ) throws(VolumeError) {
        let current: Value =
            try target.first(
                "SELECT id FROM versions WHERE item = ? AND kind = 1 ORDER BY number DESC LIMIT 1",
                [.integer(key)]
            ) { .bytes($0.bytes(0)) } ?? .null
        let row: [Value] = [
            .integer(key), .bytes(id ?? Identifier.random().bytes), .integer(parent), .bytes(name),
            .code(kind.rawValue), .integer(inode), .integer(0), .integer(0), .integer(0),
            .integer(0), .integer(deleted), .integer(0), current, .integer(0),
            .integer(0), .null,
        ]
        if try keep(row, .items) { result.items.rebuilt += 1 }
    }

    /// The version gets a label, so that thinning does not remove it before a user has looked at
    /// it.
    func rebuildVersion(_ key: Int64) throws(VolumeError) {
        guard let trace = lost.versions.traces[key], let id = trace.id, let item = trace.item,
            let number = trace.number, let manifest = trace.manifest,
            let (content, list) = try manifestRow(manifest), try !exists("versions", key)
        else { return }
        let found = try target.first(
            "SELECT name, current = ? FROM items WHERE key = ?", [.bytes(id), .integer(item)]
        ) { (name: $0.bytes(0), isCurrent: $0.integer(1) == 1) }
        let kind: Version.Kind = found?.isCurrent == true ? .current : .history
        let modified = list.entries.first?.modified ?? 0
        let row: [Value] = [
            .integer(key), .bytes(id), .integer(item), .integer(number), .bytes([]),
            .code(kind.rawValue), .bytes(Array(repeating: 0, count: 16)), .text(Self.unknown),
            .text(Self.unknown), .text(Self.unknown), .bytes(found?.name ?? []),
            .bits(list.size), .integer(modified), .integer(modified), .bytes(content),
            .code(Version.Durability.memory.rawValue), .text("recovered"), .integer(manifest),
        ]
        if try keep(row, .versions) { result.versions.rebuilt += 1 }
    }

    /// Versions whose item is lost become versions of a deleted document in the root, with the last
    /// name that they know.
    func rebuildDocuments() throws(VolumeError) {
        let keys = try target.all(
            "SELECT DISTINCT item FROM versions WHERE item NOT IN (SELECT key FROM items)", []
        ) { $0.integer(0) }
        for key in keys {
            guard let manifest = try lastManifest(of: key) else { continue }
            let name = try target.first(
                "SELECT name FROM versions WHERE item = ? AND length(name) > 0 "
                    + "ORDER BY number DESC LIMIT 1", [.integer(key)]
            ) { $0.bytes(0) }
            try add(
                key, lost.items.traces[key]?.id, parent: Item.root,
                name: name ?? Array("recovered \(key)".utf8), manifest.isPackage ? .package : .file,
                deleted: now)
            result.documents += 1
        }
    }

    /// Ensures that the number of a lost version is not used again.
    private func raiseNumbers() throws(VolumeError) {
        try target.run(
            """
            UPDATE items SET latest = (SELECT max(number) FROM versions WHERE item = items.key)
            WHERE latest < (SELECT max(number) FROM versions WHERE item = items.key)
            """, [])
        for trace in lost.versions.traces.values {
            guard let item = trace.item, let number = trace.number else { continue }
            try target.run(
                "UPDATE items SET latest = ?1 WHERE key = ?2 AND latest < ?1",
                [.integer(number), .integer(item)])
        }
    }

    // MARK: Questions

    func exists(_ table: String, _ key: Int64) throws(VolumeError) -> Bool {
        try target.first("SELECT 1 FROM \(table) WHERE key = ?", [.integer(key)]) { _ in true }
            ?? false
    }

    private func isParent(_ key: Int64) throws(VolumeError) -> Bool {
        if lost.parents.contains(key) { return true }
        return try target.first(
            """
            SELECT 1 WHERE EXISTS (SELECT 1 FROM items WHERE parent = ?1 AND deleted IS NULL)
            OR EXISTS (SELECT 1 FROM items WHERE parent = ?1 AND deleted IS NOT NULL)
            """, [.integer(key)]
        ) { _ in true } ?? false
    }

    /// The manifest of the newest version that has one, whether the version's own row was kept or
    /// not.
    private func lastManifest(of key: Int64) throws(VolumeError) -> Manifest? {
        let kept = try target.first(
            "SELECT manifest FROM versions WHERE item = ? "
                + "AND manifest IN (SELECT key FROM manifests) "
                + "ORDER BY number DESC LIMIT 1", [.integer(key)]
        ) { $0.integer(0) }
        for manifest in [kept].compactMap(\.self) + (lost.manifestKeys[key] ?? []) {
            if let row = try manifestRow(manifest) { return row.list }
        }
        return nil
    }

    private func manifestRow(
        _ key: Int64
    ) throws(VolumeError) -> (content: [UInt8], list: Manifest)? {
        let row = try target.first(
            "SELECT content, bytes FROM manifests WHERE key = ?", [.integer(key)]
        ) { ($0.bytes(0), $0.bytes(1)) }
        guard let row, let list = Manifest(encoded: row.1) else { return nil }
        return (row.0, list)
    }
}
