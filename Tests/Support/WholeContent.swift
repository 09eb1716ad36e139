import Foundation

/// A content that says who wrote it and how long it is, so that half a content, or a mixture of
/// two, is recognized.
package struct WholeContent: Hashable, Sendable {
    package let writer: String
    package let sequence: Int

    package init(writer: String, sequence: Int) {
        self.writer = writer
        self.sequence = sequence
    }

    /// The bytes: a header line and a body of `length` bytes. Every second body is compressible.
    package func bytes(length: Int) -> Data {
        var random = SeededRandom(seed: UInt64(sequence) &* 0x1_0000 &+ UInt64(length))
        var body = Data(capacity: length + 8)
        while body.count < length {
            let word = sequence % 2 == 0 ? random.next() : UInt64(body.count / 64 + sequence << 32)
            withUnsafeBytes(of: word) { body.append(contentsOf: $0) }
        }
        body = body.prefix(length)
        let header = "whole \(writer) \(sequence) \(length) \(Self.hash(body))\n"
        return Data(header.utf8) + body
    }

    /// Parses a complete content. Fails when the bytes are not complete.
    package init?(_ bytes: Data) {
        guard let end = bytes.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        let words = String(decoding: bytes[..<end], as: UTF8.self).split(separator: " ")
        guard words.count == 5, words[0] == "whole", let sequence = Int(words[2]) else {
            return nil
        }
        let body = bytes[(end + 1)...]
        guard Int(words[3]) == body.count, words[4] == Self.hash(body) else { return nil }
        self.init(writer: String(words[1]), sequence: sequence)
    }

    /// Says in what way bytes that are not complete differ from the contents that their header
    /// names.
    package static func damage(of bytes: Data) -> String {
        if bytes.allSatisfy({ $0 == 0 }) { return "\(bytes.count) zeros" }
        let header = bytes.prefix { $0 != UInt8(ascii: "\n") }
        let words = String(decoding: header, as: UTF8.self).split(separator: " ")
        guard words.count == 5, words[0] == "whole", let sequence = Int(words[2]),
            let length = Int(words[3])
        else { return "\(bytes.count) bytes that begin with \([UInt8](bytes.prefix(16)))" }
        let content = WholeContent(writer: String(words[1]), sequence: sequence)
        let whole = [UInt8](content.bytes(length: length))
        let here = [UInt8](bytes)
        let same = zip(whole, here).prefix { $0 == $1 }.count
        let zeros = here[same...].prefix { $0 == 0 }.count
        return "\(here.count) bytes instead of the \(whole.count) of \(content.writer)'s save "
            + "\(sequence): the first \(same) are equal, the next \(zeros) are zeros"
    }

    private static func hash(_ body: Data) -> String {
        var sum: UInt64 = 0xcbf2_9ce4_8422_2325
        body.withUnsafeBytes { bytes in
            var at = 0
            while at + 8 <= bytes.count {
                let word = bytes.loadUnaligned(fromByteOffset: at, as: UInt64.self)
                sum = (sum ^ word) &* 0x100_0000_01b3
                at += 8
            }
            while at < bytes.count {
                sum = (sum ^ UInt64(bytes[at])) &* 0x100_0000_01b3
                at += 1
            }
        }
        return String(sum, radix: 16)
    }
}
