import Foundation
import HubProtocol
import Model

/// Where the objects of a hub are: `s3://BUCKET/PREFIX?endpoint=URL&region=NAME&credentials=FILE`,
/// and `insecure=yes` for an `http://` endpoint on another machine.
package struct S3Address: Hashable, Sendable {
    let bucket: String
    /// Empty, or a path that ends with a slash.
    let prefix: String
    /// The scheme, host and port of the server, without a slash at the end.
    let endpoint: String
    /// The value of the header `Host`.
    let host: String
    let region: String
    /// The file with the keys; nil for the environment.
    let credentials: String?

    /// - Throws: `.invalid`.
    package init(_ text: String) throws(VolumeError) {
        guard let parts = URLComponents(string: text), parts.scheme == "s3",
            let bucket = parts.host, !bucket.isEmpty
        else {
            throw VolumeError(
                .invalid,
                "The place of blobs is s3://BUCKET/PREFIX?endpoint=URL&region=NAME (\(text)).")
        }
        guard parts.user == nil, parts.password == nil else {
            throw VolumeError(
                .invalid,
                "Everybody on this machine can read keys on the command line: set "
                    + "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the hub's environment, or "
                    + "name a file with ?credentials=FILE.")
        }
        var options: [String: String] = [:]
        for item in parts.queryItems ?? [] {
            guard ["endpoint", "region", "credentials", "insecure"].contains(item.name) else {
                throw VolumeError(
                    .invalid,
                    "s3://\(bucket) has the unknown option \(item.name): there are endpoint, "
                        + "region, credentials and insecure.")
            }
            options[item.name] = item.value ?? ""
        }
        let path = parts.path.split(separator: "/")
        guard Self.isPlain(bucket), path.allSatisfy(Self.isPlain) else {
            throw VolumeError(
                .invalid,
                "A bucket and the prefix of its objects consist of letters, digits and . _ - / "
                    + "(s3://\(bucket)\(parts.path)).")
        }
        region = options["region"] ?? "us-east-1"
        guard Self.isPlain(region) else {
            throw VolumeError(.invalid, "\(region) is not the name of a region.")
        }
        self.bucket = bucket
        prefix = path.isEmpty ? "" : path.joined(separator: "/") + "/"
        credentials = options["credentials"]
        (endpoint, host) = try Self.server(
            options["endpoint"] ?? "https://s3.\(region).amazonaws.com",
            isInsecure: options["insecure"] == "yes")
    }

    private static func server(_ url: String, isInsecure: Bool) throws(VolumeError)
        -> (String, String)
    {
        guard let parts = URLComponents(string: url), let host = parts.host, !host.isEmpty,
            let scheme = parts.scheme, ["http", "https"].contains(scheme),
            parts.path.isEmpty || parts.path == "/", parts.user == nil, parts.query == nil
        else {
            throw VolumeError(
                .invalid,
                "An endpoint is http://HOST:PORT or https://HOST, without a path (\(url)).")
        }
        guard scheme == "https" || Loopback.contains(host) || isInsecure else {
            throw VolumeError(
                .invalid,
                "Everybody on the network could read the documents that are sent to \(url): use "
                    + "https://, or add &insecure=yes if nobody else can listen there.")
        }
        let isUsual = parts.port == nil || parts.port == (scheme == "https" ? 443 : 80)
        let name = isUsual ? host : "\(host):\(parts.port!)"
        return ("\(scheme)://\(name)", name)
    }

    /// Whether the text needs no escapes, neither in URLs nor in signatures.
    private static func isPlain(_ text: some StringProtocol) -> Bool {
        !text.isEmpty && text != "." && text != ".."
            && text.utf8.allSatisfy { byte in
                (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte)
                    || (0x61...0x7A).contains(byte) || [0x2D, 0x2E, 0x5F].contains(byte)
            }
    }

    /// The bucket, prefix and server, for messages.
    package var name: String { "s3://\(bucket)/\(prefix) at \(endpoint)" }
}
