import Model

/// The relational part of a hub: accounts, devices, items, revisions, and the locations of chunks.
///
/// The SQL is written once for SQLite and for databases with PostgreSQL's dialect: `$1` is the
/// first argument; columns are integers, texts without NUL and bytes; `ON CONFLICT` is used; there
/// are no triggers but those of `ChangeCapture`, no rowid, and no functions except `count`, `sum`,
/// `max`, `min`, `length` and `coalesce`. `LedgerContract` in the tests defines what each
/// implementation must do.
package protocol Ledger: Sendable {
    /// Runs `body` on one consistent snapshot. `body` may run several times, as in `write`.
    ///
    /// - Throws: What `body` throws; `VolumeError` (`.full`, `.busy`, `.damaged`, `.system`, and
    ///   `.offline` if the database cannot be reached).
    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LedgerTransaction) throws -> Result
    ) async throws -> Result

    /// Runs `body` in a write transaction that excludes the others that `scope` says. When this
    /// returns, the transaction survives a loss of power; if `body` throws, it is rolled back.
    ///
    /// `body` may run several times, each time in a new transaction: when two transactions could
    /// not be serialized, when a connection broke, or when a part had to be rolled back alone. So
    /// it must do nothing but use the transaction. Only the last run is kept, and its result
    /// returned.
    ///
    /// - Throws: What `body` throws, and the errors of `read`. After `.offline` the transaction
    ///   was either kept or not.
    func write<Result: Sendable>(
        _ scope: WriteScope, _ body: @escaping @Sendable (any LedgerTransaction) throws -> Result
    ) async throws -> Result

    /// The number of write transactions that can run at the same time.
    var parallelWrites: Int { get }

    /// Returns a number that changes with each transaction of another process that has the scope
    /// `everything`.
    func externalChangeCount() async throws -> Int64

    /// Begins to exchange announcements with the other hubs of the ledger.
    ///
    /// - Parameter isAlone: Whether no other hub may use the ledger.
    /// - Throws: `.busy` if another hub uses it; `.offline`.
    func join(isAlone: Bool) async throws

    /// Tells the other hubs that a volume's journal has this head now. It does not wait. Several
    /// heads of one volume may be told as the highest of them.
    func announce(_ head: UInt64, of volume: Identifier)

    /// Tells the other hubs which documents are open on a device. It does not wait, and only the
    /// last of several messages about a device in a volume may be told. The message has at most
    /// 7,900 bytes, several words and no quotation mark.
    func announce(leases message: String, of device: Identifier, in volume: Identifier)

    /// Tells the other hubs something about the processes of devices. It does not wait. What was
    /// not told when the connection broke is lost, and a gap is told when there is a new one. The
    /// message has at most 7,900 bytes and no quotation mark.
    func announce(processes message: String)

    /// What the other hubs tell. There is only one such stream, and it has one reader.
    var announcements: AsyncStream<Announcement> { get }

    /// Returns one sentence for each fault that the database finds in its own files.
    func integrityFaults() async throws -> [String]

    func close() throws
}

extension Ledger {
    package func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LedgerTransaction) throws -> Result
    ) async throws -> Result {
        try await write(.everything, body)
    }
}

/// What a hub hears from the other hubs of its ledger.
package enum Announcement: Hashable, Sendable {
    /// The volume's journal has this head, or a higher one.
    case head(Identifier, UInt64)
    /// Documents are open on a device that uses the other hub.
    case leases(String)
    /// Something about the processes of devices that use the other hub (`ProcessAnnouncement`).
    case processes(String, hub: Identifier)
    /// From now on announcements arrive. Those before may have been missed.
    case gap
}

/// Which other write transactions may not run at the same time.
package enum WriteScope: Hashable, Sendable {
    /// None may run.
    case everything
    /// No other one of this volume may run. The transaction changes only rows of the volume, and
    /// the usage of its account.
    case volume(Identifier)
    /// All may run but those with the scope `everything`. For single statements that do not depend
    /// on what was read before.
    case nothing
}

/// How a database wants triggers to be written. All other SQL is the same for both.
package enum SQLDialect: Sendable {
    case sqlite, postgres
}

/// Executes SQL within `Ledger.read` and `Ledger.write`, on the thread that runs their body. After
/// a statement has failed, nothing more can be executed, except after a `nested` call around it.
package protocol LedgerTransaction: LedgerStatements {
    /// Identifies the time in which the database cannot have been rolled back: of the process that
    /// opened the ledger, or of the database's server. See `noteRun(of:after:upTo:)`.
    var run: Identifier { get }

    var dialect: SQLDialect { get }
}

/// The statements of a transaction.
package protocol LedgerStatements {
    func rows(_ sql: String, _ arguments: [SQLValue]) throws -> [LedgerRow]

    /// Returns the number of changed rows.
    @discardableResult
    func execute(_ sql: String, _ arguments: [SQLValue]) throws -> Int

    /// Announces reads that will probably be made with exactly these statements, so that a ledger
    /// can make them together. What it has read is forgotten with the next `execute`, and kept as
    /// `executeLater` says.
    func expect(_ reads: [LedgerStatement]) throws

    /// What a read that was announced returns; nil if that is not known.
    func known(_ read: LedgerStatement) -> [LedgerRow]?

    /// Executes a statement, at the latest before the next one that is not executed later.
    ///
    /// - Parameters:
    ///   - count: How many rows it should change, if that matters. If it changes another number
    ///     later, the body runs again.
    ///   - reads: Which announced reads return something else from then on, and what.
    /// - Returns: Whether it has changed that many rows, or will.
    @discardableResult
    func executeLater(
        _ statement: LedgerStatement, changes count: Int?,
        then reads: [LedgerStatement: [LedgerRow]]
    ) throws -> Bool

    /// Runs `body`, and rolls back only its changes if it throws.
    func nested<Result>(_ body: () throws -> Result) throws -> Result
}

extension LedgerStatements {
    package func expect(_ reads: [LedgerStatement]) throws {}

    package func known(_ read: LedgerStatement) -> [LedgerRow]? { nil }

    package func executeLater(
        _ statement: LedgerStatement, changes count: Int?,
        then reads: [LedgerStatement: [LedgerRow]]
    ) throws -> Bool {
        let changed = try execute(statement.sql, statement.arguments)
        return count.map { $0 == changed } ?? true
    }

    /// Executes a statement that changes nothing that was announced.
    package func executeLater(_ sql: String, _ arguments: [SQLValue]) throws {
        try executeLater(LedgerStatement(sql, arguments), changes: nil, then: [:])
    }

    package func rows(_ read: LedgerStatement) throws -> [LedgerRow] {
        try rows(read.sql, read.arguments)
    }

    package func row(_ sql: String, _ arguments: [SQLValue]) throws -> LedgerRow? {
        try rows(sql, arguments).first
    }
}

/// A statement with its arguments.
package struct LedgerStatement: Hashable, Sendable {
    package let sql: String
    package let arguments: [SQLValue]

    package init(_ sql: String, _ arguments: [SQLValue]) {
        self.sql = sql
        self.arguments = arguments
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
