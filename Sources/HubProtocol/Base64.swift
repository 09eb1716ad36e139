/// A byte string that is encoded in JSON as base64 (RFC 4648, with padding).
package struct Base64: Hashable, Sendable {
    package var bytes: [UInt8]

    package init(_ bytes: [UInt8]) { self.bytes = bytes }
}

private let alphabet = Array(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

private let values: [UInt8] = {
    var values = [UInt8](repeating: 0xFF, count: 256)
    for (value, letter) in alphabet.enumerated() { values[Int(letter)] = UInt8(value) }
    return values
}()

private let padding = UInt8(ascii: "=")

extension Base64 {
    package var text: String {
        String(unsafeUninitializedCapacity: (bytes.count + 2) / 3 * 4) { text in
            var (at, next) = (0, 0)
            while at < bytes.count {
                let left = bytes.count - at
                let three =
                    UInt32(bytes[at]) << 16 | (left > 1 ? UInt32(bytes[at + 1]) << 8 : 0)
                    | (left > 2 ? UInt32(bytes[at + 2]) : 0)
                text[next] = alphabet[Int(three >> 18)]
                text[next + 1] = alphabet[Int(three >> 12 & 63)]
                text[next + 2] = left > 1 ? alphabet[Int(three >> 6 & 63)] : padding
                text[next + 3] = left > 2 ? alphabet[Int(three & 63)] : padding
                at += 3
                next += 4
            }
            return next
        }
    }

    /// Returns nil for text that is not base64 with padding, and for text whose unused low bits are
    /// not zero.
    package init?(_ text: String) {
        let text = Array(text.utf8)
        guard text.count.isMultiple(of: 4) else { return nil }
        let pads = text.suffix(2).count { $0 == padding }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 4 * 3)
        var (bits, held): (UInt32, Int) = (0, 0)
        for letter in text.dropLast(pads) {
            let value = values[Int(letter)]
            guard value != 0xFF else { return nil }
            bits = bits << 6 | UInt32(value)
            held += 6
            if held >= 8 {
                held -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(held)))
                bits &= (1 << UInt32(held)) - 1
            }
        }
        guard bits == 0 else { return nil }
        self.bytes = bytes
    }
}

extension Base64: Codable {
    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let value = Base64(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not base64")
        }
        self = value
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }
}
