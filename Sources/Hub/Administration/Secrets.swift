import ChunkStore
import Model

/// Who uses a token that the hub gives for a code. A browser's session is a device, too: it is
/// listed, revoked and counted as one.
package enum TokenUse: Hashable, Sendable {
    case device
    /// A browser, whose session ends after this time in nanoseconds.
    case browser(lifetime: Int64)
    /// A program that uses WebDAV. It has a password in place of a token.
    case webDAV

    /// The beginning of the token. A browser's token is refused as a device's token and the other
    /// way round, so that a stolen session cannot create devices, which would outlive it.
    package var prefix: String {
        switch self {
        case .device: "cct_"
        case .browser: "ccb_"
        case .webDAV: "ccd_"
        }
    }

    var lifetime: Int64 {
        switch self {
        case .device, .webDAV: Secret.tokenTime
        case .browser(let lifetime): lifetime
        }
    }
}

/// Creates and hashes the secrets of devices. The hub stores only the hashes of codes and tokens.
package enum Secret {
    /// Crockford's base32 alphabet, without I, L, O and U.
    private static let digits = Array("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8)

    /// Returns a code `XXXXX-XXXXX-XXXXX-XXXXX` with 100 random bits.
    package static func code() -> String { code(groups: 4) }

    /// Returns a password for WebDAV, `XXXXX-XXXXX-XXXXX-XXXXX-XXXXX`, with 125 random bits.
    package static func password() -> String { code(groups: 5) }

    private static func code(groups: Int) -> String {
        var source = SystemRandomNumberGenerator()
        let groups = (0..<groups).map { _ in
            String(
                decoding: (0..<5).map { _ in digits.randomElement(using: &source)! },
                as: UTF8.self)
        }
        return groups.joined(separator: "-")
    }

    /// How long a token is valid, in nanoseconds. A device that was away for longer needs a new
    /// code.
    static let tokenTime: Int64 = 90 * 86_400_000_000_000
    /// The longest time in nanoseconds that a renewed token may take over from the one before it.
    /// More than this was said by a clock that was ahead.
    private static let inheritedTime: Int64 = 365 * 86_400_000_000_000

    /// When a token that replaces another one expires. The hub's clock may be behind now, so it
    /// holds at least as long as the other one would have.
    static func expiry(at time: Int64, renewing old: Int64?) -> Int64 {
        max(time + tokenTime, min(old ?? time, time + inheritedTime))
    }

    static func token(for use: TokenUse = .device) -> String {
        use.prefix + hexadecimal(bytes(32))
    }

    static func bytes(_ count: Int) -> [UInt8] {
        var source = SystemRandomNumberGenerator()
        return (0..<count).map { _ in UInt8.random(in: 0...255, using: &source) }
    }

    /// Hashes a code without regard to case and separators, because people type it in different
    /// ways.
    package static func hash(code: String) -> Digest {
        let letters = code.uppercased().utf8.filter { digits.contains($0) }
        return .sha256(Array(letters))
    }

    /// Hashes a password. No token has the same hash, so a password is not valid as one, and the
    /// other way round.
    package static func hash(password: String) -> Digest {
        let letters = password.uppercased().utf8.filter { digits.contains($0) }
        return .sha256(Array(TokenUse.webDAV.prefix.utf8) + letters)
    }

    package static func hash(token: String) -> Digest { .sha256(Array(token.utf8)) }

    /// Returns the secret of a link's address, with 192 random bits.
    static func linkToken() -> String { bytes(24).base64url }

    /// Hashes the secret of a link's address. It is valid neither as the token of a device or a
    /// browser nor as a password.
    package static func hash(linkToken: String) -> Digest {
        .sha256(Array("ccs_".utf8) + Array(linkToken.utf8))
    }
}
