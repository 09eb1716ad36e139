import GRDB

/// The columns of a table that the steps of `LedgerSchema` create.
struct TableLayout: Hashable, Sendable {
    struct Column: Hashable, Sendable {
        let name: String
        let isNullable: Bool
        /// Whether values may be long.
        let isText: Bool
    }

    let name: String
    let columns: [Column]
    /// The places in `columns` of those of the primary key, in its order.
    let key: [Int]
    /// The places in `columns` of what must differ in all rows, besides the primary key.
    let uniques: [[Int]]

    /// All tables, as SQLite describes them after all steps. So a table or a column that a new step
    /// adds is part of each copy.
    static func all() throws -> [TableLayout] {
        let database = try DatabaseQueue()
        defer { try? database.close() }
        return try database.write { database in
            for step in LedgerSchema.steps {
                try database.execute(sql: LedgerSchema.sqlite(step))
            }
            let names = try String.fetchAll(
                database, sql: "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
            return try names.map { try TableLayout($0, database) }
        }
    }

    private init(_ name: String, _ database: Database) throws {
        self.name = name
        let rows = try Row.fetchAll(database, sql: "PRAGMA table_info(\(name))")
        columns = rows.map { row in
            Column(
                name: row["name"], isNullable: row["notnull"] == 0 && row["pk"] == 0,
                isText: row["type"] != "INTEGER")
        }
        let places = rows.map { row -> Int in row["pk"] }
        key = places.indices.filter { places[$0] > 0 }.sorted { places[$0] < places[$1] }
        let indexes = try Row.fetchAll(database, sql: "PRAGMA index_list(\(name))")
        uniques = try indexes.filter { $0["unique"] == 1 && $0["origin"] != "pk" }.map { index in
            let index: String = index["name"]
            return try Row.fetchAll(database, sql: "PRAGMA index_info(\(index))").map { $0["cid"] }
        }
    }

    var list: String { columns.map(\.name).joined(separator: ", ") }

    /// The columns with the table's name, for statements in which another table has some of them.
    var qualifiedList: String { columns.map { "\(name).\($0.name)" }.joined(separator: ", ") }

    var keyNames: [String] { key.map { columns[$0].name } }

    var keyList: String { keyNames.joined(separator: ", ") }

    /// The number of bytes or characters of a row.
    var size: String {
        let parts = columns.filter(\.isText).map { "coalesce(length(\(name).\($0.name)), 0)" }
        return (["0"] + parts).joined(separator: " + ")
    }
}
