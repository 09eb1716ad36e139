import Model

/// Chunk ids in a row, 32 bytes each. It is the body of `have` and `read`, and base64 in JSON. The
/// algorithm's tag is left out, because all chunk ids are SHA-256 or its keyed form; another
/// algorithm would need another endpoint.
package struct PackedIDs: Hashable, Sendable {
    package var ids: [Digest]

    package static let idBytes = 32

    package init(_ ids: [Digest]) { self.ids = ids }

    package var bytes: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(ids.count * PackedIDs.idBytes)
        for id in ids { bytes.append(contentsOf: id.bytes.dropFirst()) }
        return bytes
    }

    /// Returns nil unless the length is a multiple of 32.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count.isMultiple(of: PackedIDs.idBytes) else { return nil }
        let all = Array(bytes)
        ids = all.withUnsafeBytes { all in
            stride(from: 0, to: all.count, by: PackedIDs.idBytes).map {
                Digest(.sha256, hash: UnsafeRawBufferPointer(rebasing: all[$0..<$0 + 32]))
            }
        }
    }
}

extension PackedIDs: Codable {
    package init(from decoder: any Decoder) throws {
        let value = try Base64(from: decoder)
        guard let ids = PackedIDs(bytes: value.bytes) else {
            throw DecodingError.dataCorrupted(
                .init(codingPath: decoder.codingPath, debugDescription: "Not 32-byte ids."))
        }
        self = ids
    }

    package func encode(to encoder: any Encoder) throws { try Base64(bytes).encode(to: encoder) }
}

/// The answer of `have`: one bit for each id, in the requested order. The first id is the lowest
/// bit of the first byte.
package struct Presence: Hashable, Sendable {
    package private(set) var bytes: [UInt8]

    package init(_ present: [Bool]) {
        bytes = [UInt8](repeating: 0, count: (present.count + 7) / 8)
        for (index, isThere) in present.enumerated() where isThere {
            bytes[index / 8] |= 1 << UInt8(index % 8)
        }
    }

    /// Returns nil unless the length is right for `count` ids.
    package init?(bytes: [UInt8], count: Int) {
        guard bytes.count == (count + 7) / 8 else { return nil }
        self.bytes = bytes
    }

    package subscript(index: Int) -> Bool { bytes[index / 8] & 1 << UInt8(index % 8) != 0 }
}
