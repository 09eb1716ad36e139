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

/// The rows that tables lack, as far as the entries of the indexes of `Schema` tell. Each entry
/// ends with the key of its row.
struct LostRows {
    var items = Evidence<ItemTrace>()
    var versions = Evidence<VersionTrace>()
    var manifests = Evidence<ManifestTrace>()
    /// The keys of the directories in which lost items were.
    private(set) var parents: Set<Int64> = []
    /// The keys of the manifests of lost versions, by the keys of their items.
    private(set) var manifestKeys: [Int64: [Int64]] = [:]

    mutating func gather(
        of broken: Set<String>, from trees: DatabaseTrees, _ target: Transaction
    ) throws(VolumeError) {
        let indexes = Indexes(trees: trees, target: target)
        if broken.contains("items") { try gatherItems(indexes) }
        if broken.contains("versions") { try gatherVersions(indexes) }
        if broken.contains("manifests") { try gatherManifests(indexes) }
    }

    /// Must be called before anything is rebuilt.
    mutating func gatherReferences() {
        for (key, trace) in items.traces {
            if let parent = trace.parent, parent != key { parents.insert(parent) }
        }
        for trace in versions.traces.values {
            guard let item = trace.item, let manifest = trace.manifest else { continue }
            manifestKeys[item, default: []].append(manifest)
        }
    }

    private mutating func gatherItems(_ indexes: Indexes) throws(VolumeError) {
        let known = "SELECT 1 FROM items WHERE key = ?"
        items.isComplete = try indexes.gather(
            "sqlite_autoindex_items_1", [.identifier],
            known: "SELECT id = ?2 FROM items WHERE key = ?1"
        ) { items.traces[$0, default: ItemTrace()].id = $1[0].bytes }
        _ = try indexes.gather(
            "items_alive", [.number(0...TableLayout.keys.upperBound), .bytes(0...255)], known: known
        ) {
            items.traces[$0, default: ItemTrace()].parent = $1[0].integer
            items.traces[$0]?.name = $1[1].bytes
        }
        _ = try indexes.gather("items_inode", [.integer], known: known) {
            items.traces[$0, default: ItemTrace()].inode = $1[0].integer ?? 0
        }
        _ = try indexes.gather(
            "items_deleted", [.reference, .bytes(1...255), .integer], known: known
        ) {
            items.traces[$0, default: ItemTrace()].parent = $1[0].integer
            items.traces[$0]?.name = $1[1].bytes
            items.traces[$0]?.deleted = $1[2].integer
        }
    }

    private mutating func gatherVersions(_ indexes: Indexes) throws(VolumeError) {
        let known = "SELECT 1 FROM versions WHERE key = ?"
        versions.isComplete = try indexes.gather(
            "sqlite_autoindex_versions_1", [.identifier],
            known: "SELECT id = ?2 FROM versions WHERE key = ?1"
        ) { versions.traces[$0, default: VersionTrace()].id = $1[0].bytes }
        _ = try indexes.gather(
            "sqlite_autoindex_versions_2", [.reference, .number(1...Int64(Int32.max))], known: known
        ) {
            versions.traces[$0, default: VersionTrace()].item = $1[0].integer
            versions.traces[$0]?.number = $1[1].integer
        }
        _ = try indexes.gather("versions_manifest", [.reference], known: known) {
            versions.traces[$0, default: VersionTrace()].manifest = $1[0].integer
        }
    }

    private mutating func gatherManifests(_ indexes: Indexes) throws(VolumeError) {
        manifests.isComplete = try indexes.gather(
            "manifests_content", [.digest],
            known: "SELECT content = ?2 FROM manifests WHERE key = ?1"
        ) { manifests.traces[$0, default: ManifestTrace()].content = $1[0].bytes }
    }
}

/// The indexes of a damaged database, compared with the rows that were kept.
private struct Indexes {
    let trees: DatabaseTrees
    let target: Transaction

    /// - Parameter known: A query for a key, and for an entry's first value if it has a second
    ///   parameter. It gives no row when the table lacks that row, and 0 when the table has a
    ///   different row with that key, which means that the index cannot be trusted.
    /// - Returns: Whether the index is sound.
    func gather(
        _ index: String, _ shapes: [TableLayout.Shape], known: String,
        _ note: (Int64, [Value]) -> Void
    ) throws(VolumeError) -> Bool {
        guard let root = trees.roots[index] else { return false }
        let layout = TableLayout(name: index, shapes: shapes + [.reference], hasKey: false)
        let asksForValue = known.contains("?2")
        var isSound = true
        var missing: [(Int64, [Value])] = []
        let isWhole = try trees.walk(root, isTable: false) { (page, pages) throws(VolumeError) in
            let entries = page.cells.compactMap { layout.row($0, on: page, of: pages) }
            if entries.count < page.cells.count { isSound = false }
            for entry in entries {
                guard let key = entry.last?.integer else { continue }
                let values = [.integer(key)] + (asksForValue ? [entry[0]] : [])
                let state = try target.first(known, values) { $0.integer(0) }
                if state == 0 { isSound = false }
                if state == nil { missing.append((key, entry)) }
            }
            return !entries.isEmpty
        }
        for (key, entry) in missing { note(key, entry) }
        return isWhole && isSound
    }
}
