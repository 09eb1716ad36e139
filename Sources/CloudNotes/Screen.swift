/// The style of a span.
enum Style: String {
    case plain = "0"
    case dim = "2"
    case reverse = "7"
    case red = "31"
    case green = "32"
    case yellow = "33"
}

/// The contents of the screen: lines of spans, and the cursor.
struct Screen {
    typealias Span = (style: Style, text: String)

    let columns: Int
    let rows: Int
    private var lines: [[Span]] = []
    /// Counted from 0; nil when there is no cursor.
    var cursor: (row: Int, column: Int)?

    init(_ size: (columns: Int, rows: Int)) { (columns, rows) = size }

    /// The number of lines that still fit, apart from the last one.
    var room: Int { max(0, rows - lines.count - 1) }
    /// The number of lines so far.
    var count: Int { lines.count }

    mutating func add(_ spans: Span...) {
        if lines.count < rows { lines.append(spans) }
    }

    /// Fills the screen and adds the last line, which shows the keys.
    mutating func finish(_ text: String) {
        while room > 0 { add() }
        add((.dim, text))
    }

    /// The screen as escape sequences and text.
    var drawing: String {
        var text = "\u{1B}[?25l\u{1B}[H"
        for (number, line) in lines.enumerated() {
            var left = columns
            for span in line {
                let part = Screen.printable(span.text).prefix(fitting: left)
                left -= part.width
                text += "\u{1B}[\(span.style.rawValue)m" + part + "\u{1B}[0m"
            }
            text += "\u{1B}[K" + (number + 1 < lines.count ? "\r\n" : "")
        }
        text += "\u{1B}[J"
        if let cursor {
            text += "\u{1B}[\(cursor.row + 1);\(cursor.column + 1)H\u{1B}[?25h"
        }
        return text
    }

    /// Replaces control characters by spaces, because a terminal would execute them.
    private static func printable(_ text: String) -> String {
        String(
            text.unicodeScalars.map { scalar -> Character in
                let isCommand = scalar.value < 0x20 || (0x7F..<0xA0).contains(scalar.value)
                return isCommand ? " " : Character(scalar)
            })
    }
}

extension StringProtocol {
    /// The width in columns; East Asian characters and emoji take two.
    var width: Int { reduce(0) { $0 + $1.width } }

    /// The longest prefix that fits into so many columns.
    func prefix(fitting columns: Int) -> String {
        var left = columns
        return String(
            prefix { character in
                left -= character.width
                return left >= 0
            })
    }
}

extension Character {
    fileprivate var width: Int {
        guard let first = unicodeScalars.first else { return 0 }
        let isPicture = first.properties.isEmojiPresentation
        let wide: [ClosedRange<UInt32>] = [
            0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F,
            0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x20000...0x3FFFD,
        ]
        return isPicture || wide.contains { $0.contains(first.value) } ? 2 : 1
    }
}
