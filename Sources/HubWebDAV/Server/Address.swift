import Foundation
import HubProtocol
import Model

/// What a path below `/dav` names: the list of volumes, a volume, or something in a volume.
struct Address: Hashable, Sendable {
    /// The decoded parts of the path: the label of a volume (`VolumeLabels`), then names. Empty for
    /// the list of volumes.
    var parts: [String]

    static let top = Routes.webDAV

    init(_ parts: [String]) { self.parts = parts }

    /// - Parameter path: As the request has it, with a query or without. It is decoded once.
    /// - Throws: `.malformed`, also for names that no item can have; `.notFound`.
    init(path: some StringProtocol) throws(Failure) {
        guard !path.contains("#") else {
            throw Failure(.malformed, "An address has no fragment here.")
        }
        let path = path.prefix { $0 != "?" }
        guard path == Address.top || path.hasPrefix(Address.top + "/") else {
            throw Failure(.notFound, "WebDAV is below \(Address.top)/ here.")
        }
        var parts = path.dropFirst(Address.top.count).split(
            separator: "/", omittingEmptySubsequences: false
        ).dropFirst()
        // A collection's address ends with a slash, but need not.
        if parts.last == "" { parts.removeLast() }
        self.parts = []
        for part in parts { self.parts.append(try Address.decoded(String(part))) }
        for name in self.parts.dropFirst() where !Name(name).isSafe {
            throw Failure(.malformed, Address.unsafe)
        }
    }

    private static let unsafe =
        "A name in an address has 1 to 255 bytes of UTF-8, no slash and no NUL, and is not . or .."

    private static func decoded(_ part: String) throws(Failure) -> String {
        guard let name = part.removingPercentEncoding, !name.isEmpty, name != ".", name != "..",
            !name.utf8.contains(0)
        else { throw Failure(.malformed, unsafe) }
        return name
    }

    /// Reads an address in a header, which may be a whole URI.
    ///
    /// - Parameter host: The request's header `Host`.
    /// - Throws: What `init(path:)` does; a refusal with the status 502 if the URI names another
    ///   server.
    init(uri: String, host: String) throws {
        let uri = Markup.trimmed(uri)
        guard !uri.hasPrefix("/") || uri.hasPrefix("//") else {
            try self.init(path: uri)
            return
        }
        guard let colon = uri.range(of: "://"),
            ["http", "https"].contains(uri[..<colon.lowerBound].lowercased())
        else { throw Failure(.malformed, "An address in a header is a path or an http URI.") }
        let rest = uri[colon.upperBound...]
        let authority = rest.prefix { $0 != "/" }
        guard Address.isSame(String(authority), host) else {
            throw Refusal(502, "This hub cannot reach other servers: the URI names \(authority).")
        }
        try self.init(path: rest.dropFirst(authority.count))
    }

    /// Compares two hosts. A proxy may be asked by another scheme than this hub, so both default
    /// ports count as none.
    private static func isSame(_ one: String, _ other: String) -> Bool {
        func plain(_ host: String) -> String {
            let host = host.lowercased()
            for port in [":80", ":443"] where host.hasSuffix(port) {
                return String(host.dropLast(port.count))
            }
            return host
        }
        return !one.isEmpty && plain(one) == plain(other)
    }

    /// The address as a path. The path of a collection ends with a slash.
    func path(isCollection: Bool) -> String {
        let path = ([Address.top] + parts.map(Address.encoded)).joined(separator: "/")
        return isCollection ? path + "/" : path
    }

    private static func encoded(_ part: String) -> String {
        var result: [UInt8] = []
        for byte in part.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
                UInt8(ascii: "_"), UInt8(ascii: "~"):
                result.append(byte)
            default:
                result.append(UInt8(ascii: "%"))
                result += hexadecimal([byte]).uppercased().utf8
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    var name: String { parts.last ?? "" }
    var parent: Address { Address(Array(parts.dropLast())) }
    func appending(_ name: String) -> Address { Address(parts + [name]) }

    /// Whether this is the other address, or below it.
    func isWithin(_ other: Address) -> Bool { parts.starts(with: other.parts) }
}
