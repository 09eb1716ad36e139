import CCrypto
import ChunkStore
import Foundation
import Model

@testable import Hub

/// An authenticator with one Ed25519 key, and the browser before it.
final class TestAuthenticator {
    private let key: OpaquePointer
    var credential = Array("credential".utf8)
    var origin: String
    /// The host that the authenticator is told.
    var host: String
    var flags: UInt8 = 0b101
    var signatures: UInt32 = 0
    var type: String?

    init(at url: String) {
        origin = url
        host = URL(string: url)!.host()!
        let context = EVP_PKEY_CTX_new_id(EVP_PKEY_ED25519, nil)
        defer { EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        precondition(EVP_PKEY_keygen_init(context) == 1)
        precondition(EVP_PKEY_keygen(context, &key) == 1)
        self.key = key!
    }

    deinit { EVP_PKEY_free(key) }

    var publicKey: [UInt8] {
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = Int(i2d_PUBKEY(key, &bytes))
        defer { CRYPTO_free(bytes, nil, 0) }
        return Array(UnsafeBufferPointer(start: bytes, count: count))
    }

    /// The fields of the form that adds its key.
    func make(_ challenge: String) -> [(String, String)] {
        let length = [UInt8(credential.count >> 8), UInt8(credential.count & 0xff)]
        let new = [UInt8](repeating: 0, count: 16) + length + credential
        return [
            ("client", client("webauthn.create", challenge).base64url),
            ("data", data(flags | 0b100_0000, new).base64url), ("key", publicKey.base64url),
        ]
    }

    /// The fields of the form that signs in.
    func use(_ challenge: String) -> [(String, String)] {
        if signatures > 0 { signatures += 1 }
        let (client, data) = (client("webauthn.get", challenge), data(flags, []))
        let message = data + Digest.sha256(client).bytes.dropFirst()
        return [
            ("credential", credential.base64url), ("client", client.base64url),
            ("data", data.base64url), ("signature", sign(message).base64url),
        ]
    }

    private func client(_ type: String, _ challenge: String) -> [UInt8] {
        let fields = [
            "type": self.type ?? type, "challenge": challenge, "origin": origin,
        ]
        return Array(try! JSONSerialization.data(withJSONObject: fields))
    }

    private func data(_ flags: UInt8, _ new: [UInt8]) -> [UInt8] {
        Digest.sha256(Array(host.utf8)).bytes.dropFirst() + [flags]
            + withUnsafeBytes(of: signatures.bigEndian) { Array($0) } + new
    }

    private func sign(_ message: [UInt8]) -> [UInt8] {
        let context = EVP_MD_CTX_new()
        defer { EVP_MD_CTX_free(context) }
        var signature = [UInt8](repeating: 0, count: 64)
        var count = signature.count
        precondition(EVP_DigestSignInit(context, nil, nil, nil, key) == 1)
        precondition(
            EVP_DigestSign(context, &signature, &count, message, message.count) == 1)
        return Array(signature.prefix(count))
    }
}
