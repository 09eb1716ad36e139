/// Recognizes hosts whose traffic never leaves the machine, so that nobody can read it on the
/// network.
package enum Loopback {
    /// - Parameter host: A name or an address as it is written in a URL.
    package static func contains(_ host: String) -> Bool {
        var host = host.lowercased()
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        if host == "localhost" || host == "::1" { return true }
        if host.hasPrefix("::ffff:") { host.removeFirst(7) }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
    }
}
