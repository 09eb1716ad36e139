/// A text with a cursor, edited by keys.
struct TextBuffer {
    private var lines: [[Character]] = [[]]
    /// The cursor: its line, and the index of the character after it.
    private(set) var row = 0
    private(set) var column = 0

    /// A new text leaves the cursor where it is, as far as possible.
    var text: String {
        get { lines.map { String($0) }.joined(separator: "\n") }
        set {
            guard newValue != text else { return }
            lines = newValue.split(separator: "\n", omittingEmptySubsequences: false).map(
                Array.init)
            row = min(row, lines.count - 1)
            column = min(column, lines[row].count)
        }
    }

    mutating func insert(_ text: String) {
        for character in text {
            if character.isNewline {
                let rest = Array(lines[row][column...])
                lines[row].removeSubrange(column...)
                row += 1
                column = 0
                lines.insert(rest, at: row)
            } else {
                lines[row].insert(character, at: column)
                column += 1
            }
        }
    }

    /// Deletes the character before the cursor.
    mutating func deleteBackward() {
        if moveBack() { deleteForward() }
    }

    /// Deletes the character after the cursor.
    mutating func deleteForward() {
        if column < lines[row].count {
            lines[row].remove(at: column)
        } else if row + 1 < lines.count {
            lines[row] += lines.remove(at: row + 1)
        }
    }

    /// Moves the cursor; `page` is the number of lines shown. Returns false if the key moves no
    /// cursor.
    mutating func move(_ key: Key, page: Int) -> Bool {
        switch key {
        case .left: _ = moveBack()
        case .right:
            if column < lines[row].count {
                column += 1
            } else if row + 1 < lines.count {
                (row, column) = (row + 1, 0)
            }
        case .up: go(to: row - 1)
        case .down: go(to: row + 1)
        case .pageUp: go(to: row - page)
        case .pageDown: go(to: row + page)
        case .home: column = 0
        case .end: column = lines[row].count
        default: return false
        }
        return true
    }

    private mutating func go(to line: Int) {
        row = max(0, min(line, lines.count - 1))
        column = min(column, lines[row].count)
    }

    private mutating func moveBack() -> Bool {
        if column > 0 {
            column -= 1
        } else if row > 0 {
            row -= 1
            column = lines[row].count
        } else {
            return false
        }
        return true
    }

    /// The part of the text around the cursor that fits into so many columns and rows, and the
    /// cursor's place in it.
    func shown(columns: Int, rows: Int) -> (lines: [String], cursor: (row: Int, column: Int)) {
        var all: [String] = []
        var cursor = (row: 0, column: 0)
        for (number, line) in lines.enumerated() {
            var rest = line[...]
            repeat {
                let start = rest.startIndex
                let part = rest.isEmpty ? "" : String(rest).prefix(fitting: max(2, columns))
                rest = rest.dropFirst(part.count)
                if number == row, column >= start, column < rest.startIndex || rest.isEmpty {
                    cursor = (all.count, String(line[start..<column]).width)
                }
                all.append(part)
            } while !rest.isEmpty
        }
        let top = max(0, min(cursor.row - rows / 2, all.count - rows))
        return (Array(all.dropFirst(top).prefix(rows)), (cursor.row - top, cursor.column))
    }
}
