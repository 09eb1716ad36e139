import HubProtocol
import Model

/// A link for people without an account, as the ledger has it.
package struct LinkRow: Hashable, Sendable {
    /// Also the id of a device of the maker. The token of this device is the secret in the link's
    /// address, and visitors save versions by this device.
    package let id: Identifier
    package let volume: Identifier
    package let item: Identifier
    /// Who made it.
    package let account: Identifier
    /// The device on which it was made. The link is removed when this one is revoked.
    let device: Identifier
    /// Whether visitors may save new versions.
    package let edits: Bool
    /// Nanoseconds since 1970.
    package let made: Int64
    package let ends: Int64?
    package let password: LinkPassword?

    /// The name of the link's device, which versions show.
    static func deviceName(_ id: Identifier) -> String { "Link \(id.description.prefix(8))" }
}

extension LedgerTransaction {
    package var links: LinkTable { LinkTable(transaction: self) }
}

/// The links of all volumes.
package struct LinkTable {
    let transaction: any LedgerTransaction

    private static let columns = """
        id, volume, item, account, device, edits, made, ends, password
        """

    package func add(_ link: LinkRow, token: Digest) throws {
        let devices = transaction.devices
        _ = try devices.enrol(
            link.id, account: link.account, name: LinkRow.deviceName(link.id), at: link.made)
        try devices.addToken(token, device: link.id, expires: link.ends ?? .max)
        try transaction.execute(
            """
            INSERT INTO links (\(LinkTable.columns)) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
            """,
            [
                .id(link.id), .id(link.volume), .id(link.item), .id(link.account),
                .id(link.device), .integer(link.edits ? 1 : 0), .integer(link.made),
                .integer(link.ends), link.password.map { .bytes($0.bytes) } ?? .null,
            ])
    }

    package subscript(id: Identifier) -> LinkRow? {
        get throws {
            try transaction.row(
                "SELECT \(LinkTable.columns) FROM links WHERE id = $1", [.id(id)]
            ).map(LinkRow.init)
        }
    }

    /// The links of a volume, the newest first.
    package func all(in volume: Identifier) throws -> [LinkRow] {
        try transaction.rows(
            "SELECT \(LinkTable.columns) FROM links WHERE volume = $1 ORDER BY made DESC, id",
            [.id(volume)]
        ).map(LinkRow.init)
    }

    // MARK: Removing

    package func remove(_ id: Identifier) throws {
        try transaction.devices.removeTokens(of: id)
        try transaction.execute("DELETE FROM devices WHERE id = $1", [.id(id)])
        try transaction.execute("DELETE FROM links WHERE id = $1", [.id(id)])
    }

    package func removeAll(in volume: Identifier) throws {
        for link in try all(in: volume) { try remove(link.id) }
    }

    package func removeAll(of account: Identifier, in volume: Identifier) throws {
        for link in try all(of: account) where link.volume == volume { try remove(link.id) }
    }

    package func removeAll(of account: Identifier) throws {
        for link in try all(of: account) { try remove(link.id) }
    }

    func removeAll(madeOn device: Identifier) throws {
        guard let account = try transaction.devices.owner(of: device) else { return }
        for link in try all(of: account) where link.device == device { try remove(link.id) }
    }

    private func all(of account: Identifier) throws -> [LinkRow] {
        try transaction.rows(
            "SELECT \(LinkTable.columns) FROM links WHERE account = $1", [.id(account)]
        ).map(LinkRow.init)
    }
}

extension LinkRow {
    fileprivate init(_ row: LedgerRow) throws {
        self.init(
            id: try row.id(0), volume: try row.id(1), item: try row.id(2), account: try row.id(3),
            device: try row.id(4), edits: try row.integer(5) != 0, made: try row.integer(6),
            ends: row.isNull(7) ? nil : try row.integer(7),
            password: row.isNull(8) ? nil : LinkPassword(bytes: try row.bytes(8)))
    }
}
