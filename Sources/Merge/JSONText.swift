/// A parsed JSON text (RFC 8259) that keeps its spelling: each value is a range of the bytes.
struct JSONText {
    /// Where and why the text is not valid JSON. The description is the end of a sentence.
    struct SyntaxError: Error, CustomStringConvertible {
        let line: Int
        let what: String

        var description: String { "line \(line) \(what)" }
    }

    indirect enum Value {
        case scalar(Range<Int>)
        case array(Range<Int>, [Part])
        case object(Range<Int>, [Part])

        var range: Range<Int> {
            switch self {
            case .scalar(let range), .array(let range, _), .object(let range, _): range
            }
        }
    }

    /// An element of an array, or a member of an object with its key.
    struct Part {
        /// The key without escapes; empty for an element of an array.
        var key: [UInt8] = []
        /// The offset of the key or element.
        var start: Int
        var value: Value
        /// White space: before the part, and after it up to the comma or bracket.
        var leading: Range<Int>
        var trailing: Range<Int>
    }

    let bytes: [UInt8]
    private(set) var root: Value

    /// The deepest nesting of arrays and objects that is accepted.
    static let depthMax = 128

    init(_ bytes: [UInt8]) throws(SyntaxError) {
        self.bytes = bytes
        var reader = JSONReader(bytes)
        root = .scalar(0..<0)
        root = try reader.document()
    }

    /// A form that is equal for values with the same meaning: members are sorted by key, there is
    /// no white space, and strings have no escapes. Numbers stay as they are written.
    func canonical(_ value: Value) -> [UInt8] {
        switch value {
        case .scalar(let range):
            guard bytes[range.lowerBound] == UInt8(ascii: "\"") else { return Array(bytes[range]) }
            let text = JSONReader.meaning(of: bytes[range.dropFirst().dropLast()])
            return [UInt8(ascii: "\"")] + "\(text.count):".utf8 + text
        case .array(_, let parts):
            var result = [UInt8(ascii: "[")]
            for part in parts { result += canonical(part.value) + [UInt8(ascii: ",")] }
            return result + [UInt8(ascii: "]")]
        case .object(_, let parts):
            var result = [UInt8(ascii: "{")]
            for part in parts.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
                result += "\(part.key.count):".utf8
                result += part.key + canonical(part.value) + [UInt8(ascii: ",")]
            }
            return result + [UInt8(ascii: "}")]
        }
    }
}

/// Parses one JSON text.
struct JSONReader {
    private let bytes: [UInt8]
    private var at = 0
    private var depth = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    private var next: UInt8? { at < bytes.count ? bytes[at] : nil }

    private func flaw(_ what: String) -> JSONText.SyntaxError {
        let line = bytes[..<min(at, bytes.count)].count { $0 == UInt8(ascii: "\n") } + 1
        return JSONText.SyntaxError(line: line, what: what)
    }

    mutating func document() throws(JSONText.SyntaxError) -> JSONText.Value {
        if bytes.starts(with: [0xef, 0xbb, 0xbf]) { at = 3 }
        _ = blank()
        let value = try value()
        _ = blank()
        guard at == bytes.count else { throw flaw("has something after the value") }
        return value
    }

    private mutating func blank() -> Range<Int> {
        let start = at
        while let byte = next, byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09 {
            at += 1
        }
        return start..<at
    }

    private mutating func value() throws(JSONText.SyntaxError) -> JSONText.Value {
        let start = at
        switch next {
        case UInt8(ascii: "{"):
            let parts = try parts(to: UInt8(ascii: "}"))
            var keys = Set<[UInt8]>()
            for part in parts where !keys.insert(part.key).inserted {
                let key = String(decoding: part.key, as: UTF8.self)
                throw flaw("ends an object that has “\(key)” twice")
            }
            return .object(start..<at, parts)
        case UInt8(ascii: "["):
            let parts = try parts(to: UInt8(ascii: "]"))
            return .array(start..<at, parts)
        case UInt8(ascii: "\""):
            try string()
        case .some(UInt8(ascii: "0")...UInt8(ascii: "9")), UInt8(ascii: "-"):
            try number()
        default:
            try word()
        }
        return .scalar(start..<at)
    }

    private mutating func parts(to end: UInt8) throws(JSONText.SyntaxError) -> [JSONText.Part] {
        depth += 1
        defer { depth -= 1 }
        guard depth <= JSONText.depthMax else {
            throw flaw("is nested deeper than \(JSONText.depthMax) levels")
        }
        at += 1
        var parts: [JSONText.Part] = []
        while true {
            let leading = blank()
            if parts.isEmpty, next == end { break }
            let start = at
            var key: [UInt8] = []
            if end == UInt8(ascii: "}") {
                guard next == UInt8(ascii: "\"") else {
                    throw flaw("has no key where one is expected")
                }
                try string()
                key = JSONReader.meaning(of: bytes[(start + 1)..<(at - 1)])
                _ = blank()
                guard next == UInt8(ascii: ":") else { throw flaw("has no colon after a key") }
                at += 1
                _ = blank()
            }
            let value = try value()
            let trailing = blank()
            parts.append(
                JSONText.Part(
                    key: key, start: start, value: value, leading: leading, trailing: trailing))
            if next == end { break }
            guard next == UInt8(ascii: ",") else { throw flaw("lacks a comma or bracket") }
            at += 1
        }
        at += 1
        return parts
    }

    private mutating func word() throws(JSONText.SyntaxError) {
        for word in ["true", "false", "null"] where bytes[at...].starts(with: word.utf8) {
            at += word.utf8.count
            return
        }
        throw flaw(next == nil ? "ends too early" : "has no value where one is expected")
    }

    private mutating func digits() throws(JSONText.SyntaxError) {
        let start = at
        while let byte = next, (0x30...0x39).contains(byte) { at += 1 }
        if at == start { throw flaw("has a number without digits") }
    }

    private mutating func number() throws(JSONText.SyntaxError) {
        if next == UInt8(ascii: "-") { at += 1 }
        let start = at
        try digits()
        if bytes[start] == 0x30, at > start + 1 { throw flaw("has a number that begins with 0") }
        if next == UInt8(ascii: ".") {
            at += 1
            try digits()
        }
        if next == UInt8(ascii: "e") || next == UInt8(ascii: "E") {
            at += 1
            if next == UInt8(ascii: "+") || next == UInt8(ascii: "-") { at += 1 }
            try digits()
        }
    }

    private mutating func string() throws(JSONText.SyntaxError) {
        at += 1
        while let byte = next {
            at += 1
            switch byte {
            case UInt8(ascii: "\""): return
            case 0..<0x20: throw flaw("has a control character in a string")
            case UInt8(ascii: "\\"):
                guard let escape = next else { break }
                at += 1
                if escape == UInt8(ascii: "u") {
                    guard at + 4 <= bytes.count, JSONReader.unit(bytes[at..<at + 4]) != nil else {
                        throw flaw("has an escape that is none")
                    }
                    at += 4
                } else if !"\"\\/bfnrt".utf8.contains(escape) {
                    throw flaw("has an escape that is none")
                }
            default: break
            }
        }
        throw flaw("ends within a string")
    }

    private static func unit(_ digits: ArraySlice<UInt8>) -> UInt16? {
        var result: UInt16 = 0
        for digit in digits {
            guard let value = Character(UnicodeScalar(digit)).hexDigitValue else { return nil }
            result = result << 4 | UInt16(value)
        }
        return result
    }

    /// The UTF-8 of a string without its escapes; `text` is what is between the quotation marks.
    /// Half a surrogate pair keeps its escape, after a byte that does not occur in UTF-8.
    static func meaning(of text: ArraySlice<UInt8>) -> [UInt8] {
        guard text.contains(UInt8(ascii: "\\")) else { return Array(text) }
        var result: [UInt8] = []
        var rest = text
        let plain: [UInt8: UInt8] = [
            UInt8(ascii: "b"): 8, UInt8(ascii: "f"): 12, UInt8(ascii: "n"): 10,
            UInt8(ascii: "r"): 13, UInt8(ascii: "t"): 9,
        ]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "\\"), let escape = rest.popFirst() else {
                result.append(byte)
                continue
            }
            guard escape == UInt8(ascii: "u") else {
                result.append(plain[escape] ?? escape)
                continue
            }
            let digits = rest.prefix(4)
            rest = rest.dropFirst(4)
            let high = unit(digits) ?? 0
            if let scalar = UnicodeScalar(high) {
                result += Array(String(Character(scalar)).utf8)
            } else if rest.starts(with: Array("\\u".utf8)),
                let low = unit(rest.dropFirst(2).prefix(4)), (0xd800..<0xdc00).contains(high),
                (0xdc00..<0xe000).contains(low),
                let scalar = UnicodeScalar(
                    0x10000 + (UInt32(high & 0x3ff) << 10) + UInt32(low & 0x3ff))
            {
                result += Array(String(Character(scalar)).utf8)
                rest = rest.dropFirst(6)
            } else {
                result += [0xff] + digits.map { $0 | 0x20 }
            }
        }
        return result
    }
}
