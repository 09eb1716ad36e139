/// A key that the user pressed.
enum Key: Hashable, Sendable {
    case text(String)
    /// A letter with the Control key.
    case control(Character)
    case enter, backspace, delete, escape, tab
    case up, down, left, right, home, end, pageUp, pageDown
}

/// Turns the bytes of a terminal into keys.
struct KeyReader {
    private var bytes: [UInt8] = []

    /// Whether bytes have arrived that may be the beginning of a key.
    var isWaiting: Bool { !bytes.isEmpty }

    mutating func read(_ piece: some Sequence<UInt8>) -> [Key] {
        bytes += piece
        var keys: [Key] = []
        while let first = bytes.first {
            if first == 0x1B {
                guard let sequence = sequence() else { break }
                bytes.removeFirst(sequence.count)
                if let key = KeyReader.keys[sequence] { keys.append(key) }
            } else if first < 0x20 || first == 0x7F {
                bytes.removeFirst()
                keys.append(KeyReader.control(first))
            } else {
                let run = bytes.prefix { $0 >= 0x20 && $0 != 0x7F }
                let length = KeyReader.whole(run)
                if length == 0 { break }
                keys.append(.text(String(decoding: run.prefix(length), as: UTF8.self)))
                bytes.removeFirst(length)
            }
        }
        return keys
    }

    /// Call it when no more bytes come: a lone escape byte is then the Escape key.
    mutating func end() -> [Key] {
        defer { bytes = [] }
        return bytes == [0x1B] ? [.escape] : []
    }

    /// The escape sequence at the beginning: `ESC [ … letter`, `ESC O letter`, or a lone escape
    /// before another key; nil while it is incomplete.
    private func sequence() -> [UInt8]? {
        guard bytes.count > 1 else { return nil }
        guard bytes[1] == UInt8(ascii: "[") || bytes[1] == UInt8(ascii: "O") else { return [0x1B] }
        let end = bytes[2...].firstIndex { (0x40...0x7E).contains($0) }
        return end.map { Array(bytes[...$0]) }
    }

    private static let keys: [[UInt8]: Key] = {
        var keys: [[UInt8]: Key] = [[0x1B]: .escape]
        let letters: [(String, Key)] = [
            ("A", .up), ("B", .down), ("C", .right), ("D", .left), ("H", .home), ("F", .end),
        ]
        for (letter, key) in letters {
            keys[Array("\u{1B}[\(letter)".utf8)] = key
            keys[Array("\u{1B}O\(letter)".utf8)] = key
        }
        let numbers: [(Int, Key)] = [
            (1, .home), (3, .delete), (4, .end), (5, .pageUp), (6, .pageDown), (7, .home),
            (8, .end),
        ]
        for (number, key) in numbers { keys[Array("\u{1B}[\(number)~".utf8)] = key }
        return keys
    }()

    private static func control(_ byte: UInt8) -> Key {
        switch byte {
        case 0x0D, 0x0A: .enter
        case 0x08, 0x7F: .backspace
        case 0x09: .tab
        default: .control(Character(UnicodeScalar(byte + 0x60)))
        }
    }

    /// The number of bytes that form complete UTF-8 characters.
    private static func whole(_ run: ArraySlice<UInt8>) -> Int {
        guard let start = run.lastIndex(where: { $0 & 0xC0 != 0x80 }) else { return run.count }
        let first = run[start]
        let length = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4
        return run.endIndex - start >= length ? run.count : start - run.startIndex
    }
}
