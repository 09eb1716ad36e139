/// The rows of a page that shows two texts side by side.
struct DifferenceRows: Sendable {
    struct Row: Sendable {
        /// The name of the row's style: `same`, `changed` or `skipped`.
        let kind: String
        let skipped: String?
        let old: Cell?
        let new: Cell?
    }

    /// A line, of which the part between `before` and `after` differs from the other side's.
    struct Cell: Sendable {
        let number: Int
        let before: String
        let marked: String
        let after: String
    }

    private(set) var rows: [Row] = []
    let isExact: Bool
    /// Whether there are more rows than a page shows.
    private(set) var isCut = false
    var hasDifferences: Bool { rows.contains { $0.kind == "changed" } }

    /// The equal lines that are shown around each difference, and the most rows.
    private static let around = 3
    private static let most = 2000

    init(_ old: String, _ new: String) {
        let (old, new) = (DifferenceRows.lines(old), DifferenceRows.lines(new))
        let difference = Difference(old, new)
        isExact = difference.isExact
        for (index, part) in difference.parts.enumerated() {
            guard rows.count < DifferenceRows.most else {
                isCut = true
                return
            }
            switch part {
            case .equal(let a, let b):
                let isLast = index + 1 == difference.parts.count
                add(equal: a, b, old, before: index > 0, after: !isLast)
            case .changed(let a, let b): add(changed: a, b, old, new)
            }
        }
    }

    private static func lines(_ text: String) -> [Substring] {
        // A carriage return and a line feed are one character for Swift.
        let scalars = text.unicodeScalars.split(separator: "\n", omittingEmptySubsequences: false)
        let lines = scalars.map { Substring($0) }
        return lines.last?.isEmpty ?? false ? lines.dropLast() : lines
    }

    private mutating func add(
        equal old: Range<Int>, _ new: Range<Int>, _ lines: [Substring], before: Bool, after: Bool
    ) {
        let around = DifferenceRows.around
        let first = before ? min(around, old.count) : 0
        let last = after ? min(around, old.count - first) : 0
        let hidden = old.count - first - last
        func row(_ index: Int) -> Row {
            let text = DifferenceRows.shown(lines[old.lowerBound + index])
            func cell(_ number: Int) -> Cell {
                Cell(number: number + 1, before: text, marked: "", after: "")
            }
            return Row(
                kind: "same", skipped: nil, old: cell(old.lowerBound + index),
                new: cell(new.lowerBound + index))
        }
        // A gap of one line takes no less room than the line.
        guard hidden > 1 else {
            rows += (0..<old.count).map(row)
            return
        }
        rows += (0..<first).map(row)
        rows.append(Row(kind: "skipped", skipped: "\(hidden) equal lines", old: nil, new: nil))
        rows += (old.count - last..<old.count).map(row)
    }

    private mutating func add(
        changed old: Range<Int>, _ new: Range<Int>, _ oldLines: [Substring],
        _ newLines: [Substring]
    ) {
        for index in 0..<max(old.count, new.count) {
            guard rows.count < DifferenceRows.most else {
                isCut = true
                return
            }
            let a = index < old.count ? oldLines[old.lowerBound + index] : nil
            let b = index < new.count ? newLines[new.lowerBound + index] : nil
            let (start, end) = DifferenceRows.common(a, b)
            func cell(_ line: Substring?, _ number: Int) -> Cell? {
                line.map { line in
                    let scalars = Array(line.unicodeScalars)
                    func text(_ range: Range<Int>) -> String {
                        DifferenceRows.shown(scalars[range])
                    }
                    return Cell(
                        number: number + 1, before: text(0..<start),
                        marked: text(start..<scalars.count - end),
                        after: text(scalars.count - end..<scalars.count))
                }
            }
            rows.append(
                Row(
                    kind: "changed", skipped: nil, old: cell(a, old.lowerBound + index),
                    new: cell(b, new.lowerBound + index)))
        }
    }

    /// How many characters two lines have in common at the beginning and at the end.
    private static func common(_ a: Substring?, _ b: Substring?) -> (Int, Int) {
        guard let a, let b else { return (0, 0) }
        let (old, new) = (Array(a.unicodeScalars), Array(b.unicodeScalars))
        let start = zip(old, new).prefix { $0 == $1 }.count
        let rest = min(old.count, new.count) - start
        let end = zip(old.reversed(), new.reversed()).prefix(rest).prefix { $0 == $1 }.count
        // Lines that have almost nothing in common are marked as a whole.
        return (start + end) * 4 < max(old.count, new.count) ? (0, 0) : (start, end)
    }

    private static func shown(_ text: Substring) -> String {
        shown(Array(text.unicodeScalars)[...])
    }

    private static func shown(_ text: ArraySlice<Unicode.Scalar>) -> String {
        var shown = String.UnicodeScalarView()
        for scalar in text { shown.append(scalar == "\r" ? "\u{240D}" : scalar) }
        return String(shown)
    }
}
