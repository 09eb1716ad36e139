import Control
import Foundation
import GRDB
import Glibc
import Merge
import Model
import Synchronization

/// The database of an open document: a file in a directory of this process, where SQLite may keep
/// its journal beside it. On a volume that journal would be a document, too.
final class WorkingCopy: Sendable {
    let queue: DatabaseQueue
    private let directory: FilePath
    private let migrator: DatabaseMigrator
    /// What the document's file contained when it was last read or written, in our schema. Every
    /// difference between this and the database is an unsaved change.
    private let base = Mutex(Data())

    /// The contents of a file, and the version that they are.
    struct Contents: Sendable {
        let path: String
        let data: Data
        let source: MergeInput.Source?
    }

    /// Makes an empty database in the present schema.
    init(of path: String, migrator: DatabaseMigrator) throws {
        self.migrator = migrator
        directory = try WorkingCopy.makeDirectory()
        do {
            queue = try DatabaseQueue(path: directory.appending("database").description)
        } catch {
            directory.remove()
            throw error
        }
        try replace(with: Contents(path: path, data: Data(), source: nil), isRead: true)
    }

    deinit {
        try? queue.close()
        directory.remove()
    }

    /// Replaces the database's contents. With `isRead` they count as saved, otherwise as an unsaved
    /// change.
    func replace(with contents: Contents, isRead: Bool) throws {
        let new = try prepared(contents)
        try queue.writeWithoutTransaction { database in
            try fill(database, with: new)
            if isRead { try keepBase() }
        }
    }

    /// Merges contents that other programs have saved into the database: unsaved changes are
    /// applied to them.
    ///
    /// - Returns: Whether the database has changes that the file does not have.
    func take(_ contents: Contents) throws -> Bool {
        let theirs = try prepared(contents)
        return try queue.writeWithoutTransaction { database in
            let (ours, old) = (try bytes, base.withLock { $0 })
            guard ours != old else {
                try fill(database, with: theirs)
                try keepBase()
                return false
            }
            let merged = try merge(old, ours, theirs, of: contents)
            if merged != ours { try fill(database, with: merged) }
            base.withLock { $0 = theirs }
            return true
        }
    }

    /// Passes the database's bytes to `body`, which writes them; does nothing when there are no
    /// unsaved changes.
    func save(_ body: (Data) throws -> Void) throws {
        let contents = try queue.writeWithoutTransaction { _ in try bytes }
        guard contents != base.withLock({ $0 }) else { return }
        try body(contents)
        base.withLock { $0 = contents }
    }

    /// Replaces the additional content in the database.
    func write(_ additionalContent: [String: Data]) throws {
        try queue.write { try AdditionalContent.write(additionalContent, to: $0) }
    }

    /// Makes everything in the database count as unsaved.
    func forget() { base.withLock { $0 = Data() } }

    // MARK: Bytes

    /// Filling a database changes its header, so its bytes differ from those that were read.
    private func keepBase() throws {
        let now = try bytes
        base.withLock { $0 = now }
    }

    /// The bytes of the database. It must be called within the queue and outside of a transaction,
    /// when everything is in the file.
    private var bytes: Data { get throws { try directory.appending("database").readAll() } }

    private func fill(_ database: Database, with contents: Data) throws {
        try withFile(contents) { path in
            let source = try DatabaseQueue(path: path)
            try source.writeWithoutTransaction { try $0.backup(to: database) }
            try source.close()
        }
        try database.inTransaction(.immediate) {
            try database.notifyChanges(in: .fullDatabase)
            return .commit
        }
    }

    /// Returns the contents in our schema, marked as a database that may be merged by rows.
    private func prepared(_ contents: Contents) throws -> Data {
        try withFile(contents.data) { path in
            do {
                let queue = try DatabaseQueue(path: path)
                try queue.writeWithoutTransaction { database in
                    try database.execute(sql: "PRAGMA journal_mode = DELETE")
                }
                if try queue.read(migrator.hasBeenSuperseded) {
                    throw DocumentError(
                        .unsupported,
                        "\(contents.path) was written by a newer version of this program: "
                            + "update this one to open it")
                }
                try migrator.migrate(queue)
                try queue.writeWithoutTransaction { database in
                    let id = try Int32.fetchOne(database, sql: "PRAGMA application_id")
                    guard id == 0 else { return }
                    try database.execute(sql: "PRAGMA application_id = \(Merger.databaseID)")
                }
                try queue.close()
            } catch let error as DatabaseError where error.resultCode == .SQLITE_NOTADB {
                throw DocumentError(.unsupported, "\(contents.path) is not an SQLite database")
            }
            return try FilePath(path).readAll()
        }
    }

    private func withFile<Value>(_ contents: Data, _ body: (String) throws -> Value) throws
        -> Value
    {
        let place = try WorkingCopy.makeDirectory()
        defer { place.remove() }
        let file = place.appending("database")
        try file.create(with: contents, permissions: nil)
        return try body(file.description)
    }

    private func merge(
        _ base: Data, _ ours: Data, _ theirs: Data, of contents: Contents
    ) throws -> Data {
        let rules = MergeRules(file: Array("* merge=sqlite".utf8))
        let merger = Merger(
            rules: rules, tools: MergeTools(), scratch: directory.appending("merge").description)
        let input = MergeInput(
            path: [Name("database")], base: .bytes(Array(base)), ours: .bytes(Array(ours)),
            theirs: .bytes(Array(theirs)), isAsked: true, source: contents.source)
        let outcome: MergeOutcome
        do throws(VolumeError) { outcome = try merger.merge(input) } catch {
            throw FileCoordinationError(error)
        }
        switch outcome {
        case .clean(let bytes, by: _): return Data(bytes)
        case .conflict(let why), .unmergeable(let why):
            throw DocumentError(
                .changedElsewhere,
                "the contents of \(contents.path) that others have saved and the unsaved changes "
                    + "here cannot be merged: \(why) Revert the document, or save it with "
                    + ".creating under another name")
        case .ask: throw DocumentError(.changedElsewhere, "\(contents.path) cannot be merged")
        }
    }

    private static func makeDirectory() throws -> FilePath {
        let base = FilePath(FileManager.default.temporaryDirectory)
        if let made = FilePath.makeTemporaryDirectory(named: "concord-managed") { return made }
        throw base.failure(.fileWriteUnknown)
    }
}
