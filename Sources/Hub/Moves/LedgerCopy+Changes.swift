import Model

// What changes after the snapshot of a copy has been taken.
extension LedgerCopy {
    /// Copies the changes that were noted so far. It needs few transactions, because those of a hub
    /// that is being used exclude them.
    ///
    /// - Returns: The number of rows that were changed or deleted.
    func drain(_ capture: ChangeCapture) async throws -> Int {
        let count = try await source.read { try capture.count($0) }
        var rest = count
        while rest > 0 {
            let pages = try await source.write { try capture.take($0) }
            guard !pages.isEmpty else { break }
            try await target.write { [self] transaction in
                for page in pages { try apply(page, transaction) }
            }
            rest -= pages.reduce(0) { $0 + $1.keys.count }
        }
        return count
    }

    /// Copies the changes up to one moment, and compares how many rows both ledgers have at that
    /// moment. The hub serves meanwhile, because counting takes long if there are many rows.
    func compare(_ capture: ChangeCapture) async throws {
        try await source.read { [self] transaction in
            try capture.check(transaction)
            for table in capture.tables {
                var last: [SQLValue] = []
                while let page = try capture.page(of: table, after: last, transaction) {
                    try write { try apply(page, $0) }
                    last = page.keys.last ?? last
                }
            }
            let target = self.target
            for table in capture.tables {
                let found = try BlockingCall.wait {
                    try await target.read { try Self.count(table, $0) }
                }
                let wanted = try Self.count(table, transaction)
                guard found != wanted else { continue }
                throw VolumeError(
                    .damaged,
                    "The copy has \(found) rows of the table \(table.name), and the hub has "
                        + "\(wanted): the move was not ended, and the hub stays where it is. "
                        + "Please report this; the same command begins the copy again.")
            }
        }
    }

    private static func count(
        _ table: TableLayout, _ transaction: any LedgerTransaction
    ) throws -> Int64 {
        // A store of packs begins to count its own when it has one.
        let condition = table.name == "facts" ? "WHERE name <> '\(Fact.newestPack)'" : ""
        let row = try transaction.row("SELECT count(*) FROM \(table.name) \(condition)", [])
        return try row?.integer(0) ?? 0
    }

    private func apply(
        _ page: ChangeCapture.Page, _ target: any LedgerTransaction
    ) throws {
        let table = page.table
        var page = page
        if table.name == "facts" {
            page.keys.removeAll { $0[0] == .text(Fact.newestPack) }
            page.rows.removeAll { $0[table.key[0]] == .text(Fact.newestPack) }
        }
        // All of them first, because a new row may have the name of a deleted one.
        try remove(page.keys, of: table.key, from: table, target)
        // Or the former name of a row that has changed, too, and comes with a later page.
        for columns in table.uniques {
            let values = page.rows.map { row in columns.map { row[$0] } }
            try remove(values, of: columns, from: table, target)
        }
        try insert(page.rows, into: table, target)
    }

    /// Removes the rows that have these values in these columns.
    private func remove(
        _ values: [[SQLValue]], of columns: [Int], from table: TableLayout,
        _ target: any LedgerTransaction
    ) throws {
        let names = columns.map { table.columns[$0].name }.joined(separator: ", ")
        try Self.inGroups(values) { values in
            let marks = Self.marks(rows: values.count, width: columns.count)
            try target.execute(
                "DELETE FROM \(table.name) WHERE (\(names)) IN (VALUES \(marks))",
                values.flatMap(\.self))
        }
    }
}
