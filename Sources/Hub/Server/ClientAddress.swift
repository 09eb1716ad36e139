import Glibc

/// The clients that are counted together before the hub knows who they are.
enum ClientAddress {
    /// Returns the first 64 bits of an IPv6 address, because one client has all addresses that
    /// begin with them. Another address, or a text that is none, stays as it is; an IPv4 address
    /// that is written as one of IPv6 becomes one of IPv4.
    static func group(of address: String) -> String {
        var parsed = in6_addr()
        // A zone may follow the address of a local network.
        let text = address.prefix { $0 != "%" }
        guard inet_pton(AF_INET6, String(text), &parsed) == 1 else { return address }
        let bytes = withUnsafeBytes(of: parsed) { Array($0) }
        if bytes[..<10].allSatisfy({ $0 == 0 }), bytes[10] == 0xFF, bytes[11] == 0xFF {
            return bytes[12...].map(String.init).joined(separator: ".")
        }
        var network = in6_addr()
        withUnsafeMutableBytes(of: &network) { $0.copyBytes(from: bytes[..<8]) }
        var shown = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        inet_ntop(AF_INET6, &network, &shown, socklen_t(shown.count))
        return String(
            decoding: shown.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            + "/64"
    }
}
