import Foundation
import GRDBSQLite
import Model
import Testing

@testable import Journal

struct DamageTests {
    let scratch: Scratch
    private let pageSize = 4096

    init() throws {
        scratch = try Scratch()
        try scratch.createClosed(items: 1500)
    }

    private func put(_ bytes: Data) throws {
        for name in try scratch.names() where name != "journal.sqlite" {
            try FileManager.default.removeItem(atPath: scratch.directory + "/" + name)
        }
        try bytes.write(to: URL(fileURLWithPath: scratch.path))
    }

    private func expectRefusal(of bytes: Data, checked: Bool, _ what: String) throws {
        try put(bytes)
        for mayCreate in [false, true] {
            let code = failure(naming: scratch.path) { () throws(VolumeError) in
                try Journal.open(path: scratch.path, mayCreate: mayCreate, checked: checked)
            }
            #expect(code == .damaged, "\(what)")
            #expect(scratch.contents() == bytes, "\(what)")
        }
    }

    @Test func everyPageWithFlippedBytesIsFoundByTheCheck() throws {
        let sound = try #require(scratch.contents())
        #expect(sound.count > 50 * pageSize)
        for page in 0..<sound.count / pageSize {
            var bytes = sound
            for index in page * pageSize..<page * pageSize + 64 { bytes[index] ^= 0xFF }
            try expectRefusal(of: bytes, checked: true, "page \(page + 1)")
        }
    }

    @Test func uncheckedDamageIsNamedWhenItIsMet() throws {
        var bytes = try #require(scratch.contents())
        // The pages of the schema say where the tables begin. All other pages are damaged.
        let pages = try Journal.open(path: scratch.path).read { reader in
            try reader.all("SELECT pageno FROM dbstat WHERE name <> 'sqlite_schema'", []) {
                Int($0.integer(0))
            }
        }
        for page in pages {
            for index in (page - 1) * pageSize..<page * pageSize { bytes[index] ^= 0xA5 }
        }
        try put(bytes)
        let journal = try Journal.open(path: scratch.path)
        #expect(
            failure(naming: scratch.path) { () throws(VolumeError) in
                try journal.read { try $0.children(of: Item.root) }
            } == .damaged)
        #expect(
            failure(naming: scratch.path) { () throws(VolumeError) in
                try journal.write { try $0.insert(file("new")) }
            } == .damaged)
        #expect(!journal.integrityProblems().isEmpty)
    }

    @Test func aTruncatedFileIsRefused() throws {
        let sound = try #require(scratch.contents())
        for count in [1, 99, 100, 511, 4095, 4096, 4097, sound.count / 2, sound.count - 4096] {
            try expectRefusal(of: sound.prefix(count), checked: true, "\(count) bytes")
        }
        try expectRefusal(of: sound.prefix(sound.count / 2), checked: false, "half, unchecked")
    }

    @Test func garbageIsRefused() throws {
        var random = Seeded(state: 11)
        let noise = Data((0..<20_000).map { _ in UInt8(truncatingIfNeeded: random.next()) })
        for checked in [false, true] {
            try expectRefusal(of: noise, checked: checked, "noise")
            try expectRefusal(of: Data("hello".utf8), checked: checked, "text")
            try expectRefusal(of: Data(count: 8192), checked: checked, "zeros")
        }
    }

    @Test func aDirectoryInItsPlaceIsRefused() throws {
        try FileManager.default.removeItem(atPath: scratch.path)
        try FileManager.default.createDirectory(
            atPath: scratch.path, withIntermediateDirectories: false)
        #expect(
            failure(naming: scratch.path) { () throws(VolumeError) in
                try Journal.open(path: scratch.path, mayCreate: true)
            } == .system)
    }

    @Test func anotherProgramsDatabaseIsRefused() throws {
        var bytes = try #require(scratch.contents())
        bytes[71] ^= 1  // The last byte of application_id.
        try expectRefusal(of: bytes, checked: false, "another application")
    }

    @Test func aLogWithoutItsJournalIsNotThrownAway() throws {
        let journal = try Journal.open(path: scratch.path)
        try journal.write { try $0.set("a", to: "b") }
        let copy = scratch.directory + "/copy.sqlite"
        try FileManager.default.copyItem(atPath: scratch.path + "-wal", toPath: copy + "-wal")
        for empty in [false, true] {
            if empty { try Data().write(to: URL(fileURLWithPath: copy)) }
            #expect(
                failure(naming: copy) { () throws(VolumeError) in
                    try Journal.open(path: copy, mayCreate: true)
                } == .damaged)
            #expect(
                FileManager.default.contents(atPath: copy + "-wal") == scratch.contents("-wal"))
        }
    }

    @Test func aStrangeValueInARowIsNamed() throws {
        let journal = try Journal.open(path: scratch.path)
        try journal.write { transaction in
            try transaction.run("PRAGMA ignore_check_constraints = ON", [])
            try transaction.run("UPDATE items SET kind = 77 WHERE key = 5", [])
            try transaction.run("UPDATE items SET id = x'00' WHERE key = 6", [])
            try transaction.run("PRAGMA ignore_check_constraints = OFF", [])
        }
        for (key, column) in [(Int64(5), "kind"), (6, "id")] {
            do {
                _ = try journal.read { try $0.item(key) }
                Issue.record("The row was taken.")
            } catch {
                #expect(error.code == .damaged)
                #expect(error.message.contains(column) && error.message.contains(scratch.path))
            }
        }
        #expect(try journal.read { try $0.item(7)?.name } == Name("f5"))
        let problems = journal.integrityProblems()
        #expect(problems.contains { $0.contains("CHECK") }, "\(problems)")
    }

    @Test func strayRowsAreProblems() throws {
        let journal = try Journal.open(path: scratch.path)
        try journal.write { try $0.insert(version(1), of: 5, manifest: [1]) }
        #expect(journal.integrityProblems().isEmpty)
        // A separate connection, which does not check foreign keys.
        var connection: OpaquePointer?
        #expect(sqlite3_open(scratch.path, &connection) == SQLITE_OK)
        #expect(sqlite3_exec(connection, "DELETE FROM manifests", nil, nil, nil) == SQLITE_OK)
        #expect(sqlite3_close(connection) == SQLITE_OK)
        #expect(journal.integrityProblems().contains { $0.contains("manifests") })
    }
}
