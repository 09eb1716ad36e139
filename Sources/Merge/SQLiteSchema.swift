import CSQLite

/// The parts of a database's schema that a merge by rows needs.
struct SQLiteSchema {
    struct Table: Hashable {
        let name: String
        let columns: [String]
        /// The indices of the columns of the primary key, at least one.
        let key: [Int]

        /// A condition such as `"a" = ? AND "b" = ?`.
        var isRow: String { key.map { "\(quoted(columns[$0])) = ?" }.joined(separator: " AND ") }
        var list: String { columns.map(quoted).joined(separator: ", ") }
        func key(of row: [SQLiteCell]) -> [SQLiteCell] { key.map { row[$0] } }
    }

    /// Sorted by name.
    let tables: [Table]
    /// The SQL of everything in the schema, and `user_version` and `application_id`.
    private let definitions: [[SQLiteCell]]
    let hasLosses: Bool

    /// Reads the schema, without the tables of SQLite and the table of losses.
    init(of connection: SQLiteConnection) throws(SQLiteFailure) {
        let all = try connection.rows(
            """
            SELECT type, name, tbl_name, sql FROM sqlite_schema
            WHERE substr(name, 1, 7) <> 'sqlite_' ORDER BY type, name
            """)
        let own = all.filter { $0[2].text == SQLiteLoss.table }
        hasLosses = !own.isEmpty
        if hasLosses, own.map({ $0[3].text }) != [SQLiteLoss.definition] {
            throw .refused("its table \(SQLiteLoss.table) is not defined as Concord defines it")
        }
        let theirs = all.filter { $0[2].text != SQLiteLoss.table }
        var tables: [Table] = []
        for row in theirs where row[0].text == "table" {
            let name = row[1].text
            if row[3].text.uppercased().hasPrefix("CREATE VIRTUAL") {
                throw .refused("\(name) is a virtual table, which cannot be compared by rows")
            }
            tables.append(try SQLiteSchema.table(name, connection))
        }
        self.tables = tables
        definitions =
            try theirs
            + connection.rows("PRAGMA user_version") + connection.rows("PRAGMA application_id")
    }

    /// How the schemas differ: the end of a sentence. Nil when they are equal.
    static func difference(_ schemas: [SQLiteSchema]) -> String? {
        let all = schemas.map(\.definitions)
        guard Set(all).count > 1 else { return nil }
        let odd = Set(all.flatMap(\.self)).filter { row in !all.allSatisfy { $0.contains(row) } }
        let names = Set(odd.compactMap { $0.count > 1 ? $0[1].text : nil }).sorted()
        guard let first = names.first else {
            return "user_version or application_id differs between the versions, so a program has "
                + "converted one of them"
        }
        return "the versions do not have the same schema: \(first) differs"
    }

    static func table(_ name: String, _ connection: SQLiteConnection) throws(SQLiteFailure)
        -> Table
    {
        // The columns are: name, position in the primary key, and kind of column.
        let info = try connection.rows(
            "SELECT name, pk, hidden FROM pragma_table_xinfo(?) ORDER BY cid", [SQLiteCell(name)])
        if let column = info.first(where: { $0[2].integer != 0 }) {
            throw .refused("\(column[0].text) of \(name) is a generated column")
        }
        let key = info.indices.filter { info[$0][1].integer > 0 }.sorted {
            info[$0][1].integer < info[$1][1].integer
        }
        guard !key.isEmpty else {
            throw .refused("\(name) declares no primary key, which is needed to identify its rows")
        }
        let table = Table(name: name, columns: info.map { $0[0].text }, key: key)
        for column in key.map({ table.columns[$0] }) {
            var collation: UnsafePointer<CChar>?
            try connection.check(
                sqlite3_table_column_metadata(
                    connection.raw, "main", name, column, nil, &collation, nil, nil, nil))
            guard collation.map({ String(cString: $0) }) == "BINARY" else {
                throw .refused("\(column), of the primary key of \(name), is not compared by bytes")
            }
        }
        let isNull = key.map { "\(quoted(table.columns[$0])) IS NULL" }.joined(separator: " OR ")
        guard
            try connection.rows("SELECT 1 FROM \(quoted(name)) WHERE \(isNull) LIMIT 1").isEmpty
        else { throw .refused("\(name) has a row with NULL in its primary key") }
        return table
    }
}
