import Foundation
import GRDBSQLite
import Model
import Testing

@testable import Journal

struct OpeningTests {
    let scratch: Scratch

    init() throws { scratch = try Scratch() }

    private func setting(_ name: String, of journal: Journal, writer: Bool) throws -> Int64? {
        let sql = "PRAGMA \(name)"
        return writer
            ? try journal.write { try $0.first(sql, []) { $0.integer(0) } }
            : try journal.read { try $0.first(sql, []) { $0.integer(0) } }
    }

    @Test func theWriterSyncsFullyAlsoAfterReopening() throws {
        for _ in 0..<3 {
            let journal = try scratch.create()
            #expect(try setting("synchronous", of: journal, writer: true) == 2)
            try journal.checkpoint()
            #expect(try setting("synchronous", of: journal, writer: true) == 2)
            try journal.close()
        }
        let journal = try Journal.open(path: scratch.path, checked: true)
        #expect(try setting("synchronous", of: journal, writer: true) == 2)
    }

    @Test func theSettingsAreOnEveryConnection() throws {
        let journal = try scratch.create()
        for writer in [true, false] {
            for (name, value) in [
                ("foreign_keys", Int64(1)), ("cell_size_check", 1), ("trusted_schema", 0),
                ("mmap_size", 0), ("busy_timeout", 5000), ("wal_autocheckpoint", 4000),
                ("journal_size_limit", 67_108_864), ("user_version", Int64(Schema.version)),
                ("application_id", Int64(Schema.applicationID)),
            ] {
                let found = try setting(name, of: journal, writer: writer)
                #expect(found == value || (name == "mmap_size" && found == nil), "\(name)")
            }
        }
        let mode = try journal.write { try $0.first("PRAGMA journal_mode", []) { $0.text(0) } }
        #expect(mode == "wal")
        try journal.checkpoint()
        #expect(try setting("busy_timeout", of: journal, writer: true) == 5000)
    }

    @Test func allTablesAreStrict() throws {
        let journal = try scratch.create()
        let loose = try journal.read { (reader) throws in
            try reader.all(
                """
                SELECT name FROM pragma_table_list
                WHERE schema = 'main' AND NOT strict AND name NOT LIKE 'sqlite_%'
                """, []
            ) { $0.text(0) }
        }
        #expect(loose.isEmpty)
    }

    @Test func theHotLookupsUseAnIndex() throws {
        let journal = try scratch.create()
        for query in [
            "SELECT * FROM items WHERE parent = 1 AND name = x'61' AND deleted IS NULL",
            "SELECT * FROM items WHERE parent = 1 AND deleted IS NULL ORDER BY name",
            "SELECT * FROM items WHERE inode = 5 AND inode <> 0 AND deleted IS NULL",
            "SELECT * FROM items WHERE parent = 1 AND name = x'61' AND deleted IS NOT NULL",
            "SELECT * FROM items WHERE deleted < 7",
            "SELECT * FROM versions WHERE item = 3 ORDER BY number",
            "SELECT 1 FROM versions WHERE manifest = 3",
            "SELECT key FROM manifests WHERE content = x'00' AND bytes = x''",
        ] {
            let plan = try journal.read { (reader) throws in
                try reader.all("EXPLAIN QUERY PLAN " + query, []) { $0.text(3) }
            }
            #expect(plan.count == 1 && plan[0].hasPrefix("SEARCH"), "\(query): \(plan)")
        }
    }

    @Test func contentOutlivesClosing() throws {
        let journal = try scratch.create()
        let key = try journal.write { try $0.insert(file("a")) }
        try journal.close()
        #expect(try scratch.names() == ["journal.sqlite"])
        let again = try Journal.open(path: scratch.path, checked: true)
        #expect(try again.read { try $0.item(key)?.name } == Name("a"))
        #expect(again.path == scratch.path)
    }

    @Test func afterClosingEverythingIsRefused() throws {
        let journal = try scratch.create()
        try journal.close()
        #expect(
            failure(naming: scratch.path) { () throws(VolumeError) in
                try journal.write { try $0.set("a", to: "b") }
            } == .invalid)
        #expect(
            failure(naming: scratch.path) { () throws(VolumeError) in
                try journal.read { try $0.value("a") }
            } == .invalid)
        #expect(journal.integrityProblems().count == 1)
        try journal.close()
    }

    @Test func nothingIsMadeUnasked() throws {
        #expect(
            failure(naming: scratch.path) { () throws(VolumeError) in
                try Journal.open(path: scratch.path)
            } == .notFound)
        #expect(try scratch.names().isEmpty)
        let nowhere = scratch.directory + "/missing/journal.sqlite"
        #expect(
            failure(naming: nowhere) { () throws(VolumeError) in
                try Journal.open(path: nowhere, mayCreate: true)
            } == .system)
    }

    @Test func aCreationCutShortIsTakenUpAgain() throws {
        // The states between creating the file and creating the tables: an empty file, and a
        // database without tables.
        #expect(FileManager.default.createFile(atPath: scratch.path, contents: nil))
        for round in 0..<2 {
            #expect(
                failure(naming: scratch.path) { () throws(VolumeError) in
                    try Journal.open(path: scratch.path)
                } == .damaged)
            if round == 0 {
                var connection: OpaquePointer?
                #expect(sqlite3_open(scratch.path, &connection) == SQLITE_OK)
                let sql = "PRAGMA journal_mode = WAL; CREATE TABLE x (y); DROP TABLE x"
                #expect(sqlite3_exec(connection, sql, nil, nil, nil) == SQLITE_OK)
                #expect(sqlite3_close(connection) == SQLITE_OK)
                #expect(scratch.contents()?.isEmpty == false)
            }
        }
        let journal = try scratch.create()
        #expect(try journal.read { try $0.itemCount() } == 1)
    }

    @Test func aNewerJournalIsRefusedAndUnchanged() throws {
        try scratch.createClosed(items: 10)
        var bytes = try #require(scratch.contents())
        // Bytes 60 to 63 of the header are `user_version`.
        bytes[bytes.startIndex + 63] = UInt8(Schema.version + 1)
        try bytes.write(to: URL(fileURLWithPath: scratch.path))
        for mayCreate in [false, true] {
            #expect(
                failure(naming: scratch.path) { () throws(VolumeError) in
                    try Journal.open(path: scratch.path, mayCreate: mayCreate, checked: true)
                } == .newer)
            #expect(scratch.contents() == bytes)
            #expect((scratch.contents("-wal") ?? Data()).isEmpty)
        }
    }

    /// A journal of a volume with a hub, whose triggers an older build has made.
    @Test func whatIsUnsentHasTimesAfterAnUpgrade() throws {
        let journal = try scratch.create()
        let key = try journal.write { transaction in
            try transaction.run("DROP TABLE unsent", [])
            try transaction.run("CREATE TABLE unsent (item INTEGER PRIMARY KEY) STRICT", [])
            for name in ["note_item", "note_item_change"] {
                try transaction.run(
                    """
                    CREATE TRIGGER \(name) AFTER INSERT ON items
                    BEGIN INSERT OR IGNORE INTO unsent (item) VALUES (new.key); END
                    """, [])
            }
            try transaction.run("DROP TABLE witnesses", [])
            try transaction.run("DROP TABLE confirmations", [])
            for table in [
                "owners", "sessions", "name_changes", "directory_owners", "unfinished", "grants",
                "fences",
            ] {
                try transaction.run("DROP TABLE \(table)", [])
            }
            try transaction.run("DROP INDEX mirror_place", [])
            try transaction.run("ALTER TABLE mirror DROP COLUMN place", [])
            try transaction.run("PRAGMA user_version = 4", [])
            return try transaction.insert(file("a"))
        }
        try journal.close()
        let upgraded = try Journal.open(path: scratch.path)
        #expect(try upgraded.read { try $0.hub.unsent(after: 0, limit: 9) } == [key])
        #expect(try upgraded.read { try $0.hub.unsentTimes(key).placed } == nil)
        try upgraded.write { transaction in
            var item = try #require(try transaction.item(key))
            item.name = Name("b")
            try transaction.update(item)
        }
        let times = try upgraded.read { try $0.hub.unsentTimes(key) }
        let now = Int64(Date().timeIntervalSince1970 * 1e9)
        #expect(abs(try #require(times.placed) - now) < 60_000_000_000)
        #expect(times.attributed == nil)
    }

    @Test func aNewerVersionThatIsOnlyInTheLogIsSeen() throws {
        let journal = try scratch.create()
        try journal.checkpoint()
        try journal.write { try $0.run("PRAGMA user_version = 99", []) }
        let copy = scratch.directory + "/copy.sqlite"
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: scratch.path + suffix, toPath: copy + suffix)
        }
        let before = ["", "-wal"].map { FileManager.default.contents(atPath: copy + $0) }
        #expect(
            failure(naming: copy) { () throws(VolumeError) in
                try Journal.open(path: copy)
            } == .newer)
        #expect(["", "-wal"].map { FileManager.default.contents(atPath: copy + $0) } == before)
    }

    @Test func transactionsAreCounted() throws {
        struct Enough: Error {}
        let journal = try scratch.create()
        #expect(journal.transactionCount == 0)
        for _ in 0..<3 { try journal.write { try $0.set("a", to: "b") } }
        #expect(throws: VolumeError.self) { try journal.write { _ in throw Enough() } }
        try journal.read { _ = try $0.value("a") }
        #expect(journal.transactionCount == 3)
    }

    @Test func checkpointEmptiesTheLog() throws {
        let journal = try scratch.create()
        try journal.write { try $0.set("a", to: "b") }
        #expect(scratch.contents("-wal")?.isEmpty == false)
        #expect(try journal.checkpoint())
        #expect(scratch.contents("-wal")?.isEmpty == true)
        try journal.read { (reader) throws in
            _ = try reader.value("a")
            // This runs on another thread, because this one holds the snapshot.
            let thread = Thread { try? journal.write { try $0.set("a", to: "c") } }
            thread.start()
            while !thread.isFinished { usleep(1000) }
            let other = Outcome()
            let second = Thread { other.done = try? journal.checkpoint() }
            second.start()
            while !second.isFinished { usleep(1000) }
            #expect(other.done == false)
        }
        #expect(try journal.checkpoint())
    }

    @Test func aBackupIsAJournal() throws {
        let journal = try scratch.create()
        try journal.write { transaction in
            for index in 0..<1000 { try transaction.insert(file("f\(index)")) }
        }
        let target = scratch.directory + "/copy's.sqlite"
        try journal.backup(to: target)
        #expect(
            failure(naming: target) { () throws(VolumeError) in
                try journal.backup(to: target)
            } == .invalid)
        #expect(
            failure(naming: scratch.directory) { () throws(VolumeError) in
                try journal.backup(to: scratch.directory + "/missing/x")
            } == .system)
        let copy = try Journal.open(path: target, checked: true)
        #expect(try copy.read { try $0.itemCount() } == 1001)
        #expect(
            try copy.read { try $0.children(of: Item.root) }
                == journal.read { try $0.children(of: Item.root) })
        #expect(copy.integrityProblems().isEmpty)
    }
}

/// It is read only after the thread that writes it has finished.
private final class Outcome: @unchecked Sendable {
    var done: Bool?
}
