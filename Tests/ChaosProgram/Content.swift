import Foundation
import Support

/// The contents of files. Each content names its writer, so that bytes that nobody wrote are
/// recognized.
enum Content {
    /// Returns sixteen digits that are equal for equal bytes and almost certainly different for
    /// others.
    static func name(_ bytes: Data) -> String {
        var sum: UInt64 = 0xcbf2_9ce4_8422_2325 ^ UInt64(bytes.count)
        bytes.withUnsafeBytes { raw in
            var at = 0
            while at + 8 <= raw.count {
                sum =
                    (sum ^ raw.loadUnaligned(fromByteOffset: at, as: UInt64.self))
                    &* 0x100_0000_01b3
                sum ^= sum >> 29
                at += 8
            }
            while at < raw.count {
                sum = (sum ^ UInt64(raw[at])) &* 0x100_0000_01b3
                at += 1
            }
        }
        let digits = String(sum, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    /// Returns the writers of these bytes, such as `dev0.17`, or `dev0.17+dev1.20` if contents were
    /// appended. It ends with `…` if the last part is not a complete content.
    static func writers(_ bytes: Data) -> String {
        var rest = bytes[...]
        var names: [String] = []
        while !rest.isEmpty {
            guard let end = rest.firstIndex(of: UInt8(ascii: "\n")) else { break }
            let words = String(decoding: rest[..<end].prefix(200), as: UTF8.self)
                .split(separator: " ")
            guard words.count == 5, let length = Int(words[3]), length >= 0 else { break }
            let last = end + 1 + length
            guard last <= rest.endIndex, let whole = WholeContent(Data(rest[..<last])) else {
                names.append("\(words[1]).\(words[2])")
                break
            }
            names.append("\(whole.writer).\(whole.sequence)")
            rest = rest[last...]
        }
        return names.joined(separator: "+") + (rest.isEmpty ? "" : "…")
    }
}
