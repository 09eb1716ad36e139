import ChunkStore
import HubProtocol
import Model

/// A person whose volumes the hub keeps.
package struct Account: Hashable, Sendable {
    package let id: Identifier
    package let name: String
    /// The quota in bytes; nil means that there is no limit.
    package let quota: UInt64?
    /// The bytes that are stored for the account's versions, not the sizes that devices claim.
    package let used: UInt64
}

extension LedgerTransaction {
    package func accounts() throws -> [Account] {
        try rows("SELECT id, name, quota, used FROM accounts ORDER BY name", []).map(account)
    }

    package func account(named name: String) throws -> Account? {
        try row("SELECT id, name, quota, used FROM accounts WHERE name = $1", [.text(name)])
            .map(account)
    }

    package func account(_ id: Identifier) throws -> Account? {
        try rows(.account(id)).first.map(account)
    }

    private func account(_ row: LedgerRow) throws -> Account {
        Account(
            id: try row.id(0), name: try row.text(1),
            quota: row.isNull(2) ? nil : try row.count(2), used: try row.count(3))
    }

    package func addAccount(_ id: Identifier, name: String, quota: UInt64?, at time: Int64) throws {
        try execute(
            "INSERT INTO accounts (id, name, quota, used, created) VALUES ($1, $2, $3, 0, $4)",
            [.id(id), .text(name), quota.map { .count($0) } ?? .null, .integer(time)])
    }

    package func setQuota(of account: Identifier, _ quota: UInt64?) throws {
        try execute(
            "UPDATE accounts SET quota = $1 WHERE id = $2",
            [quota.map { .count($0) } ?? .null, .id(account)])
    }

    /// Removes the account and its volumes. The next collection removes the bytes.
    package func removeAccount(_ account: Identifier) throws {
        try links.removeAll(of: account)
        for volume in try volumes(of: account) {
            // The devices of links belong to their makers.
            try links.removeAll(in: volume.id)
            for table in LedgerSchema.volumeTables {
                try execute("DELETE FROM \(table) WHERE volume = $1", [.id(volume.id)])
            }
            try removeFact(Fact.renewal(of: volume.id))
            try execute("DELETE FROM volumes WHERE id = $1", [.id(volume.id)])
        }
        for device in try devices.entries(of: account) {
            try GrantTable.release(of: device.id, self)
            try execute("DELETE FROM tokens WHERE device = $1", [.id(device.id)])
            try execute("DELETE FROM splits WHERE device = $1", [.id(device.id)])
        }
        for table in ["devices", "invites", "members", "dav_locks", "passkeys", "proofs"] {
            try execute("DELETE FROM \(table) WHERE account = $1", [.id(account)])
        }
        try execute("DELETE FROM accounts WHERE id = $1", [.id(account)])
    }
}

extension LedgerStatement {
    static func account(_ id: Identifier) -> LedgerStatement {
        LedgerStatement("SELECT id, name, quota, used FROM accounts WHERE id = $1", [.id(id)])
    }
}
