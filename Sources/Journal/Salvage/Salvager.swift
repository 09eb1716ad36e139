import Glibc
import Model

/// Copies the rows of a damaged journal into a new one, page by page.
///
/// First it follows the b-trees. If a tree is broken, it collects what the tree's indexes know
/// about missing rows. Then it reads all pages that no tree led to and recognizes rows by their
/// shape. So a lost page costs only the rows on it, and not those on the pages below it.
final class Salvager {
    let pages: PageFile
    let target: Transaction
    private let isContent: (Digest, Manifest) -> Bool
    /// Nanoseconds since 1970.
    let now: Int64
    var result = Salvage()
    private let trees: DatabaseTrees
    /// Tables that may have missing rows.
    var broken: Set<String> = []
    private var foundAnything = false
    /// The highest key that the damaged journal is known to have used; nil when its counter is
    /// lost.
    var lastKey: Int64?
    var lost = LostRows()
    /// The number of alive items that were marked as deleted because another item has their name.
    var clashes = 0
    /// The number of versions that were dropped because their manifest or their item is lost.
    var droppedVersions = 0
    /// The key of the directory for items whose own directory is lost.
    var recovered: Int64?

    init(
        pages: PageFile, target: Transaction, isContent: @escaping (Digest, Manifest) -> Bool
    ) throws(VolumeError) {
        self.isContent = isContent
        self.pages = pages
        trees = DatabaseTrees(pages)
        self.target = target
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        now = Timestamp(seconds: time.tv_sec, nanoseconds: time.tv_nsec).nanoseconds
        // Removes the root that the schema creates, so that the recovered root can be inserted.
        try target.run("DELETE FROM items", [])
    }

    func run() throws(VolumeError) -> Salvage {
        let usual = try target.all("SELECT name, rootpage FROM sqlite_schema", []) {
            ($0.text(0), UInt32(truncatingIfNeeded: $0.integer(1)))
        }
        try trees.findRoots(usual: Dictionary(usual) { $1 })
        trees.findFreePages()
        for layout in TableLayout.all + [.sequence] { try copyTree(layout) }
        if !broken.isEmpty {
            try lost.gather(of: broken, from: trees, target)
            try copyOrphanPages()
        }
        guard foundAnything else {
            throw .damagedJournal(pages.path, "nothing in it can be read as a journal's")
        }
        lost.gatherReferences()
        try rebuild()
        try repair()
        try countResult()
        return result
    }

    // MARK: Rows

    private func copyTree(_ layout: TableLayout) throws(VolumeError) {
        guard let root = trees.roots[layout.name] else { return }
        var isWhole = true
        let reached = try trees.walk(root, isTable: layout.hasKey) {
            (page, pages) throws(VolumeError) in
            var fitting = 0
            for cell in page.cells {
                guard let row = layout.row(cell, on: page, of: pages) else { continue }
                fitting += 1
                if try !self.keep(row, layout) { isWhole = false }
            }
            if fitting < page.cells.count { isWhole = false }
            return fitting > 0
        }
        if !reached || !isWhole { broken.insert(layout.name) }
    }

    /// Copies rows from pages that no tree led to. Sound pages come first.
    private func copyOrphanPages() throws(VolumeError) {
        let layouts = (TableLayout.all + [.sequence]).filter { broken.contains($0.name) }
        var doubtful: [UInt32] = []
        for number in 1...pages.count where trees.isOrphan(number) {
            guard let page = trees.page(number), page.isCoherent else {
                doubtful.append(number)
                continue
            }
            _ = try copyOrphanPage(page, layouts)
        }
        for number in doubtful {
            for kind in [nil, .tableLeaf, .indexLeaf] as [TreePage.Kind?] {
                guard let page = trees.page(number, as: kind) else { continue }
                if try copyOrphanPage(page, layouts) { break }
            }
        }
    }

    private func matches(_ layout: TableLayout, _ page: TreePage) -> Bool {
        layout.hasKey == (page.kind == .tableLeaf) && page.kind != .tableInterior
    }

    private func copyOrphanPage(
        _ page: TreePage, _ layouts: [TableLayout]
    ) throws(VolumeError) -> Bool {
        let layouts = layouts.filter { matches($0, page) }
        var fits = false
        for cell in page.cells {
            guard let count = Record.columnCount(cell, on: page) else { continue }
            for layout in layouts where layout.shapes.count == count {
                guard let row = layout.row(cell, on: page, of: pages), isExpected(row, layout)
                else { continue }
                fits = true
                _ = try keep(row, layout)
            }
        }
        return fits
    }

    /// A sound index knows all rows. A row that it does not know was deleted, or is random bytes.
    private func isExpected(_ row: [Value], _ layout: TableLayout) -> Bool {
        let key = row[0].integer ?? 0
        switch layout.name {
        case "items": return lost.items.admits(key) { $0.id == row[1].bytes }
        case "versions": return lost.versions.admits(key) { $0.id == row[1].bytes }
        case "manifests": return lost.manifests.admits(key) { $0.content == row[1].bytes }
        default: return true
        }
    }

    /// Returns false when another row has the same key or violates a unique index.
    func keep(_ row: [Value], _ layout: TableLayout) throws(VolumeError) -> Bool {
        foundAnything = true
        switch layout.name {
        case "items": return try keepItem(row)
        case "manifests" where !isWhole(manifest: row): return false
        case "sqlite_sequence":
            if row[0].text == "items" { lastKey = max(lastKey ?? 0, row[1].integer ?? 0) }
            return true
        default:
            try target.run(layout.insertion, row)
            return target.changeCount > 0
        }
    }

    private func isWhole(manifest row: [Value]) -> Bool {
        guard let digest = row[1].bytes.flatMap({ Digest(bytes: $0) }),
            let manifest = row[2].bytes.flatMap(Manifest.init(encoded:))
        else { return false }
        return isContent(digest, manifest)
    }

    /// An item whose name is used by another item is kept as a deleted item.
    private func keepItem(_ row: [Value]) throws(VolumeError) -> Bool {
        try target.run(TableLayout.items.insertion, row)
        if target.changeCount > 0 { return true }
        guard row[10].isNull, row[0].integer != Item.root else { return false }
        var row = row
        row[10] = .integer(now)
        try target.run(TableLayout.items.insertion, row)
        guard target.changeCount > 0 else { return false }
        clashes += 1
        return true
    }
}
