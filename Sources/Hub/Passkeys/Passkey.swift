import ChunkStore
import Model

/// A key of a person's authenticator, with which they sign in to the hub's pages without a code
/// (https://www.w3.org/TR/webauthn-3). The hub has its public half only.
package struct Passkey: Hashable, Sendable {
    /// The authenticator's id for it.
    package let credential: [UInt8]
    package let account: Identifier
    /// The browser in which it was added. It is removed when this one is revoked.
    let device: Identifier
    package let name: String
    /// Scheme, host and port of the pages for which it was made.
    let origin: String
    let publicKey: [UInt8]
    /// Nanoseconds since 1970.
    package let added: Int64
    package var used: Int64?
    /// How many signatures the authenticator has made; 0 if it does not count them.
    var signatures: UInt32 = 0
    /// When the last challenge that was answered with it was made. An answer to this one or an
    /// older one is refused, so that no answer is valid twice.
    var challenged: Int64

    /// An id that fits into an address.
    package var id: Identifier { Passkey.id(of: credential) }

    /// The most that the specification allows.
    static let credentialBytes = 1023
    static let perAccount = 20

    static func id(of credential: [UInt8]) -> Identifier {
        Identifier(bytes: Digest.sha256(credential).bytes.dropFirst().prefix(16))!
    }
}

extension LedgerTransaction {
    package var passkeys: PasskeyTable { PasskeyTable(transaction: self) }
}

/// The passkeys of all accounts.
package struct PasskeyTable {
    let transaction: any LedgerTransaction

    private static let columns = """
        credential, account, device, name, origin, public_key, added, used, signatures, challenged
        """

    func add(_ passkey: Passkey) throws {
        try transaction.execute(
            """
            INSERT INTO passkeys (id, \(PasskeyTable.columns))
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULL, $9, $10)
            """,
            [
                .id(passkey.id), .bytes(passkey.credential), .id(passkey.account),
                .id(passkey.device), .text(passkey.name), .text(passkey.origin),
                .bytes(passkey.publicKey), .integer(passkey.added),
                .integer(Int64(passkey.signatures)), .integer(passkey.challenged),
            ])
    }

    subscript(id: Identifier) -> Passkey? {
        get throws {
            try transaction.row(
                "SELECT \(PasskeyTable.columns) FROM passkeys WHERE id = $1", [.id(id)]
            ).map(Passkey.init)
        }
    }

    /// The passkeys of an account in the order in which they were added.
    package func all(of account: Identifier) throws -> [Passkey] {
        try transaction.rows(
            "SELECT \(PasskeyTable.columns) FROM passkeys WHERE account = $1 ORDER BY added, id",
            [.id(account)]
        ).map(Passkey.init)
    }

    func noteUse(of passkey: Passkey) throws {
        try transaction.execute(
            "UPDATE passkeys SET used = $1, signatures = $2, challenged = $3 WHERE id = $4",
            [
                passkey.used.map { .integer($0) } ?? .null, .integer(Int64(passkey.signatures)),
                .integer(passkey.challenged), .id(passkey.id),
            ])
    }

    func remove(_ id: Identifier) throws {
        try transaction.execute("DELETE FROM passkeys WHERE id = $1", [.id(id)])
    }

    func removeAll(addedBy device: Identifier) throws {
        guard let account = try transaction.devices.owner(of: device) else { return }
        try transaction.execute(
            "DELETE FROM passkeys WHERE account = $1 AND device = $2", [.id(account), .id(device)])
    }
}

extension Passkey {
    fileprivate init(_ row: LedgerRow) throws {
        self.init(
            credential: try row.bytes(0), account: try row.id(1), device: try row.id(2),
            name: try row.text(3), origin: try row.text(4), publicKey: try row.bytes(5),
            added: try row.integer(6), used: row.isNull(7) ? nil : try row.integer(7),
            signatures: UInt32(clamping: try row.integer(8)), challenged: try row.integer(9))
    }
}
