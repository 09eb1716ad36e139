import Model

/// Copies all rows of a ledger into another one. The rows are read in one snapshot, page after
/// page, so the memory that this needs does not depend on their number.
struct LedgerCopy: Sendable {
    let source: any Ledger
    let target: any Ledger

    /// The largest number of rows and of bytes in a page. A single row may have more bytes.
    private static let pageRows: Int64 = 1_000
    private static let pageBytes = 4 << 20

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
    private func write(
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
            let page = try page(of: table, after: last, source)
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

    private func page(
        of table: TableLayout, after last: [SQLValue], _ source: any LedgerTransaction
    ) throws -> [LedgerRow] {
        let marks = last.indices.map { "$\($0 + 1)" }.joined(separator: ", ")
        let condition = last.isEmpty ? "" : "WHERE (\(table.keyList)) > (\(marks))"
        let end =
            "FROM \(table.name) \(condition) ORDER BY \(table.keyList) LIMIT $\(last.count + 1)"
        // The lengths first, because a thousand rows may be too long to hold.
        let sizes = try source.rows("SELECT \(table.size) \(end)", last + [.integer(Self.pageRows)])
        var (count, bytes) = (Int64(0), 0)
        for row in sizes {
            bytes += Int(try row.integer(0))
            if count > 0, bytes > Self.pageBytes { break }
            count += 1
        }
        guard count > 0 else { return [] }
        return try source.rows("SELECT \(table.list) \(end)", last + [.integer(count)])
    }

    /// A statement inserts so many rows: with only two numbers, few statements have to be prepared.
    private static let rowsTogether = [32, 1]

    /// Rows that are null in the same columns are inserted together, because an argument that is
    /// null makes another statement of the same SQL.
    private func insert(
        _ rows: [LedgerRow], into table: TableLayout, _ target: any LedgerTransaction
    ) throws {
        let nullable = table.columns.indices.filter { table.columns[$0].isNullable }
        for group in Dictionary(grouping: rows, by: { row in nullable.map { row.isNull($0) } })
            .values
        {
            var rest = group[...]
            for count in Self.rowsTogether {
                while rest.count >= count {
                    try insert(together: rest.prefix(count), into: table, target)
                    rest = rest.dropFirst(count)
                }
            }
        }
    }

    private func insert(
        together rows: ArraySlice<LedgerRow>, into table: TableLayout,
        _ target: any LedgerTransaction
    ) throws {
        let width = table.columns.count
        let values = (0..<rows.count).map { row in
            "(" + (1...width).map { "$\(row * width + $0)" }.joined(separator: ", ") + ")"
        }
        try target.execute(
            "INSERT INTO \(table.name) (\(table.list)) VALUES \(values.joined(separator: ", "))",
            rows.flatMap { row in table.columns.indices.map { row[$0] } })
    }
}
