import Model

/// Copies all rows of a ledger into another one. The rows are read in one snapshot, page after
/// page, so the memory that this needs does not depend on their number. What changes after the
/// snapshot is copied by `LedgerCopy+Changes`.
struct LedgerCopy: Sendable {
    let source: any Ledger
    let target: any Ledger

    /// The largest number of rows and of bytes in a page. A single row may have more bytes.
    private static let pageRows: Int64 = 1_000
    private static let pageBytes = 4 << 20

    /// Rows of one or several tables in the order of a key.
    struct Query {
        let columns: String
        /// The number of bytes of a row.
        let size: String
        let tables: String
        let key: String
    }

    /// What belongs to a place and not to the hub: where the blobs are, and what commands ask the
    /// hub that runs there.
    private static let omitted: Set = ["packs", "staged", "errands", "moves"]

    static func tables() throws -> [TableLayout] {
        try TableLayout.all().filter { !omitted.contains($0.name) }
    }

    /// Replaces the rows of the target by those of the source.
    ///
    /// - Returns: The number of rows.
    func run(progress: @escaping @Sendable (_ rows: Int) -> Void = { _ in }) async throws -> Int {
        let tables = try Self.tables()
        return try await source.read { [self] transaction in
            // The body may run again, with another snapshot.
            try write { target in
                for table in tables { try clear(table, target) }
            }
            var rows = 0
            for table in tables { rows += try copy(table, transaction, from: rows, progress) }
            return rows
        }
    }

    /// The body of a transaction of the source runs on a thread that may wait.
    func write(
        _ body: @escaping @Sendable (any LedgerTransaction) throws -> Void
    ) throws {
        let target = self.target
        try BlockingCall.wait { try await target.write(body) }
    }

    private func clear(_ table: TableLayout, _ target: any LedgerTransaction) throws {
        guard table.name == "facts" else {
            try target.execute("DELETE FROM \(table.name)", [])
            return
        }
        try target.execute("DELETE FROM facts WHERE name <> $1", [.text(Fact.newestPack)])
    }

    private func copy(
        _ table: TableLayout, _ source: any LedgerTransaction, from start: Int,
        _ progress: (_ rows: Int) -> Void
    ) throws -> Int {
        var (rows, last) = (0, [SQLValue]())
        while true {
            let page = try Self.page(table.query, after: last, source)
            guard let end = page.last else { return rows }
            let kept = page.filter {
                table.name != "facts" || $0[table.key[0]] != .text(Fact.newestPack)
            }
            try write { try insert(kept, into: table, $0) }
            rows += page.count
            last = table.key.map { end[$0] }
            progress(start + rows)
        }
    }

    static func page(
        _ query: Query, after last: [SQLValue], _ source: any LedgerTransaction
    ) throws -> [LedgerRow] {
        let marks = last.indices.map { "$\($0 + 1)" }.joined(separator: ", ")
        let condition = last.isEmpty ? "" : "WHERE (\(query.key)) > (\(marks))"
        let end =
            "FROM \(query.tables) \(condition) ORDER BY \(query.key) LIMIT $\(last.count + 1)"
        // The lengths first, because a thousand rows may be too long to hold.
        let sizes = try source.rows("SELECT \(query.size) \(end)", last + [.integer(pageRows)])
        var (count, bytes) = (Int64(0), 0)
        for row in sizes {
            bytes += Int(try row.integer(0))
            if count > 0, bytes > pageBytes { break }
            count += 1
        }
        guard count > 0 else { return [] }
        return try source.rows("SELECT \(query.columns) \(end)", last + [.integer(count)])
    }

    /// A statement concerns so many rows: with two numbers, few statements have to be prepared.
    private static let rowsTogether = [32, 1]

    static func inGroups<Element>(
        _ elements: [Element], _ body: (ArraySlice<Element>) throws -> Void
    ) rethrows {
        var rest = elements[...]
        for count in rowsTogether {
            while rest.count >= count {
                try body(rest.prefix(count))
                rest = rest.dropFirst(count)
            }
        }
    }

    /// Rows that are null in the same columns are inserted together, because an argument that is
    /// null makes another statement of the same SQL.
    func insert(
        _ rows: [LedgerRow], into table: TableLayout, _ target: any LedgerTransaction
    ) throws {
        let nullable = table.columns.indices.filter { table.columns[$0].isNullable }
        for group in Dictionary(grouping: rows, by: { row in nullable.map { row.isNull($0) } })
            .values
        {
            try Self.inGroups(group) { try insert(together: $0, into: table, target) }
        }
    }

    private func insert(
        together rows: ArraySlice<LedgerRow>, into table: TableLayout,
        _ target: any LedgerTransaction
    ) throws {
        let values = Self.marks(rows: rows.count, width: table.columns.count)
        try target.execute(
            "INSERT INTO \(table.name) (\(table.list)) VALUES \(values)",
            rows.flatMap { row in table.columns.indices.map { row[$0] } })
    }

    /// Returns the arguments of so many rows.
    static func marks(rows: Int, width: Int) -> String {
        (0..<rows).map { row in
            "(" + (1...width).map { "$\(row * width + $0)" }.joined(separator: ", ") + ")"
        }.joined(separator: ", ")
    }
}

extension TableLayout {
    fileprivate var query: LedgerCopy.Query {
        LedgerCopy.Query(columns: list, size: size, tables: name, key: keyList)
    }
}
