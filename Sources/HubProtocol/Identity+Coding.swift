import Model
import Reconcile

// The JSON forms of small types of Model and Reconcile.

extension Identifier: Codable {
    /// JSON: 32 lower-case hexadecimal digits.
    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard text.utf8.count == 32, let id = Identifier(text) else {
            throw DecodingError.dataCorruptedError(
                in: container, debugDescription: "An id has 32 hexadecimal digits.")
        }
        self = id
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}

extension Digest: Codable {
    /// JSON: 66 hexadecimal digits, which are the algorithm's tag and the hash.
    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard let digest = bytesOf(hexadecimal: text).flatMap({ Digest(bytes: $0) }) else {
            throw DecodingError.dataCorruptedError(
                in: container, debugDescription: "A digest has 66 hexadecimal digits.")
        }
        self = digest
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(hexadecimal(bytes))
    }
}

extension NameKey: Codable {
    package init(from decoder: any Decoder) throws { self.init(try Base64(from: decoder).bytes) }

    package func encode(to encoder: any Encoder) throws { try Base64(bytes).encode(to: encoder) }
}

extension Moment: Codable {
    private enum Key: CodingKey { case time, device }

    package init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: Key.self)
        self.init(
            time: try values.decode(Int64.self, forKey: .time),
            device: try values.decode(Identifier.self, forKey: .device))
    }

    package func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: Key.self)
        try values.encode(time, forKey: .time)
        try values.encode(device, forKey: .device)
    }
}

extension OperationID: Codable {
    private enum Key: CodingKey { case device, epoch, number }

    package init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: Key.self)
        self.init(
            device: try values.decode(Identifier.self, forKey: .device),
            epoch: try values.decode(UInt32.self, forKey: .epoch),
            number: try values.decodeCount(forKey: .number))
    }

    package func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: Key.self)
        try values.encode(device, forKey: .device)
        try values.encode(epoch, forKey: .epoch)
        try values.encode(number, forKey: .number)
    }
}

extension KeyedDecodingContainer {
    /// Decodes a number from 0 to 2^63 - 1, because SQLite stores signed 64-bit integers.
    func decodeCount(forKey key: Key) throws -> UInt64 {
        let value = try decode(Int64.self, forKey: key)
        guard value >= 0 else {
            throw DecodingError.dataCorruptedError(
                forKey: key, in: self, debugDescription: "The number is negative.")
        }
        return UInt64(value)
    }

    func fault(_ key: Key, _ description: String) -> DecodingError {
        DecodingError.dataCorruptedError(
            forKey: key, in: self, debugDescription: description)
    }
}
