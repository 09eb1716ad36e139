/// Applies the changes of theirs to the rows of ours.
struct SQLiteRows {
    let ours: SQLiteConnection
    let theirs: SQLiteConnection
    private(set) var isChanged = false

    private struct Step {
        let sql: String
        let cells: [SQLiteCell]
    }

    /// Steps that violated a constraint. They are tried again, because a later step may remove what
    /// they collided with.
    private var waiting: [(step: Step, why: String)] = []
    private var losses: [SQLiteLoss] = []

    init(ours: SQLiteConnection, theirs: SQLiteConnection) {
        self.ours = ours
        self.theirs = theirs
    }

    mutating func take(_ change: SQLiteChange, in table: SQLiteSchema.Table)
        throws(SQLiteFailure)
    {
        switch change {
        case .insert(let new):
            let key = table.key(of: new)
            guard let mine = try row(key, of: table, in: ours) else {
                return try insert(new, into: table)
            }
            guard mine != new else { return }
            for column in new.indices where !table.key.contains(column) {
                losses.append(.init(table: table, key: key, column: column, value: new[column]))
            }
        case .delete(let old):
            let key = table.key(of: old)
            guard let mine = try row(key, of: table, in: ours), mine == old else { return }
            try run(Step(sql: "DELETE FROM \(quoted(table.name)) WHERE \(table.isRow)", cells: key))
        case .update(let old, let new):
            let key = table.key.map { old[$0] ?? .null }
            if let mine = try row(key, of: table, in: ours) {
                try update(table, key, mine: mine, old: old, new: new)
            } else if let whole = try row(key, of: table, in: theirs) {
                try insert(whole, into: table)
            }
        }
    }

    private mutating func update(
        _ table: SQLiteSchema.Table, _ key: [SQLiteCell], mine: [SQLiteCell], old: [SQLiteCell?],
        new: [SQLiteCell?]
    ) throws(SQLiteFailure) {
        var columns: [Int] = []
        for (column, cell) in new.enumerated() {
            guard let cell, !table.key.contains(column), mine[column] != cell else { continue }
            if mine[column] == old[column] {
                columns.append(column)
            } else {
                losses.append(.init(table: table, key: key, column: column, value: cell))
            }
        }
        guard !columns.isEmpty else { return }
        let list = columns.map { "\(quoted(table.columns[$0])) = ?" }.joined(separator: ", ")
        try run(
            Step(
                sql: "UPDATE OR ABORT \(quoted(table.name)) SET \(list) WHERE \(table.isRow)",
                cells: columns.map { new[$0] ?? .null } + key))
    }

    private mutating func insert(_ row: [SQLiteCell], into table: SQLiteSchema.Table)
        throws(SQLiteFailure)
    {
        let marks = row.map { _ in "?" }.joined(separator: ", ")
        let sql = "INSERT OR ABORT INTO \(quoted(table.name)) (\(table.list)) VALUES (\(marks))"
        try run(Step(sql: sql, cells: row))
    }

    private func row(
        _ key: [SQLiteCell], of table: SQLiteSchema.Table, in connection: SQLiteConnection
    ) throws(SQLiteFailure) -> [SQLiteCell]? {
        try connection.rows(
            "SELECT \(table.list) FROM main.\(quoted(table.name)) WHERE \(table.isRow)", key
        ).first
    }

    private mutating func run(_ step: Step) throws(SQLiteFailure) {
        do throws(SQLiteFailure) {
            try ours.rows(step.sql, step.cells)
            isChanged = true
        } catch {
            guard error.isConstraint, case .fault(_, let why) = error else { throw error }
            waiting.append((step, why))
        }
    }

    /// Applies the steps that wait, writes the losses, and adjusts the counters of AUTOINCREMENT.
    mutating func finish(_ source: MergeInput.Source?) throws(SQLiteFailure) {
        while !waiting.isEmpty {
            let steps = waiting
            waiting = []
            for (step, _) in steps { try run(step) }
            if waiting.count == steps.count {
                throw .conflict("together the changes violate a constraint: \(waiting[0].why)")
            }
        }
        if !losses.isEmpty {
            try ours.run(
                SQLiteLoss.definition.replacing("CREATE TABLE", with: "CREATE TABLE IF NOT EXISTS"))
        }
        for loss in losses {
            try loss.put(into: ours, source)
            if ours.changes > 0 { isChanged = true }
        }
        try takeSequences()
    }

    /// Raises the counters of tables with AUTOINCREMENT, so that no number is used twice.
    private mutating func takeSequences() throws(SQLiteFailure) {
        let exists = "SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence'"
        guard try !theirs.rows(exists).isEmpty, try !ours.rows(exists).isEmpty else { return }
        for row in try theirs.rows("SELECT name, seq FROM main.sqlite_sequence") {
            let (name, number) = (row[0], row[1])
            let known = try ours.rows("SELECT seq FROM sqlite_sequence WHERE name = ?", [name])
            if known.isEmpty {
                try ours.rows("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", row)
            } else if known[0][0].integer < number.integer {
                try ours.rows("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", [number, name])
            } else {
                continue
            }
            isChanged = true
        }
    }
}
