import CCrypto

/// A public key of one of the kinds that authenticators use: ECDSA on P-256 with SHA-256, Ed25519,
/// and RSA with SHA-256 and 2048 to 4096 bits.
struct PublicKey: ~Copyable {
    private let key: OpaquePointer
    private let hash: OpaquePointer?

    static let maximumBytes = 1024

    /// - Parameter encoded: A SubjectPublicKeyInfo in DER (RFC 5280).
    init?(_ encoded: [UInt8]) {
        guard !encoded.isEmpty, encoded.count <= PublicKey.maximumBytes else { return nil }
        defer { ERR_clear_error() }
        let found = encoded.withUnsafeBufferPointer { bytes -> OpaquePointer? in
            var rest = bytes.baseAddress
            guard let key = d2i_PUBKEY(nil, &rest, bytes.count) else { return nil }
            guard rest == bytes.baseAddress! + bytes.count else {
                EVP_PKEY_free(key)
                return nil
            }
            return key
        }
        guard let found else { return nil }
        switch EVP_PKEY_get_base_id(found) {
        case EVP_PKEY_ED25519: hash = nil
        case EVP_PKEY_EC where PublicKey.curve(of: found) == "prime256v1": hash = EVP_sha256()
        case EVP_PKEY_RSA where (2048...4096).contains(EVP_PKEY_get_bits(found)):
            hash = EVP_sha256()
        default:
            EVP_PKEY_free(found)
            return nil
        }
        key = found
    }

    deinit { EVP_PKEY_free(key) }

    /// Whether the owner of the private key has signed the message.
    func hasSigned(_ message: [UInt8], as signature: [UInt8]) -> Bool {
        defer { ERR_clear_error() }
        let context = EVP_MD_CTX_new()
        defer { EVP_MD_CTX_free(context) }
        guard EVP_DigestVerifyInit(context, nil, hash, nil, key) == 1 else { return false }
        return EVP_DigestVerify(context, signature, signature.count, message, message.count) == 1
    }

    private static func curve(of key: OpaquePointer) -> String? {
        var name = [CChar](repeating: 0, count: 64)
        var length = 0
        guard EVP_PKEY_get_group_name(key, &name, name.count, &length) == 1 else { return nil }
        return name.withUnsafeBytes { String(validating: $0.prefix(length), as: UTF8.self) }
    }
}
