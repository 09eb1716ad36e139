import ChunkStore
import Model

/// What only one side keeps in clear: codes and tokens.
enum Secret {
    /// Crockford's digits: no I, L, O, U.
    private static let digits = Array("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8)

    /// `XXXXX-XXXXX-XXXXX-XXXXX`: 100 random bits.
    static func code() -> String {
        var source = SystemRandomNumberGenerator()
        let groups = (0..<4).map { _ in
            String(
                decoding: (0..<5).map { _ in digits.randomElement(using: &source)! },
                as: UTF8.self)
        }
        return groups.joined(separator: "-")
    }

    /// Nanoseconds for which a token holds: a device that has been away for longer needs a code.
    static let tokenTime: Int64 = 90 * 86_400_000_000_000
    /// Nanoseconds for which a token holds that has been renewed, so that a device which was ended
    /// before it kept the new one can ask again.
    static let renewedTime: Int64 = 86_400_000_000_000

    static func token() -> String { "cct_" + hexadecimal(bytes(32)) }

    static func bytes(_ count: Int) -> [UInt8] {
        var source = SystemRandomNumberGenerator()
        return (0..<count).map { _ in UInt8.random(in: 0...255, using: &source) }
    }

    /// People type codes in lower case and without lines.
    static func hash(code: String) -> Digest {
        let letters = code.uppercased().utf8.filter { digits.contains($0) }
        return .sha256(Array(letters))
    }

    static func hash(token: String) -> Digest { .sha256(Array(token.utf8)) }
}
