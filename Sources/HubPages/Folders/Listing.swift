import Hub
import HubProtocol
import Model
import Reconcile

/// One page of the items in a folder.
struct Listing: Sendable {
    let items: [ItemState]
    let isSorted: Bool
    /// What the addresses of the other pages say; nil if there is no such page.
    let previous: String?
    let next: String?
    /// The number of items in the folder; nil if the folder is not sorted.
    let count: Int?

    /// - Parameters:
    ///   - page: What the address says: the number of a page, counted from 1, or in a folder that
    ///     is not sorted `after-` and the key of the last name before the page.
    ///   - isDeleted: Whether the deleted items are listed instead of the others.
    init(
        _ folder: Identifier, in volume: Identifier, page: String, isDeleted: Bool,
        _ transaction: any LedgerTransaction
    ) throws {
        let alive: Int64 = isDeleted ? 0 : 1
        // The condition on `name_key` is always true. Without it, SQLite would read all items of
        // the volume instead of its index of directories.
        let counted = try transaction.row(
            """
            SELECT count(*), coalesce(sum(bytes), 0) FROM (
                SELECT length(state) AS bytes FROM items
                WHERE volume = $1 AND parent = $2 AND name_key >= $5 AND alive = $3 LIMIT $4
            ) AS counted
            """,
            [
                .id(volume), .id(folder), .integer(alive),
                .integer(Int64(PageLimits.sorted + 1)), .bytes([]),
            ])
        let (count, bytes) = (try counted?.integer(0) ?? 0, try counted?.integer(1) ?? 0)
        if count > Int64(PageLimits.sorted) || bytes > Int64(PageLimits.sortedBytes) {
            try self.init(unsorted: folder, in: volume, page: page, alive: alive, transaction)
        } else {
            try self.init(sorted: folder, in: volume, page: page, alive: alive, transaction)
        }
    }

    private init(
        sorted folder: Identifier, in volume: Identifier, page: String, alive: Int64,
        _ transaction: any LedgerTransaction
    ) throws {
        let all = try transaction.rows(
            """
            SELECT id, state, sequence FROM items
            WHERE volume = $1 AND parent = $2 AND name_key >= $4 AND alive = $3
            """, [.id(volume), .id(folder), .integer(alive), .bytes([])]
        ).compactMap { row -> (key: SortKey, item: ItemState)? in
            let item = try transaction.state(row.bytes(1), row.id(0), sequence: row.count(2))
            // The root has itself as its parent.
            return item.id == .root ? nil : (SortKey(item.name, item.kind), item)
        }.sorted { $0.key < $1.key }
        let pages = max(1, (all.count + PageLimits.rows - 1) / PageLimits.rows)
        let number = min(max(Int(page) ?? 1, 1), pages)
        items = all.dropFirst((number - 1) * PageLimits.rows).prefix(PageLimits.rows).map(\.item)
        isSorted = true
        previous = number > 1 ? String(number - 1) : nil
        next = number < pages ? String(number + 1) : nil
        count = all.count
    }

    private init(
        unsorted folder: Identifier, in volume: Identifier, page: String, alive: Int64,
        _ transaction: any LedgerTransaction
    ) throws {
        let mark = "after-"
        let after = page.hasPrefix(mark) ? bytesOf(hexadecimal: String(page.dropFirst(6))) : nil
        let rows = try transaction.rows(
            """
            SELECT id, length(state), name_key FROM items
            WHERE volume = $1 AND parent = $2 AND alive = $3 AND name_key > $4
            ORDER BY name_key LIMIT $5
            """,
            [
                .id(volume), .id(folder), .integer(alive), .bytes(after ?? []),
                .integer(Int64(PageLimits.rows + 1)),
            ])
        var (shown, bytes) = (rows.prefix(PageLimits.rows), 0)
        for (index, row) in shown.enumerated() {
            bytes += Int(try row.integer(1))
            guard index > 0, bytes > PageLimits.sortedBytes else { continue }
            shown = rows.prefix(index)
            break
        }
        items = try shown.compactMap { try transaction.item($0.id(0), in: volume) }
        isSorted = false
        previous = after == nil ? nil : ""
        next =
            rows.count > shown.count
            ? try shown.last.map { mark + hexadecimal(try $0.bytes(2)) }
            : nil
        count = nil
    }
}

/// The order of a folder: folders first, then by name without regard to case, and digits by the
/// number that they are.
struct SortKey: Comparable {
    private let isFolder: Bool
    private let folded: [UInt8]
    private let name: [UInt8]

    init(_ name: String, _ kind: ItemKind) {
        isFolder = kind == .directory
        self.name = Array(name.utf8)
        var folded: [UInt8] = []
        var digits: [UInt8] = []
        func end() {
            guard !digits.isEmpty else { return }
            let number = digits.drop { $0 == UInt8(ascii: "0") }
            // The length of a number comes first, so that 9 stands before 10.
            folded += [UInt8(ascii: "0"), UInt8(clamping: number.count)] + number
            digits = []
        }
        for byte in name.lowercased().utf8 {
            if (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) {
                digits.append(byte)
            } else {
                end()
                folded.append(byte)
            }
        }
        end()
        self.folded = folded
    }

    static func < (a: SortKey, b: SortKey) -> Bool {
        if a.isFolder != b.isFolder { return a.isFolder }
        if a.folded != b.folded { return a.folded.lexicographicallyPrecedes(b.folded) }
        return a.name.lexicographicallyPrecedes(b.name)
    }
}
