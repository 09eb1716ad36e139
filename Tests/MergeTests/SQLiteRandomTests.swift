import Foundation
import GRDB
import Support
import Testing

@testable import Merge

/// Two devices make a thousand edits each in ten thousand rows, and every cell of the result is
/// checked.
@Suite("Merging random rows") struct SQLiteRandomTests {
    private typealias Rows = [String: [DatabaseValue]]
    private static let columns = ["a", "b", "c", "list"]

    private struct Side {
        var rows: Rows
        var lists: Set<Int64>
        var random: SeededRandom
        let name: String

        private mutating func cell(_ column: Int, _ old: DatabaseValue) -> DatabaseValue {
            switch column {
            case 0: return Int64(random.below(1000)).databaseValue
            case 1:
                // With SQLite's NOCASE this is not a difference.
                let text = String.fromDatabaseValue(old) ?? ""
                if random.oneIn(3), text != text.uppercased() {
                    return text.uppercased().databaseValue
                }
                return random.oneIn(9) ? .null : "text \(random.below(50))".databaseValue
            case 2: return Data((0..<random.below(40)).map { UInt8($0) }).databaseValue
            default: return random.pick(lists.sorted()).databaseValue
            }
        }

        mutating func edit(_ database: Database, _ ids: [String]) throws {
            let list = Int64(100 + random.below(1000)) * 2 + (name == "one" ? 0 : 1)
            lists.insert(list)
            try database.execute(sql: "INSERT INTO list VALUES (?, ?)", arguments: [list, name])
            var order = ids
            order.shuffle(using: &random)
            for (number, id) in order.prefix(1000).enumerated() {
                if number % 20 == 0 {
                    rows[id] = nil
                    try database.execute(sql: "DELETE FROM item WHERE id = ?", arguments: [id])
                } else if number % 20 == 1 {
                    let row = (0..<4).map { cell($0, .null) }
                    rows["\(name) \(id)"] = row
                    try database.execute(
                        sql: "INSERT INTO item VALUES (?, ?, ?, ?, ?)",
                        arguments: StatementArguments(["\(name) \(id)".databaseValue] + row))
                } else {
                    for _ in 0...random.below(2) {
                        let column = random.below(4)
                        let value = cell(column, rows[id]?[column] ?? .null)
                        rows[id]?[column] = value
                        try database.execute(
                            sql: "UPDATE item SET \(columns[column]) = ? WHERE id = ?",
                            arguments: [value, id])
                    }
                }
            }
        }
    }

    /// The expected result, row by row and cell by cell, computed from what the documentation
    /// promises and not from the implementation.
    private func expected(_ base: Rows, _ ours: Rows, _ theirs: Rows) -> (Rows, Set<String>) {
        var result: Rows = [:]
        var lost: Set<String> = []
        for id in Set(base.keys).union(ours.keys).union(theirs.keys) {
            let (old, mine, other) = (base[id], ours[id], theirs[id])
            guard let mine, let other else {
                let left = mine ?? other
                if left != old { result[id] = left }
                continue
            }
            result[id] = mine.indices.map { column in
                let (was, my, their) = (old?[column], mine[column], other[column])
                if my == was { return their }
                if their != was, their != my { lost.insert("\(id) \(column) \(their)") }
                return my
            }
        }
        return (result, lost)
    }

    @Test("a hundred seeds: edits of both sides are kept; of one cell, the older edit is recorded")
    func seeds() throws {
        let databases = try Databases()
        var random = SeededRandom(named: "rows", usual: 26_112_202)
        var start: Rows = [:]
        let base = try databases.make { database in
            try database.inTransaction {
                try database.execute(
                    sql: """
                        CREATE TABLE list(id INTEGER PRIMARY KEY, name TEXT);
                        CREATE TABLE item(id TEXT PRIMARY KEY NOT NULL, a INTEGER,
                            b TEXT COLLATE NOCASE, c BLOB, list REFERENCES list(id));
                        CREATE INDEX byText ON item(b);
                        INSERT INTO list VALUES (1, 'x'), (2, 'y');
                        """)
                for number in 0..<10_000 {
                    let row = [
                        Int64(number).databaseValue, "text \(number % 50)".databaseValue,
                        Data().databaseValue, Int64(1 + number % 2).databaseValue,
                    ]
                    start["\(number)"] = row
                    try database.execute(
                        sql: "INSERT INTO item VALUES (?, ?, ?, ?, ?)",
                        arguments: StatementArguments(["\(number)".databaseValue] + row))
                }
                return .commit
            }
        }
        let ids = start.keys.sorted()
        var met = 0
        for _ in 0..<100 {
            let seed = random.next()
            var sides = ["one", "two"].map {
                Side(rows: start, lists: [1, 2], random: random.fork(), name: $0)
            }
            var files: [[UInt8]] = []
            for index in sides.indices {
                files.append(
                    try databases.make(base) { database in
                        try database.inTransaction {
                            try sides[index].edit(database, ids)
                            return .commit
                        }
                    })
            }
            let (rows, lost) = expected(start, sides[0].rows, sides[1].rows)
            met += lost.count
            try check(
                databases, base, files, rows, lost, sides[0].lists.union(sides[1].lists), seed)
        }
        #expect(met > 100)
        print("rows: \(met) cells were changed on both sides")
    }

    private func check(
        _ databases: Databases, _ base: [UInt8], _ files: [[UInt8]], _ rows: Rows,
        _ lost: Set<String>, _ lists: Set<Int64>, _ seed: UInt64
    ) throws {
        let outcome = try databases.merge(base, files[0], files[1])
        let merged = try #require(outcome.bytes, "seed \(seed): \(outcome)")
        #expect(try Databases().merge(base, files[0], files[1]).bytes == merged, "seed \(seed)")
        _ = try databases.make(merged) { database in
            var found: Rows = [:]
            for row in try Row.fetchAll(database, sql: "SELECT * FROM item") {
                found[row[0]] = row.databaseValues.dropFirst().map { $0 }
            }
            #expect(found == rows, "seed \(seed)")
            let kept = try Row.fetchAll(
                database, sql: "SELECT rowKey, columnName, value FROM _sync_conflicts")
            let cells = kept.map { row in
                let id = (row[0] as String).filter { $0 != "'" }
                let column = Self.columns.firstIndex(of: row[1]) ?? -1
                return "\(id) \(column) \(row[2] as DatabaseValue)"
            }
            #expect(Set(cells) == lost && cells.count == lost.count, "seed \(seed)")
            #expect(try Set(Int64.fetchAll(database, sql: "SELECT id FROM list")) == lists)
            #expect(try String.fetchAll(database, sql: "PRAGMA integrity_check") == ["ok"])
            #expect(try Row.fetchAll(database, sql: "PRAGMA foreign_key_check").isEmpty)
        }
    }
}
