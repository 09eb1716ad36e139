/// What a person compares to know a certificate again: the SHA-256 of its DER form, as openssl
/// shows it.
package struct Fingerprint: Hashable, Sendable, CustomStringConvertible {
    private let bytes: [UInt8]

    package init(_ hash: Digest) { bytes = Array(hash.bytes.dropFirst()) }

    /// Nil when it is none. Takes what openssl prints, too: `sha256 Fingerprint=AB:CD:…`.
    package init?(_ text: String) {
        var digits = text.split(separator: "=").last.map { $0.lowercased() } ?? ""
        if digits.hasPrefix("sha256:") { digits.removeFirst("sha256:".count) }
        digits.removeAll { $0 == ":" || $0.isWhitespace }
        guard let found = bytesOf(hexadecimal: digits), found.count == 32 else { return nil }
        bytes = found
    }

    package var description: String {
        bytes.map { hexadecimal([$0]).uppercased() }.joined(separator: ":")
    }
}
