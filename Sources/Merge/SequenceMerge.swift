/// A three-way merge of lists, like diff3: elements that both sides have kept separate the blocks
/// that one side or both changed.
struct SequenceMerge {
    /// The lists with each element replaced by a number. Equal elements have equal numbers.
    private let base: [Int]
    private let ours: [Int]
    private let theirs: [Int]

    init(base: [[UInt8]], ours: [[UInt8]], theirs: [[UInt8]]) {
        var numbers: [[UInt8]: Int] = [:]
        func number(_ element: [UInt8]) -> Int {
            if let known = numbers[element] { return known }
            numbers[element] = numbers.count
            return numbers.count - 1
        }
        self.base = base.map(number)
        self.ours = ours.map(number)
        self.theirs = theirs.map(number)
    }

    enum Element: Equatable {
        case ours(Int)
        case theirs(Int)
    }

    /// The largest table for the longest common subsequence, in cells. Beyond it, everything that
    /// differs counts as one change.
    private static let cellsMax = 4_000_000

    /// The merged list; nil when both sides changed the same place. If both only inserted elements
    /// there, `keepsBoth` decides about these parts of ours and theirs.
    func merged(
        keepsBoth: (Range<Int>, Range<Int>) -> Bool = { _, _ in true }
    ) -> [Element]? {
        let toOurs = SequenceMerge.matches(base, ours)
        let toTheirs = SequenceMerge.matches(base, theirs)
        var result: [Element] = []
        var (b, o, t) = (0, 0, 0)
        for at in base.indices {
            guard let here = toOurs[at], let there = toTheirs[at] else { continue }
            guard let block = block(b..<at, o..<here, t..<there, keepsBoth) else {
                return nil
            }
            result += block + [.ours(here)]
            (b, o, t) = (at + 1, here + 1, there + 1)
        }
        guard
            let block = block(b..<base.count, o..<ours.count, t..<theirs.count, keepsBoth)
        else { return nil }
        return result + block
    }

    private func block(
        _ b: Range<Int>, _ o: Range<Int>, _ t: Range<Int>,
        _ keepsBoth: (Range<Int>, Range<Int>) -> Bool
    ) -> [Element]? {
        let mine = o.map { Element.ours($0) }
        if ours[o] == theirs[t] || theirs[t] == base[b] { return mine }
        if ours[o] == base[b] { return t.map { .theirs($0) } }
        guard b.isEmpty, keepsBoth(o, t) else { return nil }
        let has = Set(ours[o])
        return mine + t.filter { !has.contains(theirs[$0]) }.map { .theirs($0) }
    }

    /// For each element of the first list, its partner in a longest common subsequence. Of several
    /// such sequences, the one that matches early elements first.
    static func matches(_ a: [Int], _ b: [Int]) -> [Int?] {
        var result = [Int?](repeating: nil, count: a.count)
        var start = 0
        while start < a.count, start < b.count, a[start] == b[start] {
            result[start] = start
            start += 1
        }
        var (endA, endB) = (a.count, b.count)
        while endA > start, endB > start, a[endA - 1] == b[endB - 1] {
            (endA, endB) = (endA - 1, endB - 1)
            result[endA] = endB
        }
        let (rows, columns) = (endA - start, endB - start)
        guard rows > 0, columns > 0, rows <= cellsMax / columns else { return result }
        // The length of the longest common subsequence of the parts that begin at row and column.
        let width = columns + 1
        var lengths = [Int32](repeating: 0, count: (rows + 1) * width)
        for row in stride(from: rows - 1, through: 0, by: -1) {
            for column in stride(from: columns - 1, through: 0, by: -1) {
                let cell = row * width + column
                lengths[cell] =
                    a[start + row] == b[start + column]
                    ? lengths[cell + width + 1] + 1
                    : max(lengths[cell + width], lengths[cell + 1])
            }
        }
        var (row, column) = (0, 0)
        while row < rows, column < columns {
            let cell = row * width + column
            if a[start + row] == b[start + column] {
                result[start + row] = start + column
                (row, column) = (row + 1, column + 1)
            } else if lengths[cell + width] >= lengths[cell + 1] {
                row += 1
            } else {
                column += 1
            }
        }
        return result
    }
}

/// A merge of two texts that both got new lines at the same place, such as a list to which both
/// have appended.
struct ListMerge {
    let base: [ArraySlice<UInt8>]
    let ours: [ArraySlice<UInt8>]
    let theirs: [ArraySlice<UInt8>]

    init(base: [UInt8], ours: [UInt8], theirs: [UInt8]) {
        // What follows the last newline counts as a line. It is empty in most texts, and then
        // appended lines are insertions before it.
        func lines(_ text: [UInt8]) -> [ArraySlice<UInt8>] {
            text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        }
        (self.base, self.ours, self.theirs) = (lines(base), lines(ours), lines(theirs))
    }

    /// The merged text; nil when both sides changed the same place and one of them did not only
    /// insert lines there, or inserted a line that is no item. Without `isItem` every line is one.
    func merged(_ isItem: ((ArraySlice<UInt8>) -> Bool)?) -> [UInt8]? {
        let merge = SequenceMerge(
            base: base.map(Array.init), ours: ours.map(Array.init), theirs: theirs.map(Array.init))
        let elements = merge.merged { mine, other in
            guard let isItem else { return true }
            return ours[mine].allSatisfy(isItem) && theirs[other].allSatisfy(isItem)
        }
        return elements.map { elements in
            Array(
                elements.map { element in
                    switch element {
                    case .ours(let index): ours[index]
                    case .theirs(let index): theirs[index]
                    }
                }.joined(separator: [UInt8(ascii: "\n")]))
        }
    }

    /// Whether a line is an item of a list in plain text or Markdown: spaces, then `-`, `*`, `+`,
    /// `•`, or a number with `.` or `)`, then a space and a text.
    static func isItem(_ line: ArraySlice<UInt8>) -> Bool {
        let text = line.drop { $0 == 0x20 || $0 == 0x09 }
        var rest = text.drop { (0x30...0x39).contains($0) }
        if rest.startIndex > text.startIndex {
            guard let mark = rest.first, ".)".utf8.contains(mark) else { return false }
            rest = rest.dropFirst()
        } else if let mark = text.first, "-*+".utf8.contains(mark) {
            rest = text.dropFirst()
        } else if text.starts(with: "•".utf8) {
            rest = text.dropFirst("•".utf8.count)
        } else {
            return false
        }
        return rest.first == 0x20 && rest.contains { $0 != 0x20 && $0 != 0x09 && $0 != 0x0D }
    }
}
