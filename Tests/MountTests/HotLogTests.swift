import Foundation
import Glibc
import Support
import Testing

/// A database whose log a killed program has left.
@Suite(.serialized) struct HotLogTests {
    enum Place: CaseIterable { case document, volume }

    @Test(
        "wait names the database that it waits for, and ends when a program opens it",
        arguments: Place.allCases)
    func wait(for place: Place) throws {
        try MountedVolume.with { volume in
            let database = "\(volume.path)/data.db"
            let script = """
                PRAGMA journal_mode=wal; CREATE TABLE t (n); PRAGMA wal_autocheckpoint=0;
                INSERT INTO t SELECT value FROM generate_series(1, 300);
                """
            try Command(
                "sh", "-c",
                "{ echo \"$2\"; echo '.shell kill -9 $PPID'; } | sqlite3 \"$1\"; exit 0", "-",
                database, script
            ).succeed()
            let path = place == .document ? database : volume.path
            let waiting = try Beside("wait", "--durable", "disk", path)
            try waiting.wait(for: "its database log data.db-wal holds changes")
            let late = try Programs.fsctl("wait", "--timeout", "1", path).run()
            #expect(late.status != 0)
            #expect(late.errors.contains("Not yet safe on this disk: data.db is neither"))
            #expect(!waiting.hasEnded)
            let count = try Command("sqlite3", database, "SELECT count(*) FROM t").succeed()
            #expect(count == "300\n")
            #expect(try waiting.waitForEnd() == 0)
        }
    }
}
