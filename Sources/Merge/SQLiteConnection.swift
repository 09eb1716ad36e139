import CLinux
import CSQLite

/// Why a merge by rows is not possible.
enum SQLiteFailure: Error, Equatable {
    /// An error of SQLite: its extended result code and its message.
    case fault(Int32, String)
    /// Databases of this kind are not merged. The text is the end of a sentence.
    case refused(String)
    /// These databases do not fit together. The text is the end of a sentence.
    case conflict(String)

    var isConstraint: Bool {
        if case .fault(let code, _) = self { code & 0xff == SQLITE_CONSTRAINT } else { false }
    }
}

/// A database file from another device, which may be hostile. Nothing in its schema runs by itself,
/// no statement runs longer than a deadline, and no value is longer than `Merger.sizeMax`.
final class SQLiteConnection {
    let raw: OpaquePointer
    private var statements: [String: SQLiteStatement] = [:]

    /// The number of virtual machine instructions of SQLite between two checks of the deadline.
    private static let steps: Int32 = 100_000

    /// - Parameter deadline: A time of `cl_clock_monotonic_ns`.
    init(_ path: String, deadline: Int64) throws(SQLiteFailure) {
        var opened: OpaquePointer?
        let code = sqlite3_open_v2(path, &opened, SQLITE_OPEN_READWRITE, nil)
        guard let opened else { throw .fault(code, "out of memory") }
        raw = opened
        sqlite3_extended_result_codes(raw, 1)
        let context = UnsafeMutableRawPointer(bitPattern: Int(deadline))
        sqlite3_progress_handler(
            raw, SQLiteConnection.steps,
            { cl_clock_monotonic_ns() > Int64(Int(bitPattern: $0)) ? 1 : 0 }, context)
        try check(code)
        try check(cs_guard(raw))
        sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, Int32(Merger.sizeMax))
        try run("PRAGMA synchronous = OFF; PRAGMA cell_size_check = ON")
    }

    deinit {
        statements = [:]
        sqlite3_close_v2(raw)
    }

    func check(_ code: Int32) throws(SQLiteFailure) {
        guard code == SQLITE_OK else { throw failure(code) }
    }

    func failure(_ code: Int32) -> SQLiteFailure {
        .fault(code, String(cString: sqlite3_errmsg(raw)))
    }

    /// Runs statements that have no parameters, and ignores their rows.
    func run(_ sql: String) throws(SQLiteFailure) {
        try check(sqlite3_exec(raw, sql, nil, nil, nil))
    }

    /// Runs a statement and returns all of its rows.
    @discardableResult
    func rows(_ sql: String, _ cells: [SQLiteCell] = []) throws(SQLiteFailure) -> [[SQLiteCell]] {
        let statement: SQLiteStatement
        if let known = statements[sql] {
            statement = known
        } else {
            statement = try SQLiteStatement(sql, of: self)
            statements[sql] = statement
        }
        return try statement.rows(cells)
    }

    /// The number of rows that the last statement changed.
    var changes: Int { Int(sqlite3_changes(raw)) }
}

final class SQLiteStatement {
    private let raw: OpaquePointer
    private unowned let connection: SQLiteConnection

    init(_ sql: String, of connection: SQLiteConnection) throws(SQLiteFailure) {
        var prepared: OpaquePointer?
        let code = sqlite3_prepare_v2(connection.raw, sql, -1, &prepared, nil)
        guard let prepared else { throw connection.failure(code) }
        raw = prepared
        self.connection = connection
    }

    deinit { sqlite3_finalize(raw) }

    func rows(_ cells: [SQLiteCell]) throws(SQLiteFailure) -> [[SQLiteCell]] {
        defer { sqlite3_reset(raw) }
        for (index, cell) in cells.enumerated() { try bind(cell, at: Int32(index + 1)) }
        var rows: [[SQLiteCell]] = []
        while true {
            let code = sqlite3_step(raw)
            if code == SQLITE_DONE { return rows }
            guard code == SQLITE_ROW else { throw connection.failure(code) }
            rows.append((0..<sqlite3_column_count(raw)).map { SQLiteCell(column(Int($0))) })
        }
    }

    private func column(_ index: Int) -> OpaquePointer? { sqlite3_column_value(raw, Int32(index)) }

    private func bind(_ cell: SQLiteCell, at index: Int32) throws(SQLiteFailure) {
        let code =
            switch cell {
            case .null: sqlite3_bind_null(raw, index)
            case .integer(let number): sqlite3_bind_int64(raw, index, number)
            case .real(let bits): sqlite3_bind_double(raw, index, Double(bitPattern: bits))
            case .text(let bytes): cs_bind_text(raw, index, bytes, Int32(bytes.count))
            case .blob(let bytes): cs_bind_blob(raw, index, bytes, Int32(bytes.count))
            }
        try connection.check(code)
    }
}

/// One value of a row. Values are equal when they are stored alike, whatever the column's collation
/// is.
enum SQLiteCell: Hashable, Sendable {
    case null
    case integer(Int64)
    /// The bit pattern of a `Double`.
    case real(UInt64)
    case text([UInt8])
    case blob([UInt8])

    init(_ value: OpaquePointer?) {
        switch sqlite3_value_type(value) {
        case SQLITE_INTEGER: self = .integer(sqlite3_value_int64(value))
        case SQLITE_FLOAT: self = .real(sqlite3_value_double(value).bitPattern)
        case SQLITE_TEXT:
            let start = sqlite3_value_text(value)
            let count = Int(sqlite3_value_bytes(value))
            self = .text(Array(UnsafeBufferPointer(start: start, count: count)))
        case SQLITE_BLOB:
            let start = sqlite3_value_blob(value)
            let count = Int(sqlite3_value_bytes(value))
            self = .blob(Array(UnsafeRawBufferPointer(start: start, count: count)))
        default: self = .null
        }
    }

    init(_ text: String) { self = .text(Array(text.utf8)) }

    /// The value of a text; empty for any other type.
    var text: String {
        if case .text(let bytes) = self { String(decoding: bytes, as: UTF8.self) } else { "" }
    }

    /// The value of an integer; 0 for any other type.
    var integer: Int64 { if case .integer(let number) = self { number } else { 0 } }
}

/// A name, quoted for use in SQL.
func quoted(_ name: String) -> String {
    "\"" + name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"")
        + "\""
}
