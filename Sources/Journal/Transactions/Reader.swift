internal import GRDB
internal import GRDBSQLite
import Model

/// A consistent snapshot of the journal. It is valid only inside the closure that it is passed to.
///
/// Statements are prepared once for each connection and are bound and stepped by SQLite's own
/// functions. With GRDB's boxed arguments a row costs about twice as much, and the recorder writes
/// thousands of rows in a transaction.
package class Reader {
    let path: String
    private let database: Database
    private let connection: OpaquePointer
    /// Set when the closure has returned, or when SQLite has rolled back the whole transaction by
    /// itself.
    private var end: VolumeError?
    private(set) var rowCount = 0
    private(set) var statementCount = 0
    let directories = DirectoryPaths()

    init(_ database: Database, path: String) throws(VolumeError) {
        guard let connection = database.sqliteConnection else {
            throw VolumeError(.invalid, "The journal \(path) has been closed.")
        }
        self.database = database
        self.connection = connection
        self.path = path
    }

    /// The error that ended the transaction early.
    var failure: VolumeError? { end }

    func close() {
        end = VolumeError(.invalid, "A transaction of the journal \(path) was used after its end.")
    }

    var lastInsertedKey: Int64 { sqlite3_last_insert_rowid(connection) }
    var changeCount: Int { Int(sqlite3_changes(connection)) }
    /// Grows with each row that this connection inserts, updates or deletes.
    package var totalChanges: Int { Int(sqlite3_total_changes64(connection)) }

    func run(_ sql: String, _ values: [Value]) throws(VolumeError) {
        _ = try rows(sql, values, atMost: .max) { (_) throws(VolumeError) in () }
    }

    func first<T>(
        _ sql: String, _ values: [Value], _ decode: (Columns) throws(VolumeError) -> T
    ) throws(VolumeError) -> T? {
        try rows(sql, values, atMost: 1, decode).first
    }

    func all<T>(
        _ sql: String, _ values: [Value], _ decode: (Columns) throws(VolumeError) -> T
    ) throws(VolumeError) -> [T] {
        try rows(sql, values, atMost: .max, decode)
    }

    /// Calls `body` with every row in the order of a cursor. It reads page by page and keeps no
    /// statement open in between, so `body` may read and write. `sql` must end with a LIMIT
    /// parameter, which is bound here.
    func forEachPage<T>(
        _ sql: String, _ values: [Value], from first: Value, cursor: (T) -> Value,
        _ decode: (Columns) throws(VolumeError) -> T, _ body: (T) throws -> Void
    ) throws {
        let limit = 512
        var position = first
        while true {
            let page = try all(sql, values + [position, .integer(Int64(limit))], decode)
            for row in page { try body(row) }
            guard page.count == limit, let last = page.last else { return }
            position = cursor(last)
        }
    }

    private func rows<T>(
        _ sql: String, _ values: [Value], atMost limit: Int,
        _ decode: (Columns) throws(VolumeError) -> T
    ) throws(VolumeError) -> [T] {
        if let end { throw end }
        let statement = try prepared(sql)
        defer {
            sqlite3_reset(statement)
            sqlite3_clear_bindings(statement)
        }
        for (index, value) in values.enumerated() {
            try check(value.bind(to: statement, at: Int32(index + 1)))
        }
        let columns = Columns(statement: statement, path: path)
        var result: [T] = []
        while result.count < limit {
            let code = sqlite3_step(statement)
            if code == SQLITE_DONE { break }
            guard code == SQLITE_ROW else { throw failed(code) }
            result.append(try decode(columns))
        }
        rowCount += result.count
        statementCount += 1
        return result
    }

    private func prepared(_ sql: String) throws(VolumeError) -> OpaquePointer {
        do {
            return try database.cachedStatement(sql: sql).sqliteStatement
        } catch {
            throw VolumeError(error, journal: path, in: database)
        }
    }

    private func check(_ code: Int32) throws(VolumeError) {
        guard code == SQLITE_OK else { throw failed(code) }
    }

    private func failed(_ code: Int32) -> VolumeError {
        let error = VolumeError(
            result: code, systemError: sqlite3_system_errno(connection),
            detail: String(cString: sqlite3_errmsg(connection)), journal: path)
        // SQLite itself rolls back after some errors, for example when the disk is full. Without
        // this check each later statement would be committed by itself.
        if sqlite3_get_autocommit(connection) != 0 { end = error }
        return error
    }
}

/// The paths of directories that were looked up since the journal last changed. The items that are
/// read in one transaction are often in the same directories.
final class DirectoryPaths {
    private var changes = -1
    private var paths: [Int64: [Name]] = [:]

    /// - Parameter changes: `Reader.totalChanges` now.
    func path(of directory: Int64, at changes: Int) -> [Name]? {
        changes == self.changes ? paths[directory] : nil
    }

    func set(_ path: [Name], of directory: Int64, at changes: Int) {
        if changes != self.changes || paths.count > 10_000 {
            paths = [:]
            self.changes = changes
        }
        paths[directory] = path
    }
}
