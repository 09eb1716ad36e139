import Model
import Testing

@testable import concord

@Suite("Names in folders of other programs") struct SyncedNameTests {
    @Test(
        "the document that a file is the other side of a conflict of",
        arguments: [
            ("a.sync-conflict-20240102-101112-ABCDEFG.txt", "a.txt"),
            ("a.sync-conflict-20240102-101112.tar", "a.tar"),
            ("a.tar.sync-conflict-20240102-101112-2345672.gz", "a.tar.gz"),
            ("Makefile.sync-conflict-20240102-101112-ABCDEFG", "Makefile"),
            ("a (Anna's conflicted copy 2024-01-02).txt", "a.txt"),
            ("a (Anna’s MacBook's conflicted copy 2024-01-02 (1)).txt", "a.txt"),
            ("a (conflicted copy 2024-01-02 101112).txt", "a.txt"),
            ("a (conflicted copy anna 2024-01-02 101112)", "a"),
            ("a (b) (conflicted copy 2024-01-02 101112).txt", "a (b).txt"),
            ("a_conflict-20240102-101112.txt", "a.txt"),
        ])
    func conflicts(name: String, document: String) {
        #expect(SyncedName(Name(name)).conflicting == Name(document))
    }

    @Test(
        "names of people's own",
        arguments: [
            "a.txt", "conflicted copy.txt", "a conflict.txt", "a.sync-conflict.txt",
            "a (conflict).txt", "sync-conflict-20240102-101112-ABCDEFG.txt", "a (copy).txt",
            "a (conflicted copy of the contract).pdf", "a_conflict-2024.txt",
        ])
    func ordinary(name: String) {
        #expect(SyncedName(Name(name)).conflicting == nil)
        #expect(!SyncedName(Name(name)).isOfProgram)
        #expect(SyncedName(Name(name)).versioned == Name(name))
    }

    @Test("names that are not UTF-8 are ordinary ones")
    func bytes() {
        let name = Name(bytes: [0xFF] + Array(" (conflicted copy 2024-01-02 101112).txt".utf8))
        #expect(SyncedName(name).conflicting == nil && SyncedName(name).versioned == name)
    }

    @Test("old versions of Syncthing")
    func versions() {
        #expect(SyncedName(Name("a~20240102-101112.txt")).versioned == Name("a.txt"))
        #expect(SyncedName(Name("a.tar~20240102-101112.gz")).versioned == Name("a.tar.gz"))
        #expect(SyncedName(Name("Makefile~20240102-101112")).versioned == Name("Makefile"))
    }

    @Test(
        "what programs need for themselves",
        arguments: [
            ".stfolder", ".stversions", ".dropbox", ".dropbox.cache", ".syncthing.a.txt.tmp",
            "~syncthing~a.txt.tmp", ".sync_0123456789ab.db", "._sync_0123456789ab.db-wal",
            ".owncloudsync.log", ".nextcloudsync.log.1",
        ])
    func programs(name: String) { #expect(SyncedName(Name(name)).isOfProgram) }
}
