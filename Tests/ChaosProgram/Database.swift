import Foundation
import Glibc
import Support

/// An SQLite database to which programs only add rows. Each row names its writer.
struct Database {
    let path: String

    static func isNamed(_ path: String) -> Bool { path.hasSuffix(".sqlite") }

    /// Whether the path is that of a file that SQLite keeps beside a database.
    static func isLog(_ path: String) -> Bool {
        ["-wal", "-shm", "-journal"].contains { path.hasSuffix(".sqlite" + $0) }
    }

    func rows(of writer: String, count: Int) -> [String] {
        (0..<count).map { "\(writer).\($0)" }
    }

    /// Adds rows from two programs at the same time, each row in a transaction of its own. Returns
    /// those that SQLite has reported as committed.
    func insert(_ rows: [String]) -> (rows: [String], errors: String) {
        let halves = [rows.prefix(rows.count / 2), rows.suffix(rows.count - rows.count / 2)]
        let scripts = halves.map { half in
            half.map { "INSERT INTO t VALUES('\($0)'); SELECT 'done \($0)';\n" }.joined()
        }
        var command = Command(
            "/bin/bash", "-c",
            """
            # Two programs that change the journal mode at once are refused, whatever the timeout.
            sqlite3 -bail -cmd '.timeout 20000' "$0" \
                'PRAGMA journal_mode=WAL; CREATE TABLE IF NOT EXISTS t(row TEXT PRIMARY KEY)' \
                || exit
            sqlite3 -bail -cmd '.timeout 20000' "$0" <<<"$1" & first=$!
            sqlite3 -bail -cmd '.timeout 20000' "$0" <<<"$2"; second=$?
            wait $first && exit $second
            """, path, scripts[0], scripts[1])
        command.timeoutSeconds = 200
        guard let result = try? command.run() else { return ([], "the programs did not end") }
        let done = result.output.split(separator: "\n").filter { $0.hasPrefix("done ") }
        return (
            done.map { String($0.dropFirst(5)) },
            result.status == 0 ? "" : "\(result.status): \(result.errors)"
        )
    }

    /// Opens and closes the database, so that SQLite writes a log that was left behind into it.
    func recover() {
        let hasLog = ["-wal", "-journal"].contains { access(path + $0, F_OK) == 0 }
        guard hasLog else { return }
        _ = try? Command(
            "sqlite3", "-cmd", ".timeout 20000", path,
            "SELECT count(*) FROM sqlite_master; PRAGMA wal_checkpoint"
        ).run()
    }

    /// Returns the rows of a database without a log; nil if it is damaged.
    static func rows(in bytes: Data) -> [String]? {
        if bytes.isEmpty { return [] }
        guard let home = try? TemporaryDirectory("database") else { return nil }
        let copy = "\(home.path)/copy.sqlite"
        guard (try? bytes.write(to: URL(filePath: copy))) != nil,
            let result = try? Command(
                "sqlite3", copy,
                """
                PRAGMA integrity_check;
                SELECT 'no table' WHERE NOT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 't');
                """
            ).run(), result.status == 0
        else { return nil }
        let lines = result.output.split(separator: "\n").map(String.init)
        guard lines.first == "ok" else { return nil }
        if lines.count > 1 { return [] }
        let rows = try? Command("sqlite3", copy, "SELECT row FROM t ORDER BY row").run()
        return rows?.output.split(separator: "\n").map(String.init)
    }
}
