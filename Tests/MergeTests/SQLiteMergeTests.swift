import Model
import Support
import Testing

@testable import Merge

@Suite("Merging by rows") struct SQLiteMergeTests {
    private static let schema = """
        CREATE TABLE list(id INTEGER PRIMARY KEY, name TEXT UNIQUE ON CONFLICT REPLACE);
        CREATE TABLE note(id TEXT PRIMARY KEY NOT NULL, title TEXT COLLATE NOCASE, body,
            list INTEGER REFERENCES list(id) ON DELETE CASCADE, CHECK (title <> body));
        CREATE TABLE said(what TEXT PRIMARY KEY NOT NULL);
        CREATE TRIGGER tell AFTER UPDATE ON note BEGIN INSERT INTO said VALUES (new.id); END;
        INSERT INTO list VALUES (1, 'home'), (2, 'work');
        INSERT INTO note VALUES ('a', 'milk', 'x', 1), ('b', 'eggs', 'y', 1), ('c', 'tea', 'z', 2);
        """
    /// Removes the trigger, which only programs that use it have.
    private static let quiet = "DROP TRIGGER tell;"

    private struct Case {
        var ours: String
        var theirs: String
        var notes: [String]
        var lists = ["1|home", "2|work"]
        var lost: [String] = []
    }

    private func check(_ each: Case, _ place: SourceLocation = #_sourceLocation) throws {
        let databases = try Databases()
        let base = try databases.make(nil, Self.schema + Self.quiet)
        let ours = try databases.make(base, each.ours)
        let theirs = try databases.make(base, each.theirs)
        let outcome = try databases.merge(base, ours, theirs)
        let merged = try #require(outcome.bytes, "\(outcome)", sourceLocation: place)
        #expect(
            try databases.rows(merged, "SELECT * FROM note ORDER BY id")
                == each.notes, sourceLocation: place)
        #expect(
            try databases.rows(merged, "SELECT * FROM list ORDER BY id")
                == each.lists, sourceLocation: place)
        var lost: [String] = []
        let exists = "SELECT 1 FROM sqlite_schema WHERE name = '_sync_conflicts'"
        if try !databases.rows(merged, exists).isEmpty {
            lost = try databases.rows(
                merged,
                """
                SELECT tableName, rowKey, columnName, value FROM _sync_conflicts
                WHERE version = '\(Databases.source.version)' AND device = 'laptop' AND saved = 7
                """
            )
        }
        #expect(lost == each.lost, sourceLocation: place)
        #expect(databases.bench.left.isEmpty, sourceLocation: place)
        // The other device gets the same bytes.
        #expect(try Databases().merge(base, ours, theirs).bytes == merged, sourceLocation: place)
    }

    @Test("edits of different cells of a row are both kept") func cells() throws {
        try check(
            Case(
                ours: "UPDATE note SET title = 'MILK' WHERE id = 'a'",
                theirs: "UPDATE note SET body = 'two' WHERE id = 'a'; UPDATE note SET list = 2",
                notes: ["a|MILK|two|2", "b|eggs|y|2", "c|tea|z|2"]))
    }

    @Test("of one cell, ours is kept and theirs is recorded, even if only case differs")
    func sameCell() throws {
        try check(
            Case(
                ours: "UPDATE note SET title = 'Milk' WHERE id = 'a'",
                theirs: "UPDATE note SET title = 'oat milk', body = 'q' WHERE id = 'a'",
                notes: ["a|Milk|q|1", "b|eggs|y|1", "c|tea|z|2"],
                lost: ["note|'a'|title|oat milk"]))
        try check(
            Case(
                ours: "UPDATE note SET title = 'cocoa' WHERE id = 'a'",
                theirs: "UPDATE note SET title = 'MILK' WHERE id = 'a'",
                notes: ["a|cocoa|x|1", "b|eggs|y|1", "c|tea|z|2"],
                lost: ["note|'a'|title|MILK"]))
    }

    @Test("equal edits of both sides are one edit") func same() throws {
        try check(
            Case(
                ours: "UPDATE note SET title = 'M' WHERE id = 'a'; DELETE FROM note WHERE id = 'b'",
                theirs:
                    "DELETE FROM note WHERE id = 'b'; UPDATE note SET title = 'M', list = 2 "
                    + "WHERE id = 'a'; INSERT INTO list VALUES (3, 'x')",
                notes: ["a|M|x|2", "c|tea|z|2"], lists: ["1|home", "2|work", "3|x"]))
    }

    @Test("an edit wins over a deletion, whichever is newer") func deleted() throws {
        try check(
            Case(
                ours: "DELETE FROM note WHERE id IN ('a', 'b')",
                theirs: "UPDATE note SET body = NULL WHERE id = 'a'",
                notes: ["a|milk|NULL|1", "c|tea|z|2"]))
        try check(
            Case(
                ours: "UPDATE note SET body = x'00ff' WHERE id = 'a'",
                theirs: "DELETE FROM note WHERE id IN ('a', 'b')",
                notes: ["a|milk|0 ff|1", "c|tea|z|2"]))
    }

    @Test("if both insert a key, ours is the row and theirs is recorded") func inserted() throws {
        try check(
            Case(
                ours: "INSERT INTO note VALUES ('d', 'ours', 1, 1), ('e', 'same', 1, 1)",
                theirs: "INSERT INTO note VALUES ('d', 'theirs', 1, 2), ('e', 'same', 1, 1), "
                    + "('f', 'more', 1.5, 1)",
                notes: [
                    "a|milk|x|1", "b|eggs|y|1", "c|tea|z|2", "d|ours|1|1", "e|same|1|1",
                    "f|more|1.5|1",
                ],
                lost: ["note|'d'|body|1", "note|'d'|list|2", "note|'d'|title|theirs"]))
    }

    @Test("unique values that pass from row to row are applied in a working order") func order()
        throws
    {
        try check(
            Case(
                ours: "UPDATE note SET body = 'o' WHERE id = 'a'",
                theirs: """
                    UPDATE list SET name = 'old' WHERE id = 1;
                    UPDATE list SET name = 'home' WHERE id = 2;
                    INSERT INTO list VALUES (0, 'work');
                    """,
                notes: ["a|milk|o|1", "b|eggs|y|1", "c|tea|z|2"],
                lists: ["0|work", "1|old", "2|home"]))
    }

    @Test(
        "changes that violate a constraint or foreign key together are a conflict",
        arguments: [
            (
                "INSERT INTO list VALUES (3, 'new')", "INSERT INTO list VALUES (4, 'new')",
                "UNIQUE"
            ),
            (
                "UPDATE note SET title = 'same' WHERE id = 'a'",
                "UPDATE note SET body = 'same' WHERE id = 'a'", "CHECK"
            ),
            (
                "DELETE FROM note WHERE list = 2; DELETE FROM list WHERE id = 2",
                "INSERT INTO note VALUES ('d', 't', 'b', 2)", "refer"
            ),
            (
                "INSERT INTO note VALUES ('d', 't', 'b', 2)",
                "DELETE FROM note WHERE list = 2; DELETE FROM list WHERE id = 2", "refer"
            ),
        ])
    func constraints(_ ours: String, _ theirs: String, _ word: String) throws {
        let databases = try Databases()
        let base = try databases.make(nil, Self.schema + Self.quiet)
        let outcome = try databases.merge(
            base, try databases.make(base, ours), try databases.make(base, theirs))
        #expect(outcome.isConflict && outcome.reason?.contains(word) == true, "\(outcome)")
    }

    @Test("triggers do not run during a merge") func triggers() throws {
        let databases = try Databases()
        let base = try databases.make(nil, Self.schema)
        let ours = try databases.make(base, "INSERT INTO list VALUES (3, 'n')")
        let theirs = try databases.make(base, "UPDATE note SET body = 'n' WHERE id = 'a'")
        let merged = try #require(try databases.merge(base, ours, theirs).bytes)
        #expect(try databases.rows(merged, "SELECT * FROM said") == ["a"])
    }

    @Test("numbers of AUTOINCREMENT are not used twice") func sequences() throws {
        let databases = try Databases()
        let base = try databases.make(
            nil, "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a)")
        let ours = try databases.make(base, "INSERT INTO t(a) VALUES (1)")
        let theirs = try databases.make(
            base, "INSERT INTO t(id, a) VALUES (9, 1); DELETE FROM t; INSERT INTO t VALUES (2, 2)")
        let merged = try #require(try databases.merge(base, ours, theirs).bytes)
        #expect(try databases.rows(merged, "SELECT seq FROM sqlite_sequence") == ["9"])
        #expect(try databases.rows(merged, "SELECT id FROM t ORDER BY id") == ["1", "2"])
    }

    @Test(
        "databases that cannot be merged are refused with the reason",
        arguments: [
            ("CREATE TABLE t(a, b)", "", "primary key"),
            ("CREATE TABLE t(a TEXT PRIMARY KEY, b); INSERT INTO t VALUES (NULL, 1)", "", "NULL"),
            ("CREATE TABLE t(a TEXT PRIMARY KEY COLLATE NOCASE, b)", "", "bytes"),
            ("CREATE TABLE t(a INTEGER PRIMARY KEY, b AS (a + 1))", "", "generated"),
            ("CREATE VIRTUAL TABLE t USING fts5(a)", "", "virtual"),
            ("CREATE TABLE t(a INTEGER PRIMARY KEY)", "ALTER TABLE t ADD b", "schema: t"),
            ("CREATE TABLE t(a INTEGER PRIMARY KEY)", "PRAGMA user_version = 3", "user_version"),
            ("CREATE TABLE _sync_conflicts(a INTEGER PRIMARY KEY)", "", "_sync_conflicts"),
        ])
    func refused(_ schema: String, _ conversion: String, _ word: String) throws {
        let databases = try Databases()
        let all = "CREATE TABLE x(id INTEGER PRIMARY KEY, a); INSERT INTO x VALUES (1, 1); "
        let base = try databases.make(nil, all + schema)
        let ours = try databases.make(base, "INSERT INTO x VALUES (2, 2)")
        let theirs = try databases.make(base, "INSERT INTO x VALUES (3, 3); " + conversion)
        let outcome = try databases.merge(base, ours, theirs)
        #expect(outcome.isUnmergeable && outcome.reason?.contains(word) == true, "\(outcome)")
        #expect(databases.bench.left.isEmpty)
    }

    @Test("damaged files and other files are refused") func damage() throws {
        let databases = try Databases()
        let base = try databases.make(nil, Self.schema)
        let ours = try databases.make(base, "INSERT INTO list VALUES (3, 'o')")
        var theirs = try databases.make(base, "INSERT INTO list VALUES (4, 't')")
        #expect(try databases.merge(base, ours, Array("text".utf8)).isUnmergeable)
        #expect(try databases.merge(base, ours, []).isUnmergeable)
        for index in 4096..<theirs.count { theirs[index] = UInt8(truncatingIfNeeded: index) }
        #expect(try databases.merge(base, ours, theirs).isUnmergeable)
        #expect(databases.bench.left.isEmpty)
    }

    @Test("without a rule only databases that ask for it are merged; a rule decides")
    func chosen() throws {
        for (rules, id, isMerged) in [
            ("", 0, false), ("", Merger.databaseID, true), ("* -merge", 1, false),
            ("* -merge", Merger.databaseID, false), ("*.db merge=sqlite", 0, true),
        ] {
            let databases = try Databases(rules: rules)
            let base = try databases.make(nil, Self.schema + "PRAGMA application_id = \(id)")
            let outcome = try databases.merge(
                base, try databases.make(base, "INSERT INTO list VALUES (3, 'n')"),
                try databases.make(base, "INSERT INTO list VALUES (4, 'm')"))
            #expect((outcome.bytes != nil) == isMerged, "\(rules) \(id): \(outcome)")
        }
    }

    @Test("of two equal merges with different bytes one is kept unchanged")
    func settled() throws {
        let databases = try Databases()
        let base = try databases.make(nil, Self.schema)
        let ours = try databases.make(base, "UPDATE note SET title = 'o' WHERE id = 'a'")
        let theirs = try databases.make(
            base, "UPDATE note SET title = 't', body = 'b'; PRAGMA journal_mode = wal")
        let merged = try #require(try databases.merge(base, ours, theirs).bytes)
        // Another release of SQLite could have written this file.
        let other = try databases.make(merged, "VACUUM")
        #expect(other != merged)
        for start in [base, ours, theirs] {
            #expect(try databases.merge(start, merged, other).bytes == merged)
            #expect(try databases.merge(start, other, merged).bytes == other)
        }
        // A value that gave way is recorded only once.
        #expect(try databases.merge(base, merged, theirs).bytes == merged)
    }
}
