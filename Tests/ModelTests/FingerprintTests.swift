import Model
import Testing

@Suite struct FingerprintTests {
    private let shown = (0..<32).map { $0 < 16 ? "0\($0 % 10)" : "AB" }.joined(separator: ":")

    @Test func whatOpensslPrintsIsRead() throws {
        let fingerprint = try #require(Fingerprint(shown))
        #expect(fingerprint.description == shown)
        for text in [
            "sha256 Fingerprint=" + shown, "SHA256:" + shown, shown.lowercased(), " \(shown)\n",
            shown.filter { $0 != ":" },
        ] {
            #expect(Fingerprint(text) == fingerprint, "\(text)")
        }
    }

    @Test func whatIsNoneIsRefused() {
        for text in ["", "AB", shown + ":AB", String(shown.dropLast()) + "x", "SHA256:"] {
            #expect(Fingerprint(text) == nil, "\(text)")
        }
    }
}
