/// The random 128-bit id of an item, a version, a device or a volume. It never changes and is never
/// used again for something else.
package struct Identifier: Hashable, Sendable {
    package let high: UInt64
    package let low: UInt64

    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    package static func random() -> Identifier {
        var source = SystemRandomNumberGenerator()
        return Identifier(high: source.next(), low: source.next())
    }

    package var bytes: [UInt8] {
        (0..<16).map { index in
            let word = index < 8 ? high : low
            return UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * (index % 8)))
        }
    }

    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == 16 else { return nil }
        let words = bytes.enumerated().reduce(into: (UInt64(0), UInt64(0))) { words, next in
            if next.offset < 8 {
                words.0 = words.0 << 8 | UInt64(next.element)
            } else {
                words.1 = words.1 << 8 | UInt64(next.element)
            }
        }
        self.init(high: words.0, low: words.1)
    }
}

extension Identifier: CustomStringConvertible {
    /// Returns 32 lower-case hexadecimal digits.
    package var description: String { hexadecimal(bytes) }

    package init?(_ text: String) {
        guard let bytes = bytesOf(hexadecimal: text) else { return nil }
        self.init(bytes: bytes)
    }
}

/// Returns two lower-case digits for each byte.
package func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
    let digits = Array("0123456789abcdef".utf8)
    var text: [UInt8] = []
    for byte in bytes {
        text.append(digits[Int(byte >> 4)])
        text.append(digits[Int(byte & 15)])
    }
    return String(decoding: text, as: UTF8.self)
}

/// The bytes that a hexadecimal text stands for, or nil when its length is odd or it has another
/// character.
package func bytesOf(hexadecimal text: String) -> [UInt8]? {
    let digits = Array(text.utf8)
    guard digits.count.isMultiple(of: 2) else { return nil }
    var bytes: [UInt8] = []
    for index in stride(from: 0, to: digits.count, by: 2) {
        guard let high = hexadecimalValue(digits[index]),
            let low = hexadecimalValue(digits[index + 1])
        else { return nil }
        bytes.append(high << 4 | low)
    }
    return bytes
}

private func hexadecimalValue(_ digit: UInt8) -> UInt8? {
    switch digit {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
    default: nil
    }
}
