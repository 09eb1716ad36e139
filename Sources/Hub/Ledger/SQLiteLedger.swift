import GRDB
import Model

/// A ledger in one SQLite file, which several processes may open at the same time.
package final class SQLiteLedger: Ledger {
    package let path: String
    private let pool: DatabasePool
    private let run = Identifier.random()

    /// Opens the ledger, or creates it if it does not exist and `mayCreate` is true.
    ///
    /// - Throws: `.notFound`, `.damaged` (the file is not a ledger), `.newer`, `.full`, `.denied`.
    package init(path: String, mayCreate: Bool) throws(VolumeError) {
        self.path = path
        do {
            pool = try DatabasePool(path: path, configuration: Self.configuration)
            try pool.writeWithoutTransaction { database in
                // This must not be in `prepareDatabase`: the pool sets NORMAL on its writer
                // afterwards, and then a loss of power may undo transactions that were answered.
                try database.execute(sql: "PRAGMA synchronous = FULL")
                try Self.migrate(database, path: path, mayCreate: mayCreate)
            }
        } catch {
            throw VolumeError(error, ledger: path)
        }
    }

    private static var configuration: Configuration {
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        configuration.maximumReaderCount = 4
        configuration.prepareDatabase { database in
            try database.execute(
                sql: """
                    PRAGMA cell_size_check = ON;
                    PRAGMA temp_store = MEMORY;
                    PRAGMA trusted_schema = OFF;
                    PRAGMA mmap_size = 0;
                    PRAGMA wal_autocheckpoint = 4000;
                    PRAGMA journal_size_limit = 67108864;
                    """)
        }
        return configuration
    }

    private static func migrate(_ database: Database, path: String, mayCreate: Bool) throws {
        try database.inTransaction(.immediate) {
            let application = try Int32.fetchOne(database, sql: "PRAGMA application_id") ?? 0
            let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
            let tables = try Int.fetchOne(database, sql: "SELECT count(*) FROM sqlite_schema") ?? 0
            guard tables == 0 || application == LedgerSchema.applicationID else {
                throw VolumeError(.damaged, "\(path) belongs to another program.")
            }
            guard tables > 0 || mayCreate else {
                throw VolumeError(.notFound, "There is no hub's ledger at \(path).")
            }
            guard version <= LedgerSchema.steps.count else {
                throw VolumeError(
                    .newer, "\(path) was written by a newer version of concord: use that version.")
            }
            if version < LedgerSchema.steps.count { try database.execute(sql: ChangeCapture.end) }
            for step in LedgerSchema.steps[version...] {
                try database.execute(sql: LedgerSchema.sqlite(step))
            }
            if version < LedgerSchema.steps.count {
                try database.execute(
                    sql: """
                        PRAGMA application_id = \(LedgerSchema.applicationID);
                        PRAGMA user_version = \(LedgerSchema.steps.count);
                        """)
            }
            return .commit
        }
    }

    package func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LedgerTransaction) throws -> Result
    ) async throws -> Result {
        do {
            return try await pool.read { [run] in
                try body(SQLiteTransaction(database: $0, run: run))
            }
        } catch let error as DatabaseError {
            throw VolumeError(error, ledger: path)
        }
    }

    /// Runs `body` on one consistent snapshot, and blocks the calling thread.
    func snapshot<Result>(
        _ body: (any LedgerTransaction) throws -> Result
    ) throws(VolumeError) -> Result {
        do {
            return try pool.read { try body(SQLiteTransaction(database: $0, run: run)) }
        } catch {
            throw VolumeError(error, ledger: path)
        }
    }

    /// SQLite has one writer, so each write transaction excludes all others.
    package func write<Result: Sendable>(
        _ scope: WriteScope, _ body: @escaping @Sendable (any LedgerTransaction) throws -> Result
    ) async throws -> Result {
        do {
            // The transaction is immediate, because SQLite cannot upgrade a read transaction to a
            // write transaction after another process has written.
            return try await pool.writeWithoutTransaction { [run] database in
                var result: Result?
                try database.inTransaction(.immediate) {
                    result = try body(SQLiteTransaction(database: database, run: run))
                    return .commit
                }
                return result!
            }
        } catch let error as DatabaseError {
            throw VolumeError(error, ledger: path)
        }
    }

    package let parallelWrites = 1

    /// A hub has the lock on its directory, so there are no others.
    package func join(isAlone: Bool) {}

    package func announce(_ head: UInt64, of volume: Identifier) {}

    package func announce(leases message: String, of device: Identifier, in volume: Identifier) {}

    package func announce(processes message: String) {}

    package var announcements: AsyncStream<Announcement> { AsyncStream { $0.finish() } }

    package func externalChangeCount() async throws -> Int64 {
        do {
            return try await pool.writeWithoutTransaction {
                try Int64.fetchOne($0, sql: "PRAGMA data_version") ?? 0
            }
        } catch {
            throw VolumeError(error, ledger: path)
        }
    }

    /// Writes a consistent copy as a single file, while other transactions continue.
    package func copy(to path: String) throws(VolumeError) {
        do {
            try pool.writeWithoutTransaction {
                try $0.execute(sql: "VACUUM INTO ?", arguments: [path])
            }
        } catch {
            throw VolumeError(error, ledger: path)
        }
    }

    /// Runs SQLite's integrity check on all pages. Returns one sentence for each fault.
    package func integrityFaults() throws(VolumeError) -> [String] {
        do {
            let lines = try pool.read { try String.fetchAll($0, sql: "PRAGMA integrity_check") }
            return lines == ["ok"] ? [] : lines.map { "The ledger \(path): \($0)." }
        } catch {
            throw VolumeError(error, ledger: path)
        }
    }

    package func close() throws {
        // The write-ahead log stays as a file. It is truncated so that SQLite cannot take it for
        // the log of an older ledger that is restored to this path. This does not wait for others
        // that read, because all writers would have to wait, too: the last one truncates it.
        _ = try? pool.writeWithoutTransaction { database in
            try database.execute(sql: "PRAGMA busy_timeout = 0")
            try database.checkpoint(.truncate)
        }
        try pool.close()
    }
}

private struct SQLiteTransaction: LedgerTransaction {
    let database: Database
    let run: Identifier
    let dialect = SQLDialect.sqlite

    func rows(_ sql: String, _ arguments: [SQLValue]) throws -> [LedgerRow] {
        let statement = try statement(sql)
        let cursor = try Row.fetchCursor(statement, arguments: bound(arguments))
        var rows: [LedgerRow] = []
        while let row = try cursor.next() {
            rows.append(LedgerRow(row.databaseValues.map(SQLValue.init)))
        }
        return rows
    }

    @discardableResult
    func execute(_ sql: String, _ arguments: [SQLValue]) throws -> Int {
        let statement = try statement(sql)
        try statement.execute(arguments: bound(arguments))
        return database.changesCount
    }

    func nested<Result>(_ body: () throws -> Result) throws -> Result {
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

    /// SQLite treats `$2` as a name and numbers it by its first occurrence; `?2` is the second
    /// argument.
    private func statement(_ sql: String) throws -> Statement {
        let numbered = String(unsafeUninitializedCapacity: sql.utf8.count) { buffer in
            var end = 0
            for byte in sql.utf8 {
                buffer[end] = byte == UInt8(ascii: "$") ? UInt8(ascii: "?") : byte
                end += 1
            }
            return end
        }
        return try database.cachedStatement(sql: numbered)
    }

    /// As existentials, because for an array of one type GRDB makes a key path at each call.
    private func bound(_ arguments: [SQLValue]) -> StatementArguments {
        StatementArguments(arguments.map { $0.databaseValue as (any DatabaseValueConvertible)? })
    }
}

extension SQLValue {
    fileprivate init(_ value: DatabaseValue) {
        switch value.storage {
        case .null: self = .null
        case .int64(let value): self = .integer(value)
        case .double(let value): self = .integer(Int64(value))
        case .string(let value): self = .text(value)
        case .blob(let data): self = .bytes([UInt8](data))
        }
    }

    fileprivate var databaseValue: DatabaseValue {
        switch self {
        case .null: .null
        case .integer(let value): value.databaseValue
        case .text(let value): value.databaseValue
        case .bytes(let bytes): blob(bytes)
        }
    }
}

extension VolumeError {
    /// Converts an error of GRDB; other errors stay as they are.
    init(_ error: any Error, ledger path: String) {
        guard let error = error as? DatabaseError else {
            self =
                error as? VolumeError
                ?? VolumeError(.system, "The ledger \(path) cannot be used: \(error).")
            return
        }
        let detail = error.message ?? "no reason given"
        switch error.resultCode {
        case .SQLITE_FULL:
            self.init(.full, "The disk of the ledger \(path) is full: make room, and try again.")
        case .SQLITE_CONSTRAINT where error.extendedResultCode == .SQLITE_CONSTRAINT_TRIGGER:
            self.init(.busy, "The ledger \(path) refuses changes: \(detail).")
        case .SQLITE_BUSY, .SQLITE_LOCKED:
            self.init(.busy, "Another process is using the ledger \(path): try again.")
        case .SQLITE_CORRUPT, .SQLITE_NOTADB:
            self.init(
                .damaged, "The ledger \(path) is damaged (\(detail)): restore a backup.")
        case .SQLITE_PERM, .SQLITE_AUTH, .SQLITE_READONLY:
            self.init(.denied, "The ledger \(path) cannot be written: this user has no permission.")
        case .SQLITE_CANTOPEN:
            self.init(.notFound, "The ledger \(path) cannot be opened: check the directory.")
        case .SQLITE_IOERR where isOutOfSpace(path):
            self.init(.full, "The disk of the ledger \(path) is full: make room, and try again.")
        default:
            self.init(.system, "The ledger \(path) failed: \(detail) (\(error.resultCode)).")
        }
    }
}
