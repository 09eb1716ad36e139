import CCrypto
import HubProtocol
import Model

/// What the hub keeps of a link's password: a salt and a slow hash. People choose these passwords,
/// so a fast hash, which suffices for the random passwords that the hub makes, could be searched.
package struct LinkPassword: Hashable, Sendable {
    /// The number of iterations in big endian, the salt, and PBKDF2 with HMAC-SHA-256.
    package let bytes: [UInt8]

    private static let iterations: UInt32 = 600_000
    private static let saltBytes = 16
    private static let hashBytes = 32

    package init(bytes: [UInt8]) { self.bytes = bytes }

    /// It takes some tenths of a second.
    package init(of password: String) {
        let count = withUnsafeBytes(of: LinkPassword.iterations.bigEndian) { Array($0) }
        let salt = Secret.bytes(LinkPassword.saltBytes)
        bytes = count + salt + LinkPassword.hash(password, salt, LinkPassword.iterations)
    }

    /// It takes some tenths of a second, and as long for a wrong password.
    package func matches(_ password: String) -> Bool {
        guard bytes.count == 4 + LinkPassword.saltBytes + LinkPassword.hashBytes,
            password.utf8.count <= HubLimits.nameBytes
        else { return false }
        let iterations = bytes[..<4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        let salt = Array(bytes[4..<4 + LinkPassword.saltBytes])
        let hash = LinkPassword.hash(password, salt, iterations)
        // All bytes are compared, so the time does not tell where the first difference is.
        let differences = zip(hash, bytes.suffix(LinkPassword.hashBytes)).map { $0 ^ $1 }
        return differences.reduce(0, |) == 0
    }

    private static func hash(_ password: String, _ salt: [UInt8], _ iterations: UInt32) -> [UInt8] {
        var hash = [UInt8](repeating: 0, count: hashBytes)
        let length = Int32(password.utf8.count)
        let isDone = PKCS5_PBKDF2_HMAC(
            password, length, salt, Int32(salt.count), Int32(clamping: iterations), EVP_sha256(),
            Int32(hashBytes), &hash)
        precondition(isDone == 1, "libcrypto has no PBKDF2")
        return hash
    }
}
