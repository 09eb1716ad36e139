import HubProtocol

/// The fields of a form or of an address.
struct Fields: Sendable {
    private var values: [String: [String]] = [:]

    init() {}

    /// - Parameter text: In the encoding `application/x-www-form-urlencoded`.
    /// - Throws: `.malformed`.
    init(_ text: some StringProtocol) throws(Failure) {
        let pairs = text.utf8.split(separator: UInt8(ascii: "&"))
        guard pairs.count <= PageLimits.fields else {
            throw Failure(.malformed, "There are more than \(PageLimits.fields) fields.")
        }
        for pair in pairs {
            let parts = pair.split(
                separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            let name = try Fields.decoded(parts[0])
            add(name, parts.count == 2 ? try Fields.decoded(parts[1]) : "")
        }
    }

    mutating func add(_ name: String, _ value: String) {
        values[name, default: []].append(value)
    }

    /// The field's only value; nil if there is none, or more than one.
    subscript(name: String) -> String? {
        let all = values[name] ?? []
        return all.count == 1 ? all[0] : nil
    }

    func all(_ name: String) -> [String] { values[name] ?? [] }

    private static func decoded(_ text: some Collection<UInt8>) throws(Failure) -> String {
        var (bytes, rest) = ([UInt8](), Array(text)[...])
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"): bytes.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                let digits = String(decoding: rest.prefix(2), as: UTF8.self)
                guard digits.utf8.count == 2, digits.first?.isHexDigit == true,
                    let value = UInt8(digits, radix: 16)
                else { throw Failure(.malformed, "The address or form is not encoded correctly.") }
                bytes.append(value)
                rest = rest.dropFirst(2)
            default: bytes.append(byte)
            }
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw Failure(.malformed, "The address or form is not in UTF-8.")
        }
        return text
    }

    /// Encodes a value for an address.
    static func encoded(_ value: String) -> String {
        let plain = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~".utf8)
        let digits = Array("0123456789ABCDEF".utf8)
        var bytes: [UInt8] = []
        for byte in value.utf8 {
            if plain.contains(byte) {
                bytes.append(byte)
            } else {
                bytes += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
