import CSQLite

/// A change of a row on one side.
enum SQLiteChange {
    case insert([SQLiteCell])
    /// Nil stands for a column that did not change. The columns of the key are always present.
    case update(old: [SQLiteCell?], new: [SQLiteCell?])
    case delete([SQLiteCell])
}

extension SQLiteConnection {
    /// The changes that turn the database file `base` into the database of this connection.
    ///
    /// SQLite's session extension compares the two with each column's collation. `cs_compare_bytes`
    /// makes it compare bytes, so that a change of only upper and lower case is not lost.
    func changes(since base: String, in tables: [SQLiteSchema.Table]) throws(SQLiteFailure)
        -> [(SQLiteSchema.Table, [SQLiteChange])]
    {
        try check(cs_compare_bytes(raw))
        try rows("ATTACH ? AS base", [SQLiteCell(base)])
        var result: [(SQLiteSchema.Table, [SQLiteChange])] = []
        for table in tables { result.append((table, try changes(in: table))) }
        return result
    }

    private func changes(in table: SQLiteSchema.Table) throws(SQLiteFailure) -> [SQLiteChange] {
        var session: OpaquePointer?
        try check(sqlite3session_create(raw, "main", &session))
        defer { sqlite3session_delete(session) }
        try check(sqlite3session_attach(session, table.name))
        var complaint: UnsafeMutablePointer<CChar>?
        defer { sqlite3_free(complaint) }
        let compared = sqlite3session_diff(session, "base", table.name, &complaint)
        guard compared == SQLITE_OK else {
            throw complaint.map { SQLiteFailure.fault(compared, String(cString: $0)) }
                ?? failure(compared)
        }
        var count: Int32 = 0
        var bytes: UnsafeMutableRawPointer?
        try check(sqlite3session_changeset(session, &count, &bytes))
        defer { sqlite3_free(bytes) }
        var iterator: OpaquePointer?
        try check(sqlite3changeset_start(&iterator, count, bytes))
        defer { sqlite3changeset_finalize(iterator) }
        var changes: [SQLiteChange] = []
        while true {
            let code = sqlite3changeset_next(iterator)
            if code == SQLITE_DONE { return changes }
            guard code == SQLITE_ROW else { throw failure(code) }
            changes.append(try change(at: iterator))
        }
    }

    private func change(at iterator: OpaquePointer?) throws(SQLiteFailure) -> SQLiteChange {
        var (width, operation): (Int32, Int32) = (0, 0)
        var name: UnsafePointer<CChar>?
        try check(sqlite3changeset_op(iterator, &name, &width, &operation, nil))
        func cells(
            _ value: (OpaquePointer?, Int32, UnsafeMutablePointer<OpaquePointer?>) -> Int32
        ) throws(SQLiteFailure) -> [SQLiteCell?] {
            var cells: [SQLiteCell?] = []
            for column in 0..<width {
                var found: OpaquePointer?
                try check(value(iterator, column, &found))
                cells.append(found.map { SQLiteCell($0) })
            }
            return cells
        }
        switch operation {
        case SQLITE_INSERT:
            return .insert(try cells { sqlite3changeset_new($0, $1, $2) }.map { $0 ?? .null })
        case SQLITE_DELETE:
            return .delete(try cells { sqlite3changeset_old($0, $1, $2) }.map { $0 ?? .null })
        default:
            return .update(
                old: try cells { sqlite3changeset_old($0, $1, $2) },
                new: try cells { sqlite3changeset_new($0, $1, $2) })
        }
    }
}
