import Model

/// Notes which rows of a ledger change while it is copied: triggers write the keys of the rows of
/// each table T that are inserted, changed or deleted into `changed_T`.
///
/// The triggers also refuse each change while the move is `frozen`, and after it has `left`. So the
/// check belongs to the transaction that would change something, whoever makes it, and nothing is
/// acknowledged that was not copied. They stay in a ledger that was left, until the move is undone,
/// because a hub may still be about to commit there.
package struct ChangeCapture: Sendable {
    /// It is in the table `capture`, so a move notices that a later one has taken its place.
    private let id = Identifier.random()
    let tables: [TableLayout]

    init() throws { tables = try LedgerCopy.tables() }

    /// Begins to note changes. What an earlier capture has noted is forgotten.
    func install(in transaction: any LedgerTransaction) throws {
        try Self.remove(from: transaction)
        try transaction.execute("CREATE TABLE capture AS SELECT id FROM moves WHERE 1 = 0", [])
        try transaction.execute("INSERT INTO capture (id) VALUES ($1)", [.id(id)])
        for table in tables {
            try transaction.execute(
                """
                CREATE TABLE \(table.changed) AS
                SELECT \(table.keyList) FROM \(table.name) WHERE 1 = 0
                """, [])
            try transaction.execute(
                """
                CREATE UNIQUE INDEX \(table.changed)_key ON \(table.changed) (\(table.keyList))
                """, [])
            for statement in table.triggers(in: transaction.dialect) {
                try transaction.execute(statement, [])
            }
        }
    }

    /// Removes the triggers and their tables, if there are any.
    static func remove(from transaction: any LedgerTransaction) throws {
        try transaction.execute(end, [])
        for table in try LedgerCopy.tables() {
            for statement in table.triggerRemovals(in: transaction.dialect) {
                try transaction.execute(statement, [])
            }
            try transaction.execute("DROP TABLE IF EXISTS \(table.changed)", [])
        }
    }

    /// Ends a capture, so the move that installed it fails. A new version of the hub does this when
    /// it changes the tables.
    package static let end = "DROP TABLE IF EXISTS capture"

    /// - Throws: `.busy` if another move has begun meanwhile.
    func check(_ transaction: any LedgerTransaction) throws {
        guard try transaction.row("SELECT id FROM capture", [])?.id(0) == id else {
            throw VolumeError(.busy, "Another concord hub move works on this hub.")
        }
    }

    /// Returns how many rows were changed and not taken yet.
    func count(_ transaction: any LedgerTransaction) throws -> Int {
        try check(transaction)
        return try tables.reduce(0) { sum, table in
            let row = try transaction.row("SELECT count(*) FROM \(table.changed)", [])
            return sum + Int(try row?.integer(0) ?? 0)
        }
    }

    /// The rows of a table that were changed, as they are now.
    struct Page: Sendable {
        let table: TableLayout
        /// Also those of rows that were deleted.
        var keys: [[SQLValue]] = []
        var rows: [LedgerRow] = []
    }

    /// Returns the next changes, in the order of their keys; nil if there are no more.
    func page(
        of table: TableLayout, after last: [SQLValue] = [], _ transaction: any LedgerTransaction
    ) throws -> Page? {
        let found = try LedgerCopy.page(table.changes, after: last, transaction)
        guard !found.isEmpty else { return nil }
        let (width, columns) = (table.key.count, table.columns.count)
        var page = Page(table: table)
        for row in found {
            page.keys.append((0..<width).map { row[$0] })
            // No column of a key is null, unless the row does not exist any more.
            guard !row.isNull(width + table.key[0]) else { continue }
            page.rows.append(LedgerRow((width..<(width + columns)).map { row[$0] }))
        }
        return page
    }

    /// When a transaction has taken so many changes, it ends, because the hub waits for it.
    private static let together = 1_000

    /// Returns changes of several tables, and forgets them. There are no more if it is empty.
    func take(_ transaction: any LedgerTransaction) throws -> [Page] {
        try check(transaction)
        var (pages, count) = ([Page](), 0)
        for table in tables where count < Self.together {
            guard let page = try page(of: table, transaction), let last = page.keys.last else {
                continue
            }
            try transaction.execute(
                """
                DELETE FROM \(table.changed)
                WHERE (\(table.keyList)) <= \(LedgerCopy.marks(rows: 1, width: last.count))
                """, last)
            pages.append(page)
            count += page.keys.count
        }
        return pages
    }
}

extension TableLayout {
    /// The table with the keys of changed rows.
    fileprivate var changed: String { "changed_\(name)" }

    private var trigger: String { "capture_\(name)" }

    fileprivate var changes: LedgerCopy.Query {
        let equal = keyNames.map { "\(name).\($0) = \(changed).\($0)" }
        let keys = keyNames.map { "\(changed).\($0)" }.joined(separator: ", ")
        return LedgerCopy.Query(
            columns: "\(keys), \(qualifiedList)", size: size,
            tables: "\(changed) LEFT JOIN \(name) ON \(equal.joined(separator: " AND "))",
            key: keys)
    }

    /// The states of a `MoveRecord` in which nothing may change.
    private static let closed = [MoveRecord.State.frozen, .left].map { "\($0.rawValue)" }
        .joined(separator: ", ")

    /// - Parameter row: `NEW` or `OLD`.
    private func noting(_ row: String) -> String {
        let values = keyNames.map { "\(row).\($0)" }.joined(separator: ", ")
        return """
            INSERT INTO \(changed) (\(keyList)) VALUES (\(values)) ON CONFLICT DO NOTHING;
            """
    }

    private static let events = [
        ("insert", ["NEW"]), ("update", ["OLD", "NEW"]), ("delete", ["OLD"]),
    ]

    fileprivate func triggers(in dialect: SQLDialect) -> [String] {
        switch dialect {
        case .sqlite:
            Self.events.map { event, rows in
                """
                CREATE TRIGGER \(trigger)_\(event) AFTER \(event) ON \(name) BEGIN
                    SELECT RAISE(ABORT, 'the hub is being moved') FROM moves
                    WHERE state IN (\(Self.closed));
                    \(rows.map(noting).joined(separator: "\n"))
                END
                """
            }
        case .postgres:
            [
                """
                CREATE FUNCTION \(trigger)() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    IF EXISTS (SELECT 1 FROM moves WHERE state IN (\(Self.closed))) THEN
                        RAISE EXCEPTION 'the hub is being moved' USING ERRCODE = '55P03';
                    END IF;
                    IF TG_OP <> 'INSERT' THEN \(noting("OLD")) END IF;
                    IF TG_OP <> 'DELETE' THEN \(noting("NEW")) END IF;
                    RETURN NULL;
                END $$
                """,
                """
                CREATE TRIGGER \(trigger) AFTER INSERT OR UPDATE OR DELETE ON \(name)
                FOR EACH ROW EXECUTE FUNCTION \(trigger)()
                """,
            ]
        }
    }

    fileprivate func triggerRemovals(in dialect: SQLDialect) -> [String] {
        switch dialect {
        case .sqlite: Self.events.map { "DROP TRIGGER IF EXISTS \(trigger)_\($0.0)" }
        case .postgres: ["DROP FUNCTION IF EXISTS \(trigger)() CASCADE"]
        }
    }
}
