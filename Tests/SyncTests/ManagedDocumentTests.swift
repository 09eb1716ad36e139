import FileCoordination
import Foundation
import GRDB
import Support
import Testing

private let isSoak = ProcessInfo.processInfo.environment["CONCORD_SOAK_MINUTES"] != nil

/// Documents that are databases, on two devices (Rows.md, A14.12, A18.27).
@Suite("Managed documents on two devices", .serialized) struct ManagedDocumentTests {
    private static let count = 10_000

    @Test("A14.12, A18.27: after a thousand offline edits on each side, both devices have all")
    func offline() throws {
        var random = SeededRandom(named: "managed", usual: isSoak ? nil : 26_112_203)
        try Fleet.with(2) { fleet in
            for round in 0..<(isSoak ? 100 : 2) {
                try edit(fleet, "\(round).table", &random)
                if round % 10 == 9 { print("managed: \(round + 1) seeds") }
            }
            try fleet.expectSound()
        }
    }

    private func edit(_ fleet: Fleet, _ name: String, _ random: inout SeededRandom) throws {
        try table(fleet, 0, name) { table in
            try await table.fill(Self.count)
            try await table.save(to: table.fileURL, for: .creating)
            try await table.close()
        }
        try fleet.settle()
        let tables = try (0..<2).map { index in
            try table(fleet, index, name) { try await $0.open() }
        }
        for index in 0..<2 { try fleet.offline(index) }
        // The device that saves last has the newer version.
        let newer = random.below(2)
        var edits: [[Edit]] = []
        for (index, table) in tables.enumerated() {
            edits.append(Edit.random(1000, of: Self.count, by: index, &random))
            let mine = edits[index]
            try onMain { try await table.apply(mine) }
        }
        for index in [1 - newer, newer] {
            let table = tables[index]
            try onMain { try await table.autosave() }
            try fleet.devices[index].waitForDisk()
        }
        for index in 0..<2 { try fleet.online(index) }
        var cells = Dictionary(uniqueKeysWithValues: edits[1 - newer].map { ($0.cell, $0.value) })
        var lost: [Cell: Int] = [:]
        for edit in edits[newer] {
            lost[edit.cell] = cells[edit.cell]
            cells[edit.cell] = edit.value
        }
        #expect(!lost.isEmpty)
        let all = cells
        for table in tables {
            try table.wait(for: "all the edits in \(name)", seconds: 60) {
                try await $0.edited() == all && $0.documentState == .normal
            }
            let kept = try onMain { try await table.losses() }
            #expect(kept.mapValues(\.value) == lost)
            let isSound = try onMain { try await table.isSound() }
            #expect(isSound)
            // The lost values are available in their version, too.
            let version = try #require(kept.values.first?.version)
            #expect(kept.values.allSatisfy { $0.version == version })
            try check(table.fileURL, version, edits[1 - newer])
        }
        for table in tables { try onMain { try await table.close() } }
        try fleet.expectEqual()
        for index in 0..<2 {
            #expect(try fleet.conflicts(index, name).isEmpty)
            // Both devices merged, or only one; equal contents are one version.
            let versions = try fleet.history(index, name).versions
            #expect(versions.filter { $0.parents.count > 1 }.count == 1)
        }
    }

    private func check(_ url: URL, _ identifier: String, _ edits: [Edit]) throws {
        let version = try #require(
            try FileVersion.version(ofItemAt: url, forPersistentIdentifier: identifier))
        let file = try TemporaryDirectory("version")
        try Data(contentsOf: try #require(version.url)).write(
            to: URL(filePath: "\(file.path)/old"))
        let old = try DatabaseQueue(path: "\(file.path)/old")
        let found = try old.read { try Table.edited($0) }
        #expect(found == Dictionary(uniqueKeysWithValues: edits.map { ($0.cell, $0.value) }))
        try old.close()
    }

    @Test("unsaved changes are saved when the other's save arrives; both are merged without a loop")
    func unsaved() throws {
        try Fleet.with(2) { fleet in
            let first = try table(fleet, 0, "a.table") { table in
                try await table.fill(10)
                try await table.save(to: table.fileURL, for: .creating)
            }
            try fleet.settle()
            let second = try table(fleet, 1, "a.table") { try await $0.open() }
            for round in 1...3 {
                try onMain {
                    try await second.apply([
                        Edit(cell: Cell(row: 1, column: "a"), value: round),
                        Edit(cell: Cell(row: 2, column: "a"), value: round),
                    ])
                    try await first.apply([
                        Edit(cell: Cell(row: 1, column: "b"), value: round),
                        Edit(cell: Cell(row: 2, column: "a"), value: -round),
                    ])
                    try await first.autosave()
                }
                let all = [
                    Cell(row: 1, column: "a"): round, Cell(row: 1, column: "b"): round,
                    Cell(row: 2, column: "a"): round,
                ]
                for table in [first, second] {
                    try table.wait(for: "both edits") {
                        try await $0.edited() == all && !$0.hasUnsavedChanges
                            && $0.documentState == .normal
                    }
                    let lost = try onMain { try await table.losses() }
                    #expect(lost[Cell(row: 2, column: "a")]?.value == -round)
                }
            }
            for table in [first, second] { try onMain { try await table.close() } }
            try fleet.expectEqual()
            for index in 0..<2 {
                // Each round has three saves: one of each device, and one for both.
                let versions = try fleet.history(index, "a.table").versions
                #expect(versions.count <= 1 + 3 * 3)
                #expect(versions.allSatisfy { $0.kind != "conflict" })
                #expect(try fleet.names(index) == ["a.table"])
            }
        }
    }

    @Test("independent merges on both devices are one version") func atOnce() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, ".concordattributes", "*.table automerge=off\n")
            let first = try table(fleet, 0, "a.table") { table in
                try await table.fill(100)
                try await table.save(to: table.fileURL, for: .creating)
            }
            try fleet.settle()
            let tables = [first, try table(fleet, 1, "a.table") { try await $0.open() }]
            for index in 0..<2 { try fleet.offline(index) }
            for (index, table) in tables.enumerated() {
                try onMain {
                    try await table.apply([
                        Edit(cell: Cell(row: 1, column: "a"), value: index + 1),
                        Edit(cell: Cell(row: 50 + index, column: "b"), value: index + 1),
                    ])
                    try await table.close()
                }
                try fleet.devices[index].waitForDisk()
            }
            for index in 0..<2 { try fleet.online(index) }
            try fleet.settle()
            for index in 0..<2 {
                // Reading downloads the contents.
                try fleet.script(index, "cat a.table .conflicts/a.table/* > /dev/null")
                try fleet.offline(index)
            }
            for index in 0..<2 {
                try fleet.script(index, "fsctl merge a.table")
                try fleet.devices[index].waitForDisk()
            }
            for index in 0..<2 { try fleet.online(index) }
            try fleet.expectEqual()
            for index in 0..<2 {
                #expect(try fleet.conflicts(index, "a.table").isEmpty)
                let versions = try fleet.history(index, "a.table").versions
                #expect(versions.filter { $0.parents.count > 1 }.count == 1)
                try table(fleet, index, "a.table") { table in
                    try await table.open()
                    let all = [
                        Cell(row: 1, column: "a"): 2, Cell(row: 50, column: "b"): 1,
                        Cell(row: 51, column: "b"): 2,
                    ]
                    #expect(try await table.edited() == all)
                    let lost = try await table.losses()
                    #expect(lost.mapValues(\.value) == [Cell(row: 1, column: "a"): 1])
                    try await table.close()
                }
            }
        }
    }

    @discardableResult
    private func table(
        _ fleet: Fleet, _ index: Int, _ name: String,
        _ body: @escaping @MainActor @Sendable (Table) async throws -> Void
    ) throws -> Table {
        let url = URL(filePath: "\(fleet.devices[index].path)/\(name)")
        return try onMain {
            let table = Table(fileURL: url)
            try await body(table)
            return table
        }
    }
}

private struct Cell: Hashable, Sendable {
    var row: Int
    var column: String
}

private struct Edit: Sendable {
    var cell: Cell
    var value: Int

    /// Returns edits of one cell in each of `count` different rows.
    static func random(_ count: Int, of rows: Int, by author: Int, _ random: inout SeededRandom)
        -> [Edit]
    {
        Array(1...rows).shuffled(using: &random).prefix(count).map { row in
            Edit(
                cell: Cell(row: row, column: random.oneIn(2) ? "a" : "b"),
                value: 1 + 2 * random.below(1_000_000) + author)
        }
    }
}

/// A table with two numbers in each row, which are 0 until they are edited.
private final class Table: ManagedDocument {
    override var autosaveDelay: Duration { .seconds(3600) }

    nonisolated override var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { database in
            try database.execute(
                sql: """
                    CREATE TABLE sheet(id INTEGER PRIMARY KEY);
                    INSERT INTO sheet VALUES (1);
                    CREATE TABLE line(id INTEGER PRIMARY KEY, a INTEGER NOT NULL DEFAULT 0,
                        b INTEGER NOT NULL DEFAULT 0,
                        sheet INTEGER NOT NULL DEFAULT 1 REFERENCES sheet(id));
                    """)
        }
        return migrator
    }

    func fill(_ count: Int) async throws {
        try await write { database in
            for id in 1...count {
                try database.execute(sql: "INSERT INTO line(id) VALUES (?)", arguments: [id])
            }
        }
    }

    func apply(_ edits: [Edit]) async throws {
        try await write { database in
            for edit in edits {
                try database.execute(
                    sql: "UPDATE line SET \(edit.cell.column) = ? WHERE id = ?",
                    arguments: [edit.value, edit.cell.row])
            }
        }
    }

    func edited() async throws -> [Cell: Int] { try await read { try Table.edited($0) } }

    nonisolated static func edited(_ database: Database) throws -> [Cell: Int] {
        var cells: [Cell: Int] = [:]
        let rows = try Row.fetchAll(
            database, sql: "SELECT id, a, b FROM line WHERE a <> 0 OR b <> 0")
        for row in rows {
            for column in ["a", "b"] where row[column] as Int != 0 {
                cells[Cell(row: row["id"], column: column)] = row[column]
            }
        }
        return cells
    }

    /// Returns the newest lost value of each cell.
    func losses() async throws -> [Cell: (value: Int, version: String)] {
        try await read { database in
            var cells: [Cell: (value: Int, version: String)] = [:]
            let rows = try Row.fetchAll(
                database, sql: "SELECT * FROM _sync_conflicts ORDER BY saved, abs(value)")
            for row in rows {
                let cell = Cell(row: Int(row["rowKey"] as String) ?? 0, column: row["columnName"])
                cells[cell] = (row["value"], row["version"])
            }
            return cells
        }
    }

    func isSound() async throws -> Bool {
        try await read { database in
            let said = try String.fetchAll(database, sql: "PRAGMA integrity_check")
            let broken = try Row.fetchAll(database, sql: "PRAGMA foreign_key_check")
            let count = try Int.fetchOne(database, sql: "SELECT count(*) FROM line")
            return said == ["ok"] && broken.isEmpty && count == 10_000
        }
    }

    nonisolated func wait(
        for what: String, seconds: Double = 30,
        _ condition: @escaping @MainActor @Sendable (Table) async throws -> Bool
    ) throws {
        try Support.wait(seconds: seconds, for: what) {
            try onMain { try await condition(self) } ? true : nil
        }
    }
}
