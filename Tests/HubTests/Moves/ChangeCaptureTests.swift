import Model
import Support
import Testing

@testable import Hub

@Suite(
    "Noting the changes of a ledger",
    .enabled(if: MovedHub.obstacle == nil, "\(MovedHub.obstacle ?? "")"))
struct ChangeCaptureTests {
    @Test("changes of all tables are copied, or refused while frozen", arguments: [false, true])
    func allTables(isBack: Bool) async throws {
        let scratch = try TemporaryDirectory("capture")
        let embedded = try LedgerKind.sqlite.open(scratch.path)
        let remote = try LedgerKind.postgres.open(scratch.path)
        let (source, target) = isBack ? (remote, embedded) : (embedded, remote)
        let tables = try await embedded.read { transaction in
            try LedgerCopy.tables().map { try ExampleTable($0, transaction) }
        }
        #expect(Set(tables.map(\.layout.name)).isSuperset(of: ["items", "passkeys", "secrets"]))
        let capture = try ChangeCapture()
        try await source.write { transaction in
            for table in tables {
                for number in 0..<5 { try table.insert(number, transaction) }
            }
            try capture.install(in: transaction)
        }
        let copy = LedgerCopy(source: source, target: target)
        #expect(try await copy.run() >= 5 * tables.count)
        try await source.write { transaction in
            for table in tables {
                try table.delete(0, transaction)
                try table.changeValues(of: 1, transaction)
                try table.changeKey(of: 2, to: 5, transaction)
                // A new row has the name of a deleted one.
                try table.delete(3, transaction)
                try table.insert(6, valuesOf: 3, transaction)
                try table.insert(7, transaction)
                try table.insert(8, transaction)
                try table.delete(8, transaction)
            }
        }
        #expect(try await copy.drain(capture) >= 7 * tables.count)
        try await copy.compare(capture)
        for table in tables {
            let (old, new) = (try await table.rows(source), try await table.rows(target))
            #expect(old == new && old.count >= 5, "\(table.layout.name)")
        }
        #expect(try await copy.drain(capture) == 0)

        try await source.write { transaction in
            try MoveTable(transaction).set(
                MoveRecord(id: .random(), state: .frozen, place: "elsewhere"))
        }
        for table in tables {
            await expectRefusal(source, table) { try table.insert(9, $0) }
            await expectRefusal(source, table) { try table.changeKey(of: 7, to: 9, $0) }
            await expectRefusal(source, table) { try table.delete(7, $0) }
        }
        #expect(try await copy.drain(capture) == 0)
        try source.close()
        try target.close()
    }

    /// The row with the smallest key, which comes first, gets the former name of the last row.
    @Test("names that many changed rows have passed on are copied", arguments: [false, true])
    func namesOfLaterPages(isBack: Bool) async throws {
        let scratch = try TemporaryDirectory("capture")
        let embedded = try LedgerKind.sqlite.open(scratch.path)
        let remote = try LedgerKind.postgres.open(scratch.path)
        let (source, target) = isBack ? (remote, embedded) : (embedded, remote)
        let capture = try ChangeCapture()
        let count: Int64 = 2_100
        try await source.write { transaction in
            for number in 0..<count {
                try transaction.execute(
                    "INSERT INTO accounts (id, name, used, created) VALUES ($1, $2, 0, 0)",
                    [.bytes(Self.id(number)), .text("0 \(number)")])
            }
            try capture.install(in: transaction)
        }
        let copy = LedgerCopy(source: source, target: target)
        #expect(try await copy.run() >= Int(count))
        try await rename(count, in: source)
        #expect(try await copy.drain(capture) == Int(count))
        try await rename(count, in: source)
        try await copy.compare(capture)
        let names = "SELECT name FROM accounts ORDER BY id"
        let old = try await source.read { try $0.rows(names, []).map { try $0.text(0) } }
        let new = try await target.read { try $0.rows(names, []).map { try $0.text(0) } }
        #expect(old == new && old.count == Int(count))
        try source.close()
        try target.close()
    }

    private static func id(_ number: Int64) -> [UInt8] {
        (0..<16).map { UInt8(truncatingIfNeeded: number >> (8 * (15 - $0))) }
    }

    /// Gives all accounts the names in the opposite order.
    private func rename(_ count: Int64, in ledger: any Ledger) async throws {
        try await ledger.write { transaction in
            let order = "SELECT name FROM accounts ORDER BY id"
            let names = try transaction.rows(order, []).map { try $0.text(0) }
            try transaction.execute("UPDATE accounts SET name = 'former ' || name", [])
            for (number, name) in zip(0..<count, names.reversed()) {
                try transaction.execute(
                    "UPDATE accounts SET name = $1 WHERE id = $2",
                    [.text(name), .bytes(Self.id(number))])
            }
        }
    }

    private func expectRefusal(
        _ ledger: any Ledger, _ table: ExampleTable,
        _ body: @escaping @Sendable (any LedgerTransaction) throws -> Void
    ) async {
        let refusal = await #expect(throws: VolumeError.self, "\(table.layout.name)") {
            try await ledger.write(body)
        }
        #expect(refusal?.code == .busy)
    }
}

/// Rows of a table that are made from numbers.
private struct ExampleTable: Sendable {
    let layout: TableLayout
    private let types: [String]

    /// - Parameter transaction: Of a ledger in SQLite.
    init(_ layout: TableLayout, _ transaction: any LedgerTransaction) throws {
        self.layout = layout
        types = try transaction.rows("PRAGMA table_info(\(layout.name))", []).map {
            try $0.text(2)
        }
    }

    private func value(_ column: Int, _ number: Int) -> SQLValue {
        switch types[column] {
        case "INTEGER": .integer(Int64(number))
        case "TEXT": .text("text \(number)")
        default: .bytes([UInt8(number), UInt8(column)])
        }
    }

    private var values: [Int] { layout.columns.indices.filter { !layout.key.contains($0) } }

    private func equal(_ columns: [Int], from start: Int = 1) -> [String] {
        columns.enumerated().map { "\(layout.columns[$1].name) = $\(start + $0)" }
    }

    private func condition(from start: Int = 1) -> String {
        equal(layout.key, from: start).joined(separator: " AND ")
    }

    private func key(_ number: Int) -> [SQLValue] { layout.key.map { value($0, number) } }

    func insert(_ number: Int, valuesOf other: Int? = nil, _ transaction: any LedgerTransaction)
        throws
    {
        let row = layout.columns.indices.map { column in
            value(column, layout.key.contains(column) ? number : other ?? number)
        }
        let marks = LedgerCopy.marks(rows: 1, width: row.count)
        try transaction.execute("INSERT INTO \(layout.name) (\(layout.list)) VALUES \(marks)", row)
    }

    func delete(_ number: Int, _ transaction: any LedgerTransaction) throws {
        let count = try transaction.execute(
            "DELETE FROM \(layout.name) WHERE \(condition())", key(number))
        #expect(count == 1)
    }

    func changeKey(of number: Int, to other: Int, _ transaction: any LedgerTransaction) throws {
        let new = equal(layout.key).joined(separator: ", ")
        let condition = condition(from: layout.key.count + 1)
        let count = try transaction.execute(
            "UPDATE \(layout.name) SET \(new) WHERE \(condition)", key(other) + key(number))
        #expect(count == 1)
    }

    func changeValues(of number: Int, _ transaction: any LedgerTransaction) throws {
        guard !values.isEmpty else { return }
        let new = equal(values).joined(separator: ", ")
        let condition = condition(from: values.count + 1)
        let count = try transaction.execute(
            "UPDATE \(layout.name) SET \(new) WHERE \(condition)",
            values.map { value($0, number + 100) } + key(number))
        #expect(count == 1)
    }

    func rows(_ ledger: any Ledger) async throws -> [LedgerRow] {
        try await ledger.read { [layout] transaction in
            try transaction.rows(
                "SELECT \(layout.list) FROM \(layout.name) ORDER BY \(layout.keyList)", []
            ).filter { $0[0] != .text(Fact.newestPack) }
        }
    }
}
