import Model

/// The relational part of a hub: accounts, devices, items, revisions, and the locations of chunks.
///
/// The SQL is written once for SQLite and for databases with PostgreSQL's dialect: `$1` is the
/// first argument; columns are integers, texts and bytes; `ON CONFLICT` is used; there are no
/// triggers, no rowid, and no functions except `count`, `sum`, `max`, `min`, `length` and
/// `coalesce`. `LedgerContract` in the tests defines what each implementation must do.
package protocol Ledger: Sendable {
    /// Runs `body` on one consistent snapshot.
    ///
    /// - Throws: What `body` throws; `VolumeError` (`.full`, `.busy`, `.damaged`, `.system`).
    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LedgerTransaction) throws -> Result
    ) async throws -> Result

    /// Runs `body` in a write transaction that excludes all others. When this returns, the
    /// transaction survives a loss of power; if `body` throws, it is rolled back.
    func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LedgerTransaction) throws -> Result
    ) async throws -> Result

    /// Returns a number that changes with each transaction of another process.
    func externalChangeCount() async throws -> Int64

    func close() throws
}

/// Executes SQL within `Ledger.read` and `Ledger.write`, on the thread that runs their body.
package protocol LedgerTransaction {
    func rows(_ sql: String, _ arguments: [SQLValue]) throws -> [LedgerRow]

    /// Returns the number of changed rows.
    @discardableResult
    func execute(_ sql: String, _ arguments: [SQLValue]) throws -> Int
}

extension LedgerTransaction {
    package func row(_ sql: String, _ arguments: [SQLValue]) throws -> LedgerRow? {
        try rows(sql, arguments).first
    }

    /// Runs `body` in a savepoint, and rolls back only its changes if it throws.
    package func nested<Result>(_ body: () throws -> Result) throws -> Result {
        try execute("SAVEPOINT nested", [])
        do {
            let result = try body()
            try execute("RELEASE SAVEPOINT nested", [])
            return result
        } catch {
            // After an error such as a full disk, SQLite may have rolled back the whole
            // transaction, and the savepoint no longer exists.
            _ = try? execute("ROLLBACK TO SAVEPOINT nested", [])
            _ = try? execute("RELEASE SAVEPOINT nested", [])
            throw error
        }
    }
}

package enum SQLValue: Hashable, Sendable {
    case null
    case integer(Int64)
    case text(String)
    case bytes([UInt8])

    package static func count(_ value: UInt64) -> SQLValue { .integer(Int64(clamping: value)) }
    package static func id(_ id: Identifier) -> SQLValue { .bytes(id.bytes) }
    package static func digest(_ digest: Digest) -> SQLValue { .bytes(digest.bytes) }
    package static func integer(_ value: Int64?) -> SQLValue { value.map { .integer($0) } ?? .null }
}

package struct LedgerRow: Hashable, Sendable {
    private let values: [SQLValue]

    package init(_ values: [SQLValue]) { self.values = values }

    package subscript(_ column: Int) -> SQLValue { values[column] }

    package func isNull(_ column: Int) -> Bool { values[column] == .null }

    package func integer(_ column: Int) throws -> Int64 {
        guard case .integer(let value) = values[column] else { throw fault(column) }
        return value
    }

    package func count(_ column: Int) throws -> UInt64 {
        UInt64(clamping: try integer(column))
    }

    package func text(_ column: Int) throws -> String {
        guard case .text(let value) = values[column] else { throw fault(column) }
        return value
    }

    package func bytes(_ column: Int) throws -> [UInt8] {
        guard case .bytes(let value) = values[column] else { throw fault(column) }
        return value
    }

    package func id(_ column: Int) throws -> Identifier {
        guard let id = Identifier(bytes: try bytes(column)) else { throw fault(column) }
        return id
    }

    package func digest(_ column: Int) throws -> Digest {
        guard let digest = Digest(bytes: try bytes(column)) else { throw fault(column) }
        return digest
    }

    private func fault(_ column: Int) -> VolumeError {
        VolumeError(
            .damaged,
            "A row of the hub's ledger has a wrong type in column \(column): "
                + "run concord hub check, and restore a backup.")
    }
}
