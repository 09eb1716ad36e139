import Control
import Foundation
import Glibc
import Support
import Testing

/// A SQLite database and its log are one document.
@Suite(.serialized) struct DatabaseLogTests {
    enum Mode: String, CaseIterable { case wal, delete }

    private func sqlite(_ device: MountedVolume, _ text: String) throws -> String {
        try Command("sqlite3", "\(device.path)/data.db", ".timeout 20000", text).succeed()
    }

    /// A program commits rows, or is in the middle of a transaction, and is killed.
    private func killedProgram(_ device: MountedVolume, _ mode: Mode) throws {
        // A small cache spills pages of the open transaction into the database.
        let script =
            mode == .wal
            ? """
            PRAGMA wal_autocheckpoint=0;
            INSERT INTO t SELECT 'b', value FROM generate_series(1, 300);
            """
            : """
            PRAGMA cache_size=2; PRAGMA cache_spill=1; BEGIN;
            INSERT INTO t SELECT 'lost', value FROM generate_series(1, 20000);
            UPDATE t SET n = -n;
            """
        try Command(
            "sh", "-c",
            "{ echo \"$2\"; echo '.shell kill -9 $PPID'; } | sqlite3 \"$1\"; exit 0", "-",
            "\(device.path)/data.db", script
        ).succeed()
    }

    @Test(arguments: Mode.allCases) func anArrivalWaitsForAHotLog(mode: Mode) throws {
        try Fleet.with(2) { fleet in
            let (a, b) = (fleet.devices[0], fleet.devices[1])
            _ = try sqlite(
                a,
                "PRAGMA journal_mode=\(mode.rawValue); CREATE TABLE t (who TEXT, n INTEGER);"
                    + "INSERT INTO t SELECT 'old', value FROM generate_series(1, 200);")
            try fleet.settle()
            try killedProgram(b, mode)
            let log = "\(b.path)/data.db-\(mode == .wal ? "wal" : "journal")"
            #expect(FileManager.default.fileExists(atPath: log))
            _ = try sqlite(a, "INSERT INTO t SELECT 'a', value FROM generate_series(1, 900);")
            // Device B says what it waits for.
            try wait(seconds: 60, for: "B to say why it waits") {
                let said = try Programs.fsctl("status", "--json", b.path).run().output
                return said.contains("data.db-") ? true : nil
            }
            try fleet.settle([0])
            #expect(try sqlite(a, "PRAGMA integrity_check;") == "ok\n")
            // A program opens the database, which applies the log or rolls it back.
            let mine = try sqlite(b, "PRAGMA integrity_check; SELECT count(*) FROM t;")
            #expect(mine == (mode == .wal ? "ok\n500\n" : "ok\n200\n"))
            try fleet.expectEqual(tries: 5)
            for device in fleet.devices {
                #expect(try sqlite(device, "PRAGMA integrity_check;") == "ok\n")
            }
            // The rows of both devices are in some version.
            let found = try rows(a)
            #expect(found.isSuperset(of: mode == .wal ? ["a900", "b300"] : ["a900"]))
            #expect(!found.contains { $0.hasPrefix("lost") })
        }
    }

    /// The program has a transaction open, so its changes are in the log or in its memory.
    @Test("an arrival waits for a program that has the database open", arguments: Mode.allCases)
    func aLiveProgram(mode: Mode) throws {
        let script = """
            import sqlite3, sys
            database = sqlite3.connect(sys.argv[1], isolation_level=None)
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT INTO t VALUES ('b', ?)", ((n,) for n in range(300)))
            print("begun", flush=True)
            sys.stdin.readline()
            database.execute("COMMIT")
            print("done", flush=True)
            sys.stdin.readline()
            database.close()
            """
        try Fleet.with(2) { fleet in
            let (a, b) = (fleet.devices[0], fleet.devices[1])
            _ = try sqlite(
                a,
                "PRAGMA journal_mode=\(mode.rawValue); CREATE TABLE t (who TEXT, n INTEGER);"
                    + "INSERT INTO t SELECT 'old', value FROM generate_series(1, 200);")
            try fleet.expectEqual()
            let program = try Beside(running: "python3", ["-c", script, "\(b.path)/data.db"])
            try program.wait(for: "begun")
            let before = try Data(contentsOf: URL(filePath: "\(b.tree)/data.db"))
            _ = try sqlite(a, "INSERT INTO t SELECT 'a', value FROM generate_series(1, 900);")
            try fleet.settle([0])
            // Each of these makes device B try again.
            for number in 0..<5 {
                try fleet.put(0, "small", "\(number)")
                try wait(seconds: 60, for: "the small one") {
                    fleet.text(1, "small") == "\(number)" ? true : nil
                }
                #expect(try Data(contentsOf: URL(filePath: "\(b.tree)/data.db")) == before)
            }
            program.tell("commit")
            try program.wait(for: "done")
            program.tell("close")
            #expect(try program.waitForEnd() == 0)
            try fleet.expectEqual(tries: 5)
            for device in fleet.devices {
                #expect(try sqlite(device, "PRAGMA integrity_check;") == "ok\n")
            }
            #expect(try rows(a).isSuperset(of: ["a900", "b300"]))
        }
    }

    /// What the versions of the database have, such as "a900" for 900 rows of `a`. Each version is
    /// whole.
    private func rows(_ device: MountedVolume) throws -> Set<String> {
        var found: Set<String> = []
        for content in try reachableContents(in: device.path)
        where content.starts(with: Data("SQLite".utf8)) {
            let file = try TemporaryDirectory("database")
            try content.write(to: URL(filePath: "\(file.path)/x.db"))
            let counts = try Command(
                "sqlite3", "\(file.path)/x.db",
                "SELECT who || count(*) FROM t GROUP BY who; PRAGMA integrity_check;"
            ).succeed()
            #expect(counts.hasSuffix("ok\n"))
            found.formUnion(counts.split(separator: "\n").map(String.init))
        }
        return found
    }

    @Test("an arrival does not wait for a log whose changes are all in the database")
    func aCopiedLog() throws {
        try Fleet.with(2) { fleet in
            let (a, b) = (fleet.devices[0], fleet.devices[1])
            _ = try sqlite(a, "PRAGMA journal_mode=wal; CREATE TABLE t (who TEXT, n INTEGER);")
            try fleet.settle()
            try Command(
                "sqlite3", "\(b.path)/data.db", ".filectrl persist_wal 1",
                "INSERT INTO t SELECT 'b', value FROM generate_series(1, 300);"
            ).succeed()
            #expect(try FileStatus(of: "\(b.path)/data.db-wal").size > 0)
            try fleet.settle()
            _ = try sqlite(a, "INSERT INTO t SELECT 'a', value FROM generate_series(1, 900);")
            try fleet.settle()
            let said = try sqlite(b, "SELECT count(*) FROM t; PRAGMA integrity_check;")
            #expect(said == "1200\nok\n")
        }
    }

    @Test("a restored database is whole, whatever its log holds", arguments: Mode.allCases)
    func restored(mode: Mode) throws {
        try MountedVolume.with { volume in
            let path = "\(volume.path)/data.db"
            _ = try sqlite(
                volume,
                "PRAGMA journal_mode=\(mode.rawValue); CREATE TABLE t (who TEXT, n INTEGER);"
                    + "INSERT INTO t SELECT 'old', value FROM generate_series(1, 200);")
            try volume.waitForDisk()
            _ = try sqlite(volume, "UPDATE t SET n = n + 1000;")
            try volume.waitForDisk()
            try killedProgram(volume, mode)
            let refusal = try Programs.fsctl("restore", path, "1").run()
            #expect(refusal.status != 0 && refusal.errors.contains("data.db-"))
            _ = try sqlite(volume, "PRAGMA integrity_check;")
            // A log stays behind whose changes are all in the database.
            try Command(
                "sqlite3", path, ".filectrl persist_wal 1", "UPDATE t SET n = n + 1000;"
            ).succeed()
            try Programs.fsctl("restore", path, "1").succeed()
            let said = try sqlite(volume, "SELECT count(*), sum(n) FROM t; PRAGMA integrity_check;")
            #expect(said == "200|20100\nok\n")
        }
    }

    /// A database of 5,000 rows; a program is in the middle of negating them when it is killed, or
    /// has just committed that to the log.
    private func halfNegated(_ volume: MountedVolume, _ mode: Mode, padding: Int) throws {
        _ = try sqlite(
            volume,
            "PRAGMA journal_mode=\(mode.rawValue); CREATE TABLE p (b);"
                + "INSERT INTO p VALUES (zeroblob(\(padding))); CREATE TABLE t (n INTEGER);"
                + "INSERT INTO t SELECT value FROM generate_series(1, 5000);")
        try volume.waitForDisk()
        let script =
            "PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=2; PRAGMA cache_spill=1; BEGIN;"
            + "UPDATE t SET n = -n;" + (mode == .wal ? "COMMIT;" : "")
        try Command(
            "sh", "-c",
            "{ echo \"$2\"; echo '.shell kill -9 $PPID'; } | sqlite3 \"$1\"; exit 0", "-",
            "\(volume.path)/data.db", script
        ).succeed()
        let ending = mode == .wal ? "wal" : "journal"
        #expect(FileManager.default.fileExists(atPath: "\(volume.path)/data.db-\(ending)"))
    }

    private func state(of database: String) throws -> String {
        let copy = try TemporaryDirectory("database")
        let file = "\(copy.path)/x.db"
        try FileManager.default.copyItem(atPath: database, toPath: file)
        return try Command(
            "sqlite3", file, "SELECT sum(n) FROM t; PRAGMA integrity_check;"
        ).succeed()
    }

    @Test(
        "a database that is deleted with its log has in its last version what SQLite would show",
        arguments: Mode.allCases, [0, 2_000_000])
    func deleted(mode: Mode, padding: Int) throws {
        try MountedVolume.with { volume in
            try halfNegated(volume, mode, padding: padding)
            let path = "\(volume.path)/data.db"
            try Command("sh", "-c", "rm -f \"$1\"*", "-", path).succeed()
            try volume.waitForDisk()
            try Programs.fsctl("undelete", path).succeed()
            let sum = mode == .wal ? -12_502_500 : 12_502_500
            #expect(try sqlite(volume, "SELECT sum(n) FROM t;") == "\(sum)\n")
            #expect(try sqlite(volume, "PRAGMA integrity_check;") == "ok\n")
            let stash = try FileManager.default.contentsOfDirectory(atPath: volume.store + "/stash")
            #expect(!stash.contains { $0.hasPrefix("log.") })
        }
    }

    @Test(
        "a state that SQLite rolls back is no version", arguments: Mode.allCases, [0, 2_000_000])
    func rolledBack(mode: Mode, padding: Int) throws {
        try MountedVolume.with { volume in
            try halfNegated(volume, mode, padding: padding)
            let path = "\(volume.path)/data.db"
            // The next program applies the log, or rolls it back, and saves something itself.
            _ = try sqlite(volume, "INSERT INTO t VALUES (7);")
            try volume.waitForDisk()
            let versions = "\(volume.path)/.versions/data.db"
            let states = try FileManager.default.contentsOfDirectory(atPath: versions).sorted()
                .map { try state(of: "\(versions)/\($0)") }
            let sum = mode == .wal ? -12_502_500 : 12_502_500
            let whole = [12_502_500, sum, sum + 7].map { "\($0)\nok\n" }
            #expect(Set(states).isSubset(of: whole) && states.last == whole[2], "\(states)")
            #expect(try state(of: path) == whole[2])
        }
    }
}
