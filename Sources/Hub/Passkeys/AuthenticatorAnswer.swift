import ChunkStore
import Foundation
import HubProtocol
import Model

/// What an authenticator and the browser say when a passkey is made or used.
package struct AuthenticatorAnswer: Sendable {
    private let clientBytes: [UInt8]
    private let dataBytes: [UInt8]
    private let client: ClientData

    /// The browser's part (WebAuthn 5.8.1).
    private struct ClientData: Decodable {
        let type: String
        /// In base64url, as all bytes are in JSON.
        let challenge: String
        let origin: String
        let crossOrigin: Bool?
    }

    enum Deed: String {
        case making = "webauthn.create"
        case using = "webauthn.get"
    }

    /// - Parameters:
    ///   - client: The JSON text of the browser's part (`clientDataJSON`).
    ///   - data: The authenticator's part (`authenticatorData`).
    /// - Throws: `.code`.
    package init(client: [UInt8], data: [UInt8]) throws(Failure) {
        // A hash, flags and a count.
        guard data.count >= 37, data.count <= 4096, client.count <= 4096,
            let decoded = try? JSONDecoder().decode(ClientData.self, from: Data(client))
        else { throw AuthenticatorAnswer.refused }
        (clientBytes, dataBytes, self.client) = (client, data, decoded)
    }

    static let refused = Failure(
        .code,
        "The hub does not accept this passkey. It may belong to another hub or have been removed: "
            + "sign in with a code.")

    var challenge: [UInt8]? { [UInt8](base64url: client.challenge) }

    /// Whether the answer was made for this purpose, by pages of this origin, for their host, and
    /// by a person whom the authenticator knows.
    func isMade(for deed: Deed, at origin: String) -> Bool {
        guard let host = URL(string: origin)?.host() else { return false }
        return client.type == deed.rawValue && client.origin == origin
            && client.crossOrigin != true
            && dataBytes.prefix(32).elementsEqual(Digest.sha256(Array(host.utf8)).bytes.dropFirst())
            && flags & 0b101 == 0b101
    }

    /// Bit 0: a person was present. Bit 2: the authenticator has verified who it is. Bit 6: the id
    /// of a new key follows.
    private var flags: UInt8 { dataBytes[32] }

    var signatures: UInt32 { dataBytes[33..<37].reduce(0) { $0 << 8 | UInt32($1) } }

    /// The id of the key that was made; nil if none was.
    var credential: [UInt8]? {
        // Sixteen bytes name the kind of authenticator, which does not matter here.
        guard flags & 0b100_0000 != 0, dataBytes.count >= 55 else { return nil }
        let length = Int(dataBytes[53]) << 8 | Int(dataBytes[54])
        guard length > 0, length <= Passkey.credentialBytes, dataBytes.count >= 55 + length else {
            return nil
        }
        return Array(dataBytes[55..<55 + length])
    }

    /// What the authenticator signs (WebAuthn 6.3.3).
    var message: [UInt8] { dataBytes + Digest.sha256(clientBytes).bytes.dropFirst() }
}

extension [UInt8] {
    /// Decodes base64url without padding (RFC 4648).
    package init?(base64url text: String) {
        let plain = text.replacing("-", with: "+").replacing("_", with: "/")
        guard !text.utf8.contains(where: { "+/=".utf8.contains($0) }),
            let data = Data(
                base64Encoded: plain + String(repeating: "=", count: (4 - plain.utf8.count % 4) % 4)
            )
        else { return nil }
        self = Array(data)
    }

    package var base64url: String {
        Data(self).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
            .replacing("=", with: "")
    }
}
