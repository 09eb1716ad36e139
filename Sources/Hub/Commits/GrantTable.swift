import Coordination
import HubProtocol
import Model
import Reconcile

/// The grants of a volume in the ledger: which device may edit a document alone, and which edits
/// may become its current version. Everything happens within the caller's transaction.
struct GrantTable {
    let transaction: any LedgerTransaction
    let volume: Identifier

    init(_ transaction: any LedgerTransaction, volume: Identifier) {
        (self.transaction, self.volume) = (transaction, volume)
    }

    func row(of item: Identifier) throws -> GrantRow? {
        try transaction.row(
            """
            SELECT token, device, process, held, number FROM grants
            WHERE volume = $1 AND item = $2
            """, [.id(volume), .id(item)]
        ).map { row in
            GrantRow(
                token: try row.count(0),
                holder: GrantRow.Holder(device: try row.id(1), process: try row.id(2)),
                isHeld: try row.integer(3) == 1, number: try row.count(4))
        }
    }

    private func set(_ row: GrantRow, of item: Identifier) throws {
        try transaction.execute(
            """
            INSERT INTO grants (volume, item, token, device, process, held, number)
            VALUES ($1, $2, $3, $4, $5, $6, $7)
            ON CONFLICT (volume, item) DO UPDATE
            SET token = $3, device = $4, process = $5, held = $6, number = $7
            """,
            [
                .id(volume), .id(item), .count(row.token), .id(row.holder.device),
                .id(row.holder.process), .integer(row.isHeld ? 1 : 0), .count(row.number),
            ])
    }

    /// Grants a document to a device (`GrantRow.take`). A new grant uses a position of the volume's
    /// journal as its token.
    ///
    /// - Returns: The token; nil if another device has the document.
    func take(
        _ item: Identifier, by asker: GrantRow.Holder, number: UInt64, ended: GrantRow? = nil,
        at time: Int64
    ) throws -> UInt64? {
        guard var row = try row(of: item) else {
            let first = GrantRow(token: try nextToken(at: time), holder: asker, number: number)
            try set(first, of: item)
            return first.token
        }
        let before = row
        let token = try row.take(by: asker, number: number, ended: ended) {
            try nextToken(at: time)
        }
        if row != before { try set(row, of: item) }
        return token
    }

    /// - Returns: Whether the device still has the document.
    func renew(
        _ item: Identifier, _ token: UInt64, by asker: GrantRow.Holder, number: UInt64
    ) throws -> Bool {
        guard var row = try row(of: item), row.renew(token, by: asker, number: number) else {
            return false
        }
        try set(row, of: item)
        return true
    }

    /// - Returns: Whether a new process of the device goes on with its grant.
    func resume(
        _ item: Identifier, _ token: UInt64, by asker: GrantRow.Holder, number: UInt64
    ) throws -> Bool {
        guard var row = try row(of: item), row.resume(token, by: asker, number: number) else {
            return false
        }
        try set(row, of: item)
        return true
    }

    func release(
        _ item: Identifier, _ token: UInt64, by asker: GrantRow.Holder, number: UInt64
    ) throws {
        guard var row = try row(of: item) else { return }
        let before = row
        row.release(token, by: asker, number: number)
        if row != before { try set(row, of: item) }
    }

    /// Ends the grants of an account's devices in the volume, because its role has changed.
    func release(of account: Identifier) throws {
        try transaction.execute(
            """
            UPDATE grants SET held = 0 WHERE volume = $1 AND held = 1
            AND device IN (SELECT id FROM devices WHERE account = $2)
            """, [.id(volume), .id(account)])
    }

    /// Ends the grants of a device that was signed out.
    static func release(of device: Identifier, _ transaction: any LedgerTransaction) throws {
        try transaction.execute(
            "UPDATE grants SET held = 0 WHERE device = $1 AND held = 1", [.id(device)])
    }

    /// Whether an edit may become the current version (`GrantRow.admits`).
    func admits(_ token: UInt64?, of item: Identifier, from device: Identifier) throws -> Bool {
        try row(of: item)?.admits(token, from: device) ?? (token == nil)
    }

    private func nextToken(at time: Int64) throws -> UInt64 {
        let head = try transaction.volume(volume)?.head ?? 0
        try JournalTimes(transaction, volume: volume).advance(after: head, to: head + 1, at: time)
        try transaction.execute(
            "UPDATE volumes SET fence = $1 WHERE id = $2", [.count(head + 1), .id(volume)])
        return head + 1
    }
}

extension LedgerTable {
    /// Whether an operation must not make another version the current one, because another device
    /// has the document. A volume in which no token was given costs nothing.
    mutating func isFenced(
        _ entry: OperationEntry, in volume: VolumeRow, from device: Identifier
    ) throws -> Bool {
        guard entry.change.choosesVersion, volume.fence > 0 || entry.fence != nil else {
            return false
        }
        let grants = GrantTable(transaction, volume: volume.id)
        return try !grants.admits(entry.fence, of: canonical(entry.item), from: device)
    }
}

extension Change {
    /// Whether the change may make another version the current one. A resolution without contents
    /// may, because it can name the current version.
    fileprivate var choosesVersion: Bool {
        if case .resolve = self { true } else { revision != nil }
    }
}
