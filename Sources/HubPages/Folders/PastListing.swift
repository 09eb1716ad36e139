import Hub
import HubProtocol
import Model
import Reconcile

/// One page of what was in a folder.
struct PastListing: Sendable {
    private(set) var items: [PastItem] = []
    private(set) var isSorted = false
    /// What the addresses of the other pages say; nil if there is no such page.
    private(set) var previous: String?
    private(set) var next: String?
    /// The number of items in the folder; nil if the folder is not sorted.
    private(set) var count: Int?
    /// The positions at which the folder or a document in it has changed, in their order; nil if
    /// there are too many to read.
    private(set) var changes: [UInt64]?

    /// The rows that are read at once.
    private static let rows = 500

    /// - Parameter page: What the address says: the number of a page, counted from 1, or in a
    ///   folder that is not sorted the last row before the page.
    init(_ folder: Identifier, at position: UInt64, page: String, _ past: PastTable) throws {
        let cursor = PastCursor(page)
        if cursor == nil, let whole = try Whole(folder, at: position, past) {
            sort(whole.items, page: Int(page) ?? 1)
            changes = try whole.changes(of: folder, past)
            return
        }
        var (rest, read, bytes) = (cursor, 0, 0)
        repeat {
            let part = try past.page(
                of: folder, at: position, after: rest, limit: PageLimits.rows - items.count)
            items += part.items
            (read, bytes) = (read + part.count, bytes + part.bytes)
            rest = part.next
        } while rest != nil && items.count < PageLimits.rows && read < PageLimits.scanned
            && bytes <= PageLimits.sortedBytes
        previous = cursor == nil ? nil : ""
        next = rest?.text
    }

    private mutating func sort(_ all: [PastItem], page: Int) {
        let sorted = all.map { (key: SortKey($0.name, $0.kind), item: $0) }
            .sorted { $0.key < $1.key }
        let pages = max(1, (all.count + PageLimits.rows - 1) / PageLimits.rows)
        let number = min(max(page, 1), pages)
        items = sorted.dropFirst((number - 1) * PageLimits.rows).prefix(PageLimits.rows).map(\.item)
        isSorted = true
        previous = number > 1 ? String(number - 1) : nil
        next = number < pages ? String(number + 1) : nil
        count = all.count
    }

    /// All that was in a folder.
    private struct Whole {
        var items: [PastItem] = []
        private var changes: Set<UInt64> = []
        private var starts: [Identifier: UInt64] = [:]

        /// Returns nil if it is too large to be read for each page.
        init?(_ folder: Identifier, at position: UInt64, _ past: PastTable) throws {
            guard try !past.hasMore(than: PageLimits.sorted, in: folder) else { return nil }
            var (next, bytes) = (PastCursor?.none, 0)
            repeat {
                let part = try past.page(
                    of: folder, at: position, after: next, limit: PastListing.rows)
                items += part.items
                changes.formUnion(part.changes)
                starts.merge(part.starts) { $1 }
                bytes += part.bytes
                guard bytes <= PageLimits.sortedBytes else { return nil }
                next = part.next
            } while next != nil
        }

        /// Returns nil if the documents have too many versions.
        func changes(of folder: Identifier, _ past: PastTable) throws -> [UInt64]? {
            try past.versions(in: folder, upTo: PageLimits.sorted).map { versions in
                // Versions from before a document came here did not change the folder.
                let here = versions.filter { $0.position >= starts[$0.item] ?? .max }
                return changes.union(here.map(\.position)).sorted()
            }
        }
    }
}

extension PastCursor {
    /// As an address has it.
    fileprivate var text: String {
        switch self {
        case .item(let key, let alive, let id): "item-\(hexadecimal(key.bytes))-\(alive)-\(id)"
        case .place(let stop, let item): "place-\(stop)-\(item)"
        }
    }

    fileprivate init?(_ text: String) {
        let parts = text.split(separator: "-").map(String.init)
        guard let last = parts.last, last.utf8.count == 32, let id = Identifier(last) else {
            return nil
        }
        switch (parts[0], parts.count) {
        case ("item", 4):
            guard let key = bytesOf(hexadecimal: parts[1]), let alive = Int64(parts[2]) else {
                return nil
            }
            self = .item(key: NameKey(key), alive: alive, id: id)
        case ("place", 3):
            guard let stop = UInt64(parts[1]) else { return nil }
            self = .place(stop: stop, item: id)
        default: return nil
        }
    }
}

/// The moments between which a person moves through a folder's past: those at which it changed, or
/// those of the whole volume if the folder is too large for that.
struct PastMoments: Sendable {
    /// Some of them, in their order.
    private(set) var shown: [JournalMoment] = []
    /// The one whose state is shown; nil if the time is before all of them.
    private(set) var present: JournalMoment?
    private(set) var previous: JournalMoment?
    private(set) var next: JournalMoment?

    /// - Parameter changes: Positions in their order; nil for those of the whole volume.
    init(_ changes: [UInt64]?, at position: UInt64, _ times: JournalTimes) throws {
        var picked: [UInt64] = []
        if let changes {
            present = try changes.last { $0 <= position }.flatMap { try times.first(from: $0) }
            // Changes between two moments are shown together.
            let before = try present.flatMap { try times.last(before: $0.position) }?.position ?? 0
            previous = try changes.last { $0 <= before }.flatMap { try times.first(from: $0) }
            next = try changes.first { $0 > position }.flatMap { try times.first(from: $0) }
            picked = PastMoments.some(of: changes.count).map { changes[$0] }
        } else {
            present = try times.last(before: position + 1)
            previous = try present.flatMap { try times.last(before: $0.position) }
            next = try times.first(from: position + 1)
            if let last = try times.last(before: UInt64(Int64.max))?.position {
                picked = PastMoments.some(of: Int(clamping: last)).map { UInt64($0) + 1 }
            }
        }
        var all = Set(try picked.compactMap { try times.first(from: $0) })
        if let present { all.insert(present) }
        shown = all.sorted { $0.position < $1.position }
    }

    /// Indices that are spread evenly, the first and the last one included.
    private static func some(of count: Int) -> [Int] {
        guard count > PageLimits.moments else { return Array(0..<count) }
        let step = Double(count - 1) / Double(PageLimits.moments - 1)
        return (0..<PageLimits.moments).map { min(count - 1, Int(Double($0) * step)) }
    }
}
