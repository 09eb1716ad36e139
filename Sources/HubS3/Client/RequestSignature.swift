import ChunkStore
import Glibc
import Model

/// Signs requests by version 4 of AWS's signatures, with all headers and the digest of the body.
struct RequestSignature: Sendable {
    let credentials: S3Credentials
    let region: String

    /// Returns the headers of a request, with those that sign it.
    ///
    /// - Parameters:
    ///   - path: The path as it is sent, with its escapes.
    ///   - query: Names and values without escapes.
    ///   - headers: With `host`; the names are in lower case.
    ///   - body: The digest of the body.
    ///   - time: Seconds since 1970.
    func headers(
        _ method: String, _ path: String, query: [(String, String)],
        headers: [(String, String)], body: Digest, time: Int
    ) -> [(String, String)] {
        let (stamp, digest) = (Self.stamp(time), Self.text(body))
        var all = headers + [("x-amz-content-sha256", digest), ("x-amz-date", stamp)]
        if let session = credentials.session { all.append(("x-amz-security-token", session)) }
        let sorted = all.sorted { $0.0 < $1.0 }
        let names = sorted.map(\.0).joined(separator: ";")
        let request = [
            method, path, Self.canonical(query),
            sorted.map { "\($0):\($1)\n" }.joined(), names, digest,
        ].joined(separator: "\n")
        let day = String(stamp.prefix(8))
        let scope = "\(day)/\(region)/s3/aws4_request"
        let signed = [
            "AWS4-HMAC-SHA256", stamp, scope, Self.text(.sha256(Array(request.utf8))),
        ].joined(separator: "\n")
        var key = Array("AWS4\(credentials.secret)".utf8)
        for part in [day, region, "s3", "aws4_request", signed] {
            key = Array(Digest.keyed(by: key, Array(part.utf8)).bytes.dropFirst())
        }
        let authorization =
            "AWS4-HMAC-SHA256 Credential=\(credentials.key)/\(scope), SignedHeaders=\(names), "
            + "Signature=\(hexadecimal(key))"
        return all + [("authorization", authorization)]
    }

    /// The query as it is sent and signed.
    static func canonical(_ query: [(String, String)]) -> String {
        query.map { "\(escaped($0))=\(escaped($1))" }.sorted().joined(separator: "&")
    }

    private static func escaped(_ text: String) -> String {
        text.utf8.reduce(into: "") { result, byte in
            let isPlain =
                (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte)
                || (0x61...0x7A).contains(byte) || [0x2D, 0x2E, 0x5F, 0x7E].contains(byte)
            result +=
                isPlain
                ? String(UnicodeScalar(byte)) : "%" + hexadecimal([byte]).uppercased()
        }
    }

    private static func text(_ digest: Digest) -> String {
        hexadecimal(Array(digest.bytes.dropFirst()))
    }

    /// The time as `20130524T000000Z`.
    private static func stamp(_ time: Int) -> String {
        var (seconds, parts) = (time_t(time), tm())
        gmtime_r(&seconds, &parts)
        func digits(_ value: Int32) -> String { (value < 10 ? "0" : "") + "\(value)" }
        let day = "\(parts.tm_year + 1900)" + digits(parts.tm_mon + 1) + digits(parts.tm_mday)
        return day + "T" + digits(parts.tm_hour) + digits(parts.tm_min) + digits(parts.tm_sec) + "Z"
    }
}
