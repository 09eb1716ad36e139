import Model

/// A name or a path in the protocol. POSIX names are bytes: UTF-8 is sent as a JSON string, other
/// names as `{"hex": "…"}`, so that each name can be used.
package struct RawText: Hashable, Sendable {
    package var bytes: [UInt8]

    package init(bytes: [UInt8]) { self.bytes = bytes }
    package init(_ name: Name) { bytes = name.bytes }
    package init(_ text: String) { bytes = Array(text.utf8) }

    /// Creates a path inside the volume; the root's is empty.
    package init(path: [Name]) {
        bytes = Array(path.map(\.bytes).joined(separator: [UInt8(ascii: "/")]))
    }

    /// The path's components; nil if one is empty, `.`, `..` or too long, or contains a NUL.
    package var path: [Name]? {
        if bytes.isEmpty { return [] }
        let names = bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
            .map { Name(bytes: Array($0)) }
        return names.allSatisfy(\.isOrdinary) ? names : nil
    }

    /// The text for people; invalid UTF-8 is replaced.
    package var text: String { String(decoding: bytes, as: UTF8.self) }
}

extension Name {
    fileprivate var isOrdinary: Bool {
        !bytes.isEmpty && bytes.count <= 255 && bytes != [0x2E] && bytes != [0x2E, 0x2E]
            && !bytes.contains(0)
    }
}

extension RawText: Codable {
    private enum CodingKeys: String, CodingKey { case hex }

    package init(from decoder: any Decoder) throws {
        if let text = try? decoder.singleValueContainer().decode(String.self) {
            self.init(text)
            return
        }
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let digits = try container.decode(String.self, forKey: .hex)
        guard let bytes = bytesOf(hexadecimal: digits) else {
            throw DecodingError.dataCorruptedError(
                forKey: .hex, in: container, debugDescription: "not hexadecimal digits")
        }
        self.init(bytes: bytes)
    }

    package func encode(to encoder: any Encoder) throws {
        if let text = String(validating: bytes, as: UTF8.self) {
            var container = encoder.singleValueContainer()
            try container.encode(text)
        } else {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(hexadecimal(bytes), forKey: .hex)
        }
    }
}
