import ChunkStore
import HubProtocol
import Model

/// The device and the account that sent a request.
package struct Caller: Hashable, Sendable {
    package let device: Identifier
    package let account: Identifier
    package let user: String
    package let epoch: UInt32
    package let seen: Int64
}

extension LedgerTransaction {
    package var devices: DeviceTable { DeviceTable(transaction: self) }
}

/// The devices of all accounts, and the codes and tokens that admit them.
package struct DeviceTable {
    let transaction: any LedgerTransaction

    // MARK: Codes and tokens, by their hashes

    package func addInvite(_ code: Digest, account: Identifier, expires: Int64) throws {
        try transaction.execute(
            "INSERT INTO invites (code, account, expires) VALUES ($1, $2, $3)",
            [.digest(code), .id(account), .integer(expires)])
    }

    /// Uses up the code and returns its account; nil if the code is unknown, used or expired.
    package func redeem(_ code: Digest, at time: Int64) throws -> Identifier? {
        try transaction.execute("DELETE FROM invites WHERE expires < $1", [.integer(time)])
        let found = try transaction.row(
            "SELECT account FROM invites WHERE code = $1", [.digest(code)])
        try transaction.execute("DELETE FROM invites WHERE code = $1", [.digest(code)])
        return try found?.id(0)
    }

    package func addToken(_ token: Digest, device: Identifier, expires: Int64) throws {
        try transaction.execute(
            "INSERT INTO tokens (hash, device, expires) VALUES ($1, $2, $3)",
            [.digest(token), .id(device), .integer(expires)])
    }

    /// Adds a token that replaces another one. The old one ends when the new one is renewed, which
    /// shows that the device has it. All other tokens of the device end now, so if two processes
    /// have the same token, the one that renews it last keeps the device.
    package func renew(
        _ old: Digest, as new: Digest, of device: Identifier, expires: Int64
    ) throws {
        try transaction.execute(
            "DELETE FROM tokens WHERE device = $1 AND hash <> $2", [.id(device), .digest(old)])
        try addToken(new, device: device, expires: expires)
    }

    /// When a token expires; nil if it never does, or is unknown.
    package func expiry(of token: Digest) throws -> Int64? {
        let found = try transaction.row(
            "SELECT expires FROM tokens WHERE hash = $1", [.digest(token)])
        return try found.flatMap { $0.isNull(0) ? nil : try $0.integer(0) }
    }

    package func removeTokens(of device: Identifier) throws {
        try transaction.execute("DELETE FROM tokens WHERE device = $1", [.id(device)])
    }

    /// Whether the device has not been revoked or signed out.
    package func hasToken(_ device: Identifier) throws -> Bool {
        try transaction.row("SELECT 1 FROM tokens WHERE device = $1 LIMIT 1", [.id(device)]) != nil
    }

    /// Returns nil if the token is unknown, revoked or expired.
    package func caller(_ token: Digest, at time: Int64) throws -> Caller? {
        let found = try transaction.row(
            """
            SELECT devices.id, devices.account, accounts.name, devices.epoch, devices.seen
            FROM tokens JOIN devices ON devices.id = tokens.device
            JOIN accounts ON accounts.id = devices.account
            WHERE tokens.hash = $1 AND devices.revoked IS NULL
                AND (tokens.expires IS NULL OR tokens.expires > $2)
            """, [.digest(token), .integer(time)])
        return try found.map {
            Caller(
                device: try $0.id(0), account: try $0.id(1), user: try $0.text(2),
                epoch: UInt32(clamping: try $0.count(3)), seen: try $0.integer(4))
        }
    }

    // MARK: Devices

    /// The devices of an account, without those that are links.
    package func entries(of account: Identifier) throws -> [DeviceEntry] {
        try transaction.rows(
            """
            SELECT id, name, enrolled, seen, revoked FROM devices WHERE account = $1
                AND id NOT IN (SELECT id FROM links WHERE account = $1)
            ORDER BY enrolled, id
            """, [.id(account)]
        ).map {
            DeviceEntry(
                id: try $0.id(0), name: try $0.text(1), enrolled: try $0.integer(2),
                seen: try $0.integer(3), isRevoked: !$0.isNull(4), isSelf: false)
        }
    }

    package func owner(of device: Identifier) throws -> Identifier? {
        try transaction.row("SELECT account FROM devices WHERE id = $1", [.id(device)])?.id(0)
    }

    /// Adds a device, or renames a known one. A revoked device that has used a new code becomes
    /// valid again. Returns the device's epoch.
    ///
    /// - Parameter parent: The device whose token was used; nil if the device was enrolled with a
    ///   code.
    package func enrol(
        _ device: Identifier, account: Identifier, name: String, from parent: Identifier? = nil,
        at time: Int64
    ) throws -> UInt32 {
        try transaction.execute("DELETE FROM splits WHERE device = $1", [.id(device)])
        if let parent {
            try transaction.execute(
                "INSERT INTO splits (device, parent) VALUES ($1, $2)", [.id(device), .id(parent)])
        }
        try transaction.execute(
            """
            INSERT INTO devices (id, account, name, epoch, enrolled, seen)
            VALUES ($1, $2, $3, 1, $4, $4)
            ON CONFLICT (id) DO UPDATE SET name = $3, seen = $4, revoked = NULL
            """, [.id(device), .id(account), .text(name), .integer(time)])
        return try epoch(of: device)
    }

    package func epoch(of device: Identifier) throws -> UInt32 {
        let found = try transaction.row("SELECT epoch FROM devices WHERE id = $1", [.id(device)])
        return UInt32(clamping: try found?.count(0) ?? 0)
    }

    /// Begins a new epoch of a device, and removes what was kept for the former ones: their
    /// operations are not accepted any more.
    package func newEpoch(of device: Identifier) throws -> UInt32 {
        try transaction.execute("UPDATE devices SET epoch = epoch + 1 WHERE id = $1", [.id(device)])
        let epoch = try epoch(of: device)
        guard let account = try owner(of: device) else { return epoch }
        for volume in try transaction.membership.visible(to: account).map(\.volume) {
            for table in ["numbers", "answers"] {
                try transaction.execute(
                    "DELETE FROM \(table) WHERE volume = $1 AND device = $2 AND epoch < $3",
                    [.id(volume.id), .id(device), .count(UInt64(epoch))])
            }
        }
        return epoch
    }

    package func see(_ device: Identifier, at time: Int64) throws {
        try transaction.execute(
            "UPDATE devices SET seen = $1 WHERE id = $2", [.integer(time), .id(device)])
    }

    /// Gives tokens of older hubs, which had no end, an expiry time.
    package func limitTokens(of device: Identifier, to expires: Int64) throws {
        try transaction.execute(
            "UPDATE tokens SET expires = $1 WHERE device = $2 AND expires IS NULL",
            [.integer(expires), .id(device)])
    }

    /// Makes the tokens of a device valid until `expires` at least.
    func extendTokens(of device: Identifier, to expires: Int64) throws {
        try transaction.execute(
            "UPDATE tokens SET expires = $1 WHERE device = $2 AND expires < $1",
            [.integer(expires), .id(device)])
    }

    /// Revokes a device, its passkeys, its grants, the links that were made on it, and all devices
    /// that were split off from it or signed in with those passkeys, because a thief of its token
    /// may have created them.
    ///
    /// - Returns: All devices that were revoked.
    @discardableResult
    package func revoke(_ device: Identifier, at time: Int64) throws -> [Identifier] {
        var revoked = [device]
        var next = 0
        while next < revoked.count {
            let descendants = try transaction.rows(
                "SELECT device FROM splits WHERE parent = $1", [.id(revoked[next])])
            // Two browsers may each have signed in with a passkey of the other.
            let new = Set(try descendants.map { try $0.id(0) }).subtracting(revoked)
            revoked += new
            next += 1
        }
        for device in revoked {
            if try transaction.links[device] != nil { try transaction.links.remove(device) }
            try removeTokens(of: device)
            try GrantTable.release(of: device, transaction)
            try transaction.passkeys.removeAll(addedBy: device)
            try transaction.links.removeAll(madeOn: device)
            try transaction.execute(
                "UPDATE devices SET revoked = $1 WHERE id = $2 AND revoked IS NULL",
                [.integer(time), .id(device)])
        }
        return revoked
    }
}
