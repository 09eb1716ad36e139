import CLinux
import CSQLite
import Model

/// A merge of databases row by row: what theirs changed since the base is also changed in ours,
/// cell by cell.
///
/// Ours is the newer version. If both changed a cell, ours stays, and the value of theirs goes into
/// a separate table (``SQLiteLoss``). An edit wins over a deletion, whichever is newer, because
/// that loses nothing. If the result would violate a constraint or a foreign key, both versions
/// stay as they are.
struct SQLiteMerge {
    let directory: Scratch
    /// Who saved theirs.
    let source: MergeInput.Source?

    private static let names = ["base", "ours", "theirs"]
    private static let seconds: Int64 = 30
    private static let magic = Array("SQLite format 3\0".utf8)

    /// Whether the database itself asks to be merged by rows: its `application_id` is big-endian,
    /// at offset 68.
    static func isManaged(_ file: [UInt8]) -> Bool {
        guard isDatabase(file) else { return false }
        let id = withUnsafeBytes(of: Merger.databaseID.bigEndian) { Array($0) }
        return Array(file[68..<72]) == id
    }

    private static func isDatabase(_ file: [UInt8]) -> Bool {
        file.count >= 100 && file.starts(with: magic)
    }

    func merge(_ three: MergeTriple) throws(VolumeError) -> DriverResult {
        let contents = [three.base, three.ours, three.theirs]
        guard contents.allSatisfy(SQLiteMerge.isDatabase) else {
            return .failed("it is not an SQLite database")
        }
        for (name, content) in zip(SQLiteMerge.names, contents) {
            try directory.write(content, to: name)
        }
        do throws(SQLiteFailure) {
            guard try combine() else { return .clean(three.ours) }
        } catch {
            switch error {
            case .conflict(let what): return .conflict(what)
            case .refused(let why): return .failed(why)
            case .fault(let code, _) where code & 0xff == SQLITE_INTERRUPT:
                return .failed("it took longer than \(SQLiteMerge.seconds) seconds")
            case .fault(_, let message): return .failed("SQLite says: \(message)")
            }
        }
        guard let merged = try directory.read("ours", sizeMax: Merger.sizeMax) else {
            return .failed("the result has more than \(Merger.sizeMax >> 20) MiB")
        }
        return .clean(merged)
    }

    /// Returns false when ours already has every change of theirs.
    private func combine() throws(SQLiteFailure) -> Bool {
        let deadline = cl_clock_monotonic_ns() + Timestamp.span(seconds: SQLiteMerge.seconds)
        var all: [SQLiteConnection] = []
        for name in SQLiteMerge.names {
            all.append(try SQLiteConnection("\(directory.path)/\(name)", deadline: deadline))
        }
        let (ours, theirs) = (all[1], all[2])
        var schemas: [SQLiteSchema] = []
        for connection in all {
            let said = try connection.rows("PRAGMA quick_check(1)").map { $0[0].text }
            if said != ["ok"] { throw .refused("a version is damaged: \(said.first ?? "")") }
            schemas.append(try SQLiteSchema(of: connection))
        }
        if let difference = SQLiteSchema.difference(schemas) { throw .refused(difference) }
        // These settings leave a single file, and equal changes give equal bytes.
        try ours.run("PRAGMA journal_mode = MEMORY; PRAGMA secure_delete = ON; BEGIN")
        var tables = schemas[1].tables
        if schemas[0].hasLosses || schemas[2].hasLosses {
            for (connection, schema) in zip(all, schemas) where !schema.hasLosses {
                try connection.run(SQLiteLoss.definition)
            }
            tables.append(try SQLiteSchema.table(SQLiteLoss.table, ours))
        }
        let changes = try theirs.changes(since: "\(directory.path)/base", in: tables)
        var rows = SQLiteRows(ours: ours, theirs: theirs)
        for (table, changes) in changes {
            for change in changes { try rows.take(change, in: table) }
        }
        try rows.finish(source)
        guard rows.isChanged else { return false }
        try check(ours)
        try ours.run("COMMIT")
        return true
    }

    private func check(_ merged: SQLiteConnection) throws(SQLiteFailure) {
        if let row = try merged.rows("PRAGMA foreign_key_check").first {
            throw .conflict(
                "a row of \(row[0].text) would refer to a missing row of \(row[2].text)")
        }
        let said = try merged.rows("PRAGMA integrity_check(1)").map { $0[0].text }
        guard said == ["ok"] else {
            throw .refused("the result fails the integrity check: \(said.first ?? "")")
        }
    }
}

/// The value of a cell that a newer one has replaced, and the table that keeps such values.
struct SQLiteLoss {
    static let table = "_sync_conflicts"
    static let definition = """
        CREATE TABLE _sync_conflicts (
            tableName TEXT NOT NULL,
            rowKey TEXT NOT NULL,
            columnName TEXT NOT NULL,
            value,
            version TEXT NOT NULL,
            device TEXT NOT NULL,
            saved INTEGER NOT NULL,
            PRIMARY KEY (tableName, rowKey, columnName, version)
        ) WITHOUT ROWID
        """

    let table: SQLiteSchema.Table
    let key: [SQLiteCell]
    let column: Int
    let value: SQLiteCell

    func put(into connection: SQLiteConnection, _ source: MergeInput.Source?)
        throws(SQLiteFailure)
    {
        let literal = key.map { _ in "quote(?)" }.joined(separator: " || ', ' || ")
        try connection.rows(
            """
            INSERT OR IGNORE INTO _sync_conflicts
                (tableName, columnName, value, version, device, saved, rowKey)
            VALUES (?, ?, ?, ?, ?, ?, \(literal))
            """,
            [
                SQLiteCell(table.name), SQLiteCell(table.columns[column]), value,
                SQLiteCell(source?.version ?? ""), SQLiteCell(source?.device ?? ""),
                .integer((source?.saved ?? 0) / 1_000_000_000),
            ] + key)
    }
}
