import FileCoordination
import Foundation
import GRDB
import Support
import Testing

/// Documents that are databases, on any file system.
@Suite("Managed documents") struct ManagedDocumentTests {
    private func books(_ path: String, _ more: String? = nil) throws -> [String] {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        return try queue.write { database in
            if let more { try database.execute(sql: more) }
            return try String.fetchAll(database, sql: "SELECT title FROM book ORDER BY title")
        }
    }

    private func created(_ path: String, _ titles: String...) throws {
        let library = try onMain { Library(fileURL: URL(filePath: path)) }
        try onMain { try await library.add(titles) }
        try onMain {
            try await library.save(to: library.fileURL, for: .creating)
            try await library.close()
        }
    }

    @Test("a saved document is one file with everything in it, and nothing beside it")
    func saved() throws {
        let directory = try TemporaryDirectory("managed")
        let path = "\(directory.path)/a.library"
        try created(path, "one", "two")
        let library = try onMain { Library(fileURL: URL(filePath: path)) }
        try onMain {
            try await library.open()
            #expect(!library.hasUnsavedChanges)
            try await library.add(["three"])
            #expect(library.hasUnsavedChanges)
            #expect(try await library.titles() == ["one", "three", "two"])
            try await library.close()
        }
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: directory.path) == ["a.library"])
        #expect(try books(path) == ["one", "three", "two"])
        let header = try Data(contentsOf: URL(filePath: path)).prefix(100)
        #expect(Array(header[18..<20]) == [1, 1], "no write-ahead log")
        #expect(Array(header[68..<72]) == Array("CNCD".utf8))
        try onMain {
            await #expect(throws: DocumentError.self) { try await library.titles() }
            await #expect(throws: DocumentError.self) { try await library.add(["lost"]) }
        }
    }

    @Test("opening writes nothing, and neither does a failed change") func quiet() throws {
        let directory = try TemporaryDirectory("managed")
        let path = "\(directory.path)/a.library"
        try created(path, "one")
        let before = try Data(contentsOf: URL(filePath: path))
        try onMain {
            let library = Library(fileURL: URL(filePath: path))
            try await library.open()
            await #expect(throws: DatabaseError.self) {
                try await library.write { try $0.execute(sql: "INSERT INTO book VALUES (NULL)") }
            }
            try await library.close()
        }
        #expect(try Data(contentsOf: URL(filePath: path)) == before)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: directory.path) == ["a.library"])
    }

    @Test("a change during closing is saved or refused, never lost")
    func closing() throws {
        let directory = try TemporaryDirectory("managed")
        for round in 0..<20 {
            let path = "\(directory.path)/\(round).library"
            try created(path)
            let isKept = try onMain {
                let library = Library(fileURL: URL(filePath: path))
                try await library.open()
                let writing = Task { @MainActor in (try? await library.add(["late"])) != nil }
                if round.isMultiple(of: 2) { await Task.yield() }
                try await library.close()
                return await writing.value
            }
            #expect(try books(path) == (isKept ? ["late"] : []))
        }
    }

    @Test("contents by others are read, and observers see them") func followed() throws {
        let directory = try TemporaryDirectory("managed")
        let path = "\(directory.path)/a.library"
        try created(path, "one")
        let library = try onMain { Library(fileURL: URL(filePath: path)) }
        let seen = try onMain {
            try await library.open()
            let stream = ValueObservation.tracking(Library.allTitles)
                .values(in: try library.databaseReader)
            return Task { () throws -> [[String]] in
                var seen: [[String]] = []
                for try await titles in stream {
                    seen.append(titles)
                    if titles.count == 2 { break }
                }
                return seen
            }
        }
        _ = try books(path, "INSERT INTO book(id, title) VALUES ('x', 'two')")
        try onMain {
            try await library.revert(toContentsOf: library.fileURL)
            #expect(try await seen.value.last == ["one", "two"])
            #expect(!library.hasUnsavedChanges)
            try await library.close()
        }
    }

    @Test("unsaved changes stay when the file changes, and the next save has both")
    func unsaved() throws {
        try withTurns([]) { root in
            let path = "\(root)/a.library"
            try created(path, "one", "two")
            try onMain {
                let quick = Library(fileURL: URL(filePath: path))
                let slow = SlowLibrary(fileURL: URL(filePath: path))
                try await quick.open()
                try await slow.open()
                try await slow.rename("one", to: "mine")
                try await slow.add(["three"])
                try await quick.rename("one", to: "theirs")
                try await quick.rename("two", to: "deux")
                try await quick.autosave()
                #expect(slow.hasUnsavedChanges)
                try await slow.autosave()
                #expect(try await slow.titles() == ["deux", "mine", "three"])
                let lost = try await slow.read { database in
                    let row = try Row.fetchOne(database, sql: "SELECT * FROM _sync_conflicts")
                    return [row?["value"], row?["version"]] as [String?]
                }
                #expect(lost[0] == "theirs")
                let version = try #require(lost[1])
                try await quick.close()
                try await slow.close()
                // All rows, joined into one line.
                let url = URL(filePath: path)
                let kept = try FileVersion.version(ofItemAt: url, forPersistentIdentifier: version)
                #expect(kept?.isConflict == false)
                #expect(try FileVersion.otherVersionsOfItem(at: url)?.count == 2)
            }
            #expect(try books(path) == ["deux", "mine", "three"])
        }
    }

    @Test("changes that cannot be merged stay unsaved, and the error says why")
    func unfit() throws {
        try withTurns([]) { root in
            let path = "\(root)/a.library"
            try created(path, "one")
            try onMain {
                let quick = Library(fileURL: URL(filePath: path))
                let slow = SlowLibrary(fileURL: URL(filePath: path))
                try await quick.open()
                try await slow.open()
                try await slow.add(["same"])
                try await quick.add(["same"])
                try await quick.autosave()
                let error = await #expect(throws: DocumentError.self) { try await slow.autosave() }
                #expect(
                    error?.code == .changedElsewhere && error?.message.contains("UNIQUE") == true)
                #expect(slow.hasUnsavedChanges && slow.documentState == .savingError)
                #expect(try await slow.titles() == ["one", "same"])
                try await slow.revert(toContentsOf: slow.fileURL)
                try await slow.close()
                try await quick.close()
            }
            #expect(try books(path) == ["one", "same"])
        }
    }

    @Test("opening an older document migrates only the copy, until it is changed")
    func older() throws {
        let directory = try TemporaryDirectory("managed")
        let path = "\(directory.path)/a.library"
        try created(path, "one")
        let before = try Data(contentsOf: URL(filePath: path))
        try onMain {
            let library = NewerLibrary(fileURL: URL(filePath: path))
            try await library.open()
            #expect(try await library.read { try $0.columns(in: "book").count } == 3)
            try await library.close()
        }
        #expect(try Data(contentsOf: URL(filePath: path)) == before)
        try onMain {
            let library = NewerLibrary(fileURL: URL(filePath: path))
            try await library.open()
            try await library.write { try $0.execute(sql: "UPDATE book SET pages = 7") }
            try await library.close()
            // The old program refuses it, because it is too new.
            let old = Library(fileURL: URL(filePath: path))
            await #expect(throws: DocumentError.self) { try await old.open() }
            #expect(old.documentState == .closed)
        }
        #expect(try books(path) == ["one"])
    }

    @Test("an empty file is an empty document; what is no database is refused") func others() throws
    {
        let directory = try TemporaryDirectory("managed")
        let empty = try directory.write("", to: "empty.library")
        let text = try directory.write(
            String(repeating: "some text\n", count: 100), to: "text.library")
        try onMain {
            let library = Library(fileURL: URL(filePath: empty))
            try await library.open()
            #expect(try await library.titles() == [])
            try await library.add(["one"])
            try await library.close()
            let other = Library(fileURL: URL(filePath: text))
            let error = await #expect(throws: DocumentError.self) { try await other.open() }
            #expect(error?.message.contains("text.library") == true)
        }
        #expect(try books(empty) == ["one"])
    }

    @Test("additional content is saved and read with the rows")
    func additionalContent() throws {
        let directory = try TemporaryDirectory("managed")
        let path = "\(directory.path)/a.library"
        try created(path, "one")
        try onMain {
            let library = IllustratedLibrary(fileURL: URL(filePath: path))
            try await library.open()
            #expect(library.pictures.isEmpty && !library.hasUnsavedChanges)
            library.pictures = ["cover": Data([1, 2]), "back": Data([3])]
            try await library.close()
        }
        let before = try Data(contentsOf: URL(filePath: path))
        try onMain {
            let library = IllustratedLibrary(fileURL: URL(filePath: path))
            try await library.open()
            #expect(library.pictures == ["cover": Data([1, 2]), "back": Data([3])])
            #expect(try await library.titles() == ["one"])
            library.updateChangeCount(.done)
            try await library.autosave()
            #expect(try Data(contentsOf: URL(filePath: path)) == before, "nothing had changed")
            library.pictures["back"] = nil
            try await library.close()
            try await library.open()
            #expect(library.pictures == ["cover": Data([1, 2])])
            try await library.close()
            let old = Library(fileURL: URL(filePath: path))
            await #expect(throws: DocumentError.self) { try await old.open() }
        }
    }

    @Test("a document without a subclass has the schema of the given migrator")
    func plain() throws {
        let directory = try TemporaryDirectory("managed")
        let path = "\(directory.path)/a.library"
        try created(path, "one")
        try onMain {
            let migrator = Library(fileURL: URL(filePath: path)).migrator
            let document = ManagedDocument(fileURL: URL(filePath: path), migrator: migrator)
            try await document.open()
            #expect(try await document.read(Library.allTitles) == ["one"])
            try await document.close()
        }
    }

    @Test("additional contents of two programs are merged by name, also those that are unsaved")
    func mergedContent() throws {
        try withTurns([]) { root in
            let path = "\(root)/a.library"
            try created(path, "one")
            try onMain {
                let quick = IllustratedLibrary(fileURL: URL(filePath: path))
                try await quick.open()
                quick.pictures = ["a": Data([0]), "b": Data([0]), "c": Data([0])]
                try await quick.autosave()
                let slow = SlowIllustratedLibrary(fileURL: URL(filePath: path))
                try await slow.open()
                slow.pictures["a"] = Data([1])
                slow.pictures["d"] = Data([1])
                quick.pictures["a"] = Data([2])
                quick.pictures["b"] = Data([2])
                quick.pictures["c"] = nil
                try await quick.autosave()
                #expect(slow.hasUnsavedChanges)
                slow.loaded = nil
                try await slow.autosave()
                let all = ["a": Data([1]), "b": Data([2]), "d": Data([1])]
                while slow.loaded == nil { await Task.yield() }
                #expect(slow.pictures == all)
                let kept = try await slow.read { database in
                    try Data.fetchAll(database, sql: "SELECT value FROM _sync_conflicts")
                }
                #expect(kept == [Data([2])])
                try await slow.close()
                try await quick.revert(toContentsOf: quick.fileURL)
                #expect(quick.pictures == all)
                try await quick.close()
            }
        }
    }
}

private class Library: ManagedDocument {
    nonisolated override var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { database in
            try database.create(table: "book") { table in
                table.primaryKey("id", .text)
                table.column("title", .text).notNull().unique()
            }
        }
        return migrator
    }

    override var autosaveDelay: Duration { .seconds(3600) }

    nonisolated static func allTitles(_ database: Database) throws -> [String] {
        try String.fetchAll(database, sql: "SELECT title FROM book ORDER BY title")
    }

    func titles() async throws -> [String] { try await read(Library.allTitles) }

    func rename(_ old: String, to new: String) async throws {
        try await write { database in
            try database.execute(
                sql: "UPDATE book SET title = ? WHERE title = ?", arguments: [new, old])
        }
    }

    func add(_ titles: [String]) async throws {
        try await write { database in
            for title in titles {
                try database.execute(
                    sql: "INSERT INTO book(id, title) VALUES (?, ?)",
                    arguments: [UUID().uuidString, title])
            }
        }
    }
}

/// A document that does not save when other programs want to read it.
private final class SlowLibrary: Library {
    nonisolated override var presentedItemMessages: FilePresenterMessages { [.relinquishToWriter] }
}

private final class NewerLibrary: Library {
    nonisolated override var migrator: DatabaseMigrator {
        var migrator = super.migrator
        migrator.registerMigration("2") { database in
            try database.alter(table: "book") { $0.add(column: "pages", .integer) }
        }
        return migrator
    }
}

private class IllustratedLibrary: Library {
    var pictures: [String: Data] = [:] {
        didSet { if !isLoadingPictures { updateChangeCount(.done) } }
    }
    /// What was loaded last.
    var loaded: [String: Data]?
    private var isLoadingPictures = false

    nonisolated override var hasAdditionalContent: Bool { true }

    override func additionalContent() throws -> [String: Data] { pictures }

    override func loadAdditionalContent(_ contents: [String: Data]) throws {
        isLoadingPictures = true
        (pictures, loaded) = (contents, contents)
        isLoadingPictures = false
    }
}

private final class SlowIllustratedLibrary: IllustratedLibrary {
    nonisolated override var presentedItemMessages: FilePresenterMessages { [.relinquishToWriter] }
}
