import Model

/// The b-trees of a damaged database, as far as they can be followed.
final class DatabaseTrees {
    let pages: PageFile
    /// The page at which each tree begins, by the name of its table or index.
    private(set) var roots: [String: UInt32] = [:]
    /// Pages of rows or entries that a tree led to and that were read.
    private var known: Set<UInt32> = []
    /// Pages that the list of free pages names, if that list is sound. They have no rows.
    private var free: Set<UInt32> = []

    init(_ pages: PageFile) { self.pages = pages }

    func page(_ number: UInt32, as kind: TreePage.Kind? = nil) -> TreePage? {
        pages.page(number).flatMap { TreePage($0, number: number, as: kind) }
    }

    /// Whether no tree led to the page, and it may have rows.
    func isOrphan(_ number: UInt32) -> Bool {
        !known.contains(number) && !free.contains(number)
            && !pages.overflowPages.contains(number)
    }

    /// Reads where the trees begin.
    ///
    /// - Parameter usual: Where those of a new journal begin, for a schema that cannot be read.
    func findRoots(usual: [String: UInt32]) throws(VolumeError) {
        roots = usual
        let layout = TableLayout.schema
        try walk(1, isTable: true) { (page, pages) throws(VolumeError) in
            let rows = page.cells.compactMap { layout.row($0, on: page, of: pages) }
            for row in rows {
                guard let name = row[1].text, let root = row[3].integer, root > 1 else { continue }
                if self.roots[name] != nil { self.roots[name] = UInt32(clamping: root) }
            }
            return !rows.isEmpty
        }
    }

    /// Calls `body` with every page of a tree that has rows. `body` returns whether the page's rows
    /// fit the tree.
    ///
    /// - Returns: Whether the whole tree was found and is sound.
    @discardableResult
    func walk(
        _ root: UInt32, isTable: Bool,
        _ body: (TreePage, PageFile) throws(VolumeError) -> Bool
    ) throws(VolumeError) -> Bool {
        var isWhole = true
        var seen: Set<UInt32> = []
        var waiting = [(number: root, depth: 0, keys: Int64.min...Int64.max)]
        while let (number, depth, keys) = waiting.popLast() {
            // 20 is SQLite's own limit. It is needed because a damaged page can point to itself.
            guard depth < 20, !known.contains(number), seen.insert(number).inserted,
                let page = page(number), page.kind.isTable == isTable
            else {
                isWhole = false
                continue
            }
            if page.kind.isInterior {
                let children = page.cells.map(\.child) + [page.lastChild]
                let below = zip(children, page.childKeys(within: keys)).map { ($0, depth + 1, $1) }
                waiting += below.reversed()
            }
            guard page.isCoherent, page.hasKeys(within: keys) else {
                isWhole = false
                continue
            }
            if page.kind != .tableInterior, try !body(page, pages), !page.cells.isEmpty {
                isWhole = false
                continue
            }
            if page.kind != .tableInterior { known.insert(number) }
        }
        return isWhole
    }

    /// Free pages may still contain rows that were deleted.
    func findFreePages() {
        guard let header = pages.page(1) else { return }
        var trunk = header.big32(32)
        while trunk > 1, !free.contains(trunk), let page = pages.page(trunk) {
            let count = Int(page.big32(4))
            guard count <= page.count / 4 - 2 else { return }
            free.insert(trunk)
            for index in 0..<count { free.insert(page.big32(8 + 4 * index)) }
            trunk = page.big32(0)
        }
    }
}
