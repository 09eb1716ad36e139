import Model

/// What the indexes know about rows that are missing in their table.
struct Evidence<Trace> {
    var traces: [Int64: Trace] = [:]
    /// Whether the index by id was sound, so that it has every row.
    var isComplete = false

    func admits(_ key: Int64, _ fits: (Trace) -> Bool) -> Bool {
        !isComplete || traces[key].map(fits) ?? false
    }
}

struct ItemTrace {
    var id: [UInt8]?
    var parent: Int64?
    var name: [UInt8]?
    var inode: Int64 = 0
    var deleted: Int64?
}

struct VersionTrace {
    var id: [UInt8]?
    var item: Int64?
    var number: Int64?
    var manifest: Int64?
}

struct ManifestTrace {
    var content: [UInt8]?
}

// The entries of the indexes of `Schema`. Each ends with the key of its row.
extension Salvager {
    func gatherEvidence() throws(VolumeError) {
        if broken.contains("items") { try gatherItems() }
        if broken.contains("versions") { try gatherVersions() }
        if broken.contains("manifests") { try gatherManifests() }
    }

    private func gatherItems() throws(VolumeError) {
        let known = "SELECT 1 FROM items WHERE key = ?"
        lostItems.isComplete = try gather(
            "sqlite_autoindex_items_1", [.identifier],
            known: "SELECT id = ?2 FROM items WHERE key = ?1"
        ) { $0.lostItems.traces[$1, default: ItemTrace()].id = $2[0].bytes }
        _ = try gather(
            "items_alive", [.number(0...TableLayout.keys.upperBound), .bytes(0...255)], known: known
        ) {
            $0.lostItems.traces[$1, default: ItemTrace()].parent = $2[0].integer
            $0.lostItems.traces[$1]?.name = $2[1].bytes
        }
        _ = try gather("items_inode", [.integer], known: known) {
            $0.lostItems.traces[$1, default: ItemTrace()].inode = $2[0].integer ?? 0
        }
        _ = try gather("items_deleted", [.reference, .bytes(1...255), .integer], known: known) {
            $0.lostItems.traces[$1, default: ItemTrace()].parent = $2[0].integer
            $0.lostItems.traces[$1]?.name = $2[1].bytes
            $0.lostItems.traces[$1]?.deleted = $2[2].integer
        }
    }

    private func gatherVersions() throws(VolumeError) {
        let known = "SELECT 1 FROM versions WHERE key = ?"
        lostVersions.isComplete = try gather(
            "sqlite_autoindex_versions_1", [.identifier],
            known: "SELECT id = ?2 FROM versions WHERE key = ?1"
        ) { $0.lostVersions.traces[$1, default: VersionTrace()].id = $2[0].bytes }
        _ = try gather(
            "sqlite_autoindex_versions_2", [.reference, .number(1...Int64(Int32.max))], known: known
        ) {
            $0.lostVersions.traces[$1, default: VersionTrace()].item = $2[0].integer
            $0.lostVersions.traces[$1]?.number = $2[1].integer
        }
        _ = try gather("versions_manifest", [.reference], known: known) {
            $0.lostVersions.traces[$1, default: VersionTrace()].manifest = $2[0].integer
        }
    }

    private func gatherManifests() throws(VolumeError) {
        lostManifests.isComplete = try gather(
            "manifests_content", [.digest],
            known: "SELECT content = ?2 FROM manifests WHERE key = ?1"
        ) { $0.lostManifests.traces[$1, default: ManifestTrace()].content = $2[0].bytes }
    }

    /// - Parameter known: A query for a key, and for an entry's first value if it has a second
    ///   parameter. It gives no row when the table lacks that row, and 0 when the table has a
    ///   different row with that key, which means that the index cannot be trusted.
    /// - Returns: Whether the index is sound.
    private func gather(
        _ index: String, _ shapes: [TableLayout.Shape], known: String,
        _ note: (Salvager, Int64, [Value]) -> Void
    ) throws(VolumeError) -> Bool {
        guard let root = roots[index] else { return false }
        let layout = TableLayout(name: index, shapes: shapes + [.reference], hasKey: false)
        let asksForValue = known.contains("?2")
        var isSound = true
        var missing: [(Int64, [Value])] = []
        let isWhole = try walk(root, isTable: false) { (page, pages) throws(VolumeError) in
            let entries = page.cells.compactMap { layout.row($0, on: page, of: pages) }
            if entries.count < page.cells.count { isSound = false }
            for entry in entries {
                guard let key = entry.last?.integer else { continue }
                let values = [.integer(key)] + (asksForValue ? [entry[0]] : [])
                let state = try self.target.first(known, values) { $0.integer(0) }
                if state == 0 { isSound = false }
                if state == nil { missing.append((key, entry)) }
            }
            return !entries.isEmpty
        }
        for (key, entry) in missing { note(self, key, entry) }
        return isWhole && isSound
    }
}
