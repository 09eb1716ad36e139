/// The SHA-256 of a certificate's DER form. People compare it to recognize the certificate. It is
/// printed as openssl prints it.
package struct Fingerprint: Hashable, Sendable, CustomStringConvertible {
    private let bytes: [UInt8]

    package init(_ hash: Digest) { bytes = Array(hash.bytes.dropFirst()) }

    /// Returns nil when the text is not a fingerprint. Accepts openssl's output, too: `sha256
    /// Fingerprint=AB:CD:…`.
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
