/// Rows under headings. Columns are as wide as their contents; flexible ones shrink to fit the
/// terminal.
package struct Table {
    package enum Alignment { case left, right }

    package struct Column {
        let heading: String
        let alignment: Alignment
        /// Whether cells may be cut when the line does not fit.
        let isFlexible: Bool

        package init(_ heading: String, _ alignment: Alignment = .left, isFlexible: Bool = false) {
            self.heading = heading
            self.alignment = alignment
            self.isFlexible = isFlexible
        }
    }

    let columns: [Column]
    private var rows: [[String]] = []
    private static let gap = 2
    private static let flexibleWidthMin = 6

    package init(_ columns: [Column]) { self.columns = columns }

    package mutating func add(_ cells: [String]) { rows.append(cells.map(\.printable)) }

    /// The table without a final newline. Nothing is cut when `width` is nil. A column that is
    /// empty in every row is left out.
    package func text(width: Int?, heading style: (String) -> String = { $0 }) -> String {
        let shown = columns.indices.filter { index in rows.contains { !$0[index].isEmpty } }
        let widths = fitted(shown, to: width)
        let lines = ([columns.map(\.heading)] + rows).map { line($0, shown, widths) }
        return ([style(lines[0])] + lines.dropFirst()).joined(separator: "\n")
    }

    private func line(_ cells: [String], _ shown: [Int], _ widths: [Int]) -> String {
        let padded = zip(shown, widths).map { index, width in
            let cell = cells[index].fitted(to: width)
            let space = String(repeating: " ", count: max(0, width - cell.columns))
            return columns[index].alignment == .left ? cell + space : space + cell
        }
        let line = padded.joined(separator: String(repeating: " ", count: Table.gap))
        return String(line.reversed().drop { $0 == " " }.reversed())
    }

    private func fitted(_ shown: [Int], to width: Int?) -> [Int] {
        var widths = shown.map { index in
            ([columns[index].heading] + rows.map { $0[index] }).map(\.columns).max() ?? 0
        }
        guard let width else { return widths }
        while widths.reduce(Table.gap * (widths.count - 1), +) > width {
            let candidates = widths.indices.filter {
                columns[shown[$0]].isFlexible && widths[$0] > Table.flexibleWidthMin
            }
            guard let widest = candidates.max(by: { widths[$0] < widths[$1] }) else { break }
            widths[widest] -= 1
        }
        return widths
    }
}

extension String {
    /// The number of terminal columns: combining marks take none, East Asian wide characters two.
    var columns: Int { unicodeScalars.reduce(0) { $0 + $1.columns } }

    /// The text with a question mark for each control character, which could move the cursor or
    /// change the terminal.
    var printable: String {
        String(String.UnicodeScalarView(unicodeScalars.map { $0.isControl ? "?" : $0 }))
    }

    /// Cut to `width` columns, with an ellipsis at the end if something was cut.
    func fitted(to width: Int) -> String {
        guard columns > width, width > 0 else { return self }
        var (text, used) = ("", 0)
        for character in self {
            let columns = String(character).columns
            if used + columns > width - 1 { break }
            text.append(character)
            used += columns
        }
        return text + "…"
    }
}

extension Unicode.Scalar {
    fileprivate var isControl: Bool {
        properties.generalCategory == .control || (0x202A...0x202E).contains(value)
            || (0x2066...0x2069).contains(value)
    }

    fileprivate var columns: Int {
        switch properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .format, .control: return 0
        default: break
        }
        // The blocks of Unicode's East Asian Width "W" and "F" that occur in names.
        let wide: [ClosedRange<UInt32>] = [
            0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F,
            0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1F64F, 0x1F900...0x1F9FF,
            0x20000...0x3FFFD,
        ]
        return wide.contains { $0.contains(value) } ? 2 : 1
    }
}
