import CCrypto
import Model

extension Digest {
    /// Calls libcrypto's one-shot SHA-256. It uses the processor's SHA instructions: about 1.5
    /// GB/s.
    package static func sha256(_ bytes: UnsafeRawBufferPointer) -> Digest {
        var hash: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        withUnsafeMutableBytes(of: &hash) { hash in
            _ = SHA256(
                bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), bytes.count,
                hash.baseAddress?.assumingMemoryBound(to: UInt8.self))
        }
        return Digest(
            .sha256,
            words: (
                UInt64(bigEndian: hash.0), UInt64(bigEndian: hash.1), UInt64(bigEndian: hash.2),
                UInt64(bigEndian: hash.3)
            ))
    }

    package static func sha256(_ bytes: [UInt8]) -> Digest { bytes.withUnsafeBytes(sha256) }

    /// HMAC-SHA256, for ids that only those who know the key can compute.
    package static func keyed(by key: [UInt8], _ bytes: [UInt8]) -> Digest {
        var hash: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        withUnsafeMutableBytes(of: &hash) { hash in
            _ = HMAC(
                EVP_sha256(), key, Int32(key.count), bytes, bytes.count,
                hash.baseAddress?.assumingMemoryBound(to: UInt8.self), nil)
        }
        return withUnsafeBytes(of: hash) { Digest(.sha256, hash: $0) }
    }
}
