/// One page of a b-tree, with the cells that can be read.
struct TreePage {
    enum Kind: UInt8 {
        case indexInterior = 2
        case tableInterior = 5
        case indexLeaf = 10
        case tableLeaf = 13

        var isTable: Bool { self == .tableInterior || self == .tableLeaf }
        var isInterior: Bool { self == .tableInterior || self == .indexInterior }
    }

    struct Cell {
        /// In an interior page: the child page with the smaller keys.
        var child: UInt32 = 0
        /// In a table: the row id.
        var key: Int64 = 0
        /// The length of the whole payload; `local` is the range of the part that is on this page.
        var length = 0
        var local = 0..<0
        /// The first page with the rest of the payload; 0 none.
        var overflow: UInt32 = 0
        /// The number of bytes on this page.
        var size = 0
    }

    let kind: Kind
    let bytes: [UInt8]
    private(set) var cells: [Cell] = []
    /// The last child of an interior page; 0 on a leaf.
    let lastChild: UInt32
    /// Whether header, cells and free space fill the page exactly and the keys ascend.
    private(set) var isCoherent = true

    /// - Parameter forced: Reads the page as one of that kind, whatever its header says.
    init?(_ bytes: [UInt8], number: UInt32, as forced: Kind? = nil) {
        // The first page begins with the file's header.
        let start = number == 1 ? 100 : 0
        let stated = Kind(rawValue: bytes[start])
        guard let kind = forced ?? stated else { return nil }
        self.kind = kind
        self.bytes = bytes
        lastChild = kind.isInterior ? bytes.big32(start + 8) : 0
        let count = bytes.big16(start + 3)
        let first = start + (kind.isInterior ? 12 : 8)
        readCells(atMost: count, from: first)
        isCoherent =
            isCoherent && kind == stated && isFilled(start: start, first: first, count: count)
            && keysAscend
        if !isCoherent { readCells(atMost: .max, from: first) }
    }

    private mutating func readCells(atMost limit: Int, from first: Int) {
        cells = []
        var seen: Set<Int> = []
        let most = (bytes.count - first) / 6
        if limit > most { isCoherent = false }
        for index in 0..<min(limit, most) {
            let offset = bytes.big16(first + 2 * index)
            guard offset >= first + 2 * (index + 1), let cell = cell(at: offset) else {
                isCoherent = false
                continue
            }
            if seen.insert(offset).inserted { cells.append(cell) }
        }
    }

    private func cell(at offset: Int) -> Cell? {
        var cell = Cell()
        var position = offset
        if kind.isInterior {
            guard position + 4 <= bytes.count else { return nil }
            cell.child = bytes.big32(position)
            position += 4
        }
        if kind != .tableInterior {
            guard let length = bytes.variableInteger(&position, end: bytes.count), length >= 0,
                length <= Int64(Int32.max)
            else { return nil }
            cell.length = Int(length)
        }
        if kind.isTable {
            guard let key = bytes.variableInteger(&position, end: bytes.count) else { return nil }
            cell.key = key
        }
        let local = localLength(of: cell.length)
        let hasOverflow = local < cell.length
        let end = position + local + (hasOverflow ? 4 : 0)
        guard end <= bytes.count else { return nil }
        cell.local = position..<position + local
        if hasOverflow { cell.overflow = bytes.big32(position + local) }
        cell.size = max(4, end - offset)
        return cell
    }

    /// The length of the part of a payload that is stored on the page. (Journals reserve no bytes
    /// at the end of pages.)
    private func localLength(of length: Int) -> Int {
        let least = (bytes.count - 12) * 32 / 255 - 23
        let most = kind == .tableLeaf ? bytes.count - 35 : (bytes.count - 12) * 64 / 255 - 23
        guard length > most else { return length }
        let fitting = least + (length - least) % (bytes.count - 4)
        return fitting <= most ? fitting : least
    }

    private func isFilled(start: Int, first: Int, count: Int) -> Bool {
        let content = bytes.big16(start + 5) == 0 ? 65536 : bytes.big16(start + 5)
        let gap = content - (first + 2 * count)
        var used = cells.reduce(Int(bytes[start + 7])) { $0 + $1.size }
        var block = bytes.big16(start + 1)
        while block != 0 {
            guard block >= content, block + 4 <= bytes.count else { return false }
            used += bytes.big16(block + 2)
            let next = bytes.big16(block)
            guard next == 0 || next > block else { return false }
            block = next
        }
        return gap >= 0 && content + used == bytes.count
    }

    /// The keys that may be on the pages below an interior page, in their order, as far as the keys
    /// of its cells tell.
    func childKeys(within keys: ClosedRange<Int64>) -> [ClosedRange<Int64>] {
        guard isCoherent, kind == .tableInterior, hasKeys(within: keys) else {
            return Array(repeating: keys, count: cells.count + 1)
        }
        var first = keys.lowerBound
        var ranges: [ClosedRange<Int64>] = []
        for cell in cells {
            ranges.append(first...max(first, cell.key))
            first = min(keys.upperBound, cell.key == .max ? .max : cell.key + 1)
        }
        return ranges + [first...keys.upperBound]
    }

    /// Whether all keys are in this range. One outside was damaged, and may now be the key of a row
    /// on another page.
    func hasKeys(within keys: ClosedRange<Int64>) -> Bool {
        !kind.isTable || cells.allSatisfy { keys.contains($0.key) }
    }

    private var keysAscend: Bool {
        guard kind.isTable else { return true }
        return zip(cells, cells.dropFirst()).allSatisfy { $0.key < $1.key }
    }
}
