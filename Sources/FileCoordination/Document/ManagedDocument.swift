import Control
import Foundation
import GRDB
import Merge
import Model
import Synchronization

/// A document whose model is an SQLite database. Changes that several people make at the same time
/// are merged row by row and cell by cell, by this class and by the volume's daemon, so that people
/// rarely see conflicts. <doc:ManagedDocuments> says how, and what a schema needs for it.
///
/// A subclass defines the schema; then read and write:
///
///     final class Library: ManagedDocument {
///         override var migrator: DatabaseMigrator {
///             var migrator = DatabaseMigrator()
///             migrator.registerMigration("1") { database in
///                 try database.create(table: "book") { table in
///                     table.primaryKey("id", .text)
///                     table.column("title", .text).notNull()
///                 }
///             }
///             return migrator
///         }
///     }
///
/// The working copy of the database is in a directory of this process and not on the volume. The
/// document's file is always one whole database, with no journal beside it.
@MainActor open class ManagedDocument: Document {
    private enum DatabaseState {
        /// The database has not been used yet.
        case none
        case copy(WorkingCopy)
        case closed
    }

    /// A placeholder: what is saved is read from the database when it is written.
    private struct Snapshot: Sendable {}

    private enum Reading {
        case merging
        /// The changes here are discarded. `isOwn` says whether the new contents are those of the
        /// document's file.
        case replacing(isOwn: Bool)
    }

    nonisolated private let databaseState = Mutex(DatabaseState.none)
    private var mode = Reading.merging
    private var writing = 0
    private var waiting: [CheckedContinuation<Void, Never>] = []

    // MARK: The model

    /// Brings an empty database, or one of an older version of the program, to the present schema.
    ///
    /// Opening migrates only the working copy; the document is migrated when it is saved next. A
    /// document with unknown migrations cannot be opened, because a newer version of the program
    /// wrote it.
    nonisolated open var migrator: DatabaseMigrator { DatabaseMigrator() }

    /// Reads the database, off the main actor. A new document that was not created yet is empty.
    ///
    /// - Throws: What `body` throws; ``DocumentError`` when the document is closed.
    @concurrent nonisolated public final func read<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws -> Value { try await copy().queue.read(body) }

    /// Changes the database in one transaction, off the main actor; the document is saved soon. If
    /// `body` throws, all its changes are undone.
    ///
    /// - Throws: What `body` throws; ``DocumentError`` when the document is closed.
    @discardableResult
    public final func write<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws -> Value {
        if isClosing { throw ManagedDocument.closed(fileURL) }
        let copy = try copy()
        // The change is counted before and after the transaction, so that the document counts as
        // unsaved all the time.
        updateChangeCount(.done)
        writing += 1
        defer {
            writing -= 1
            updateChangeCount(.done)
            if writing == 0 {
                for waiter in waiting { waiter.resume() }
                waiting = []
            }
        }
        return try await copy.queue.write(body)
    }

    /// A reader for `ValueObservation`, which also sees changes from other programs and devices.
    nonisolated public final var databaseReader: any DatabaseReader {
        get throws { try copy().queue }
    }

    nonisolated private func copy() throws -> WorkingCopy {
        try databaseState.withLock { databaseState in
            switch databaseState {
            case .copy(let copy): return copy
            case .closed: throw ManagedDocument.closed(fileURL)
            case .none:
                let copy = try WorkingCopy(of: fileURL.path, migrator: migrator)
                databaseState = .copy(copy)
                return copy
            }
        }
    }

    nonisolated private static func closed(_ url: URL) -> DocumentError {
        DocumentError(.closed, "\(url.path) is closed: open it to read or change it")
    }

    // MARK: Reading

    nonisolated open override func read(from url: URL) throws -> any Sendable {
        guard let data = try super.read(from: url) as? Data else {
            throw DocumentError(.unsupported, "\(url.path) is a directory and no database")
        }
        return WorkingCopy.Contents(path: url.path, data: data, source: source(of: url))
    }

    open override func load(fromContents contents: any Sendable, ofType type: String) throws {
        guard let contents = contents as? WorkingCopy.Contents else {
            throw DocumentError(
                .unsupported, "a ManagedDocument loads only what its read(from:) returns")
        }
        if state.contains(.closed) {
            databaseState.withLock { if case .closed = $0 { $0 = .none } }
            return try copy().replace(with: contents, isRead: true)
        }
        switch mode {
        case .replacing(let isOwn): try copy().replace(with: contents, isRead: isOwn)
        case .merging:
            guard try copy().take(contents) else { return }
            // Something was written at this moment, and loading counts as saved. This marks it as
            // unsaved again.
            Task { updateChangeCount(.done) }
        }
    }

    open override func revert(toContentsOf url: URL) async throws {
        mode = .replacing(isOwn: url == fileURL)
        defer { mode = .merging }
        try await super.revert(toContentsOf: url)
    }

    open override func close() async throws {
        if writing > 0 { await withCheckedContinuation { waiting.append($0) } }
        try await super.close()
        databaseState.withLock { $0 = .closed }
    }

    // MARK: Saving

    open override func contents(forType type: String) throws -> any Sendable {
        _ = try copy()
        return Snapshot()
    }

    /// Merges what other programs have saved meanwhile with the unsaved changes, and writes the
    /// result.
    nonisolated open override func writeContents(
        _ contents: any Sendable, andAttributes attributes: FileWrapper.Attributes,
        safelyTo url: URL, for operation: SaveOperation
    ) throws {
        guard contents is Snapshot else {
            return try super.writeContents(
                contents, andAttributes: attributes, safelyTo: url, for: operation)
        }
        let copy = try copy()
        let path = FilePath(url)
        if operation == .overwriting, let stamp = FileStamp(path),
            stamp != place.withLock(\.stamp)
        {
            _ = try copy.take(
                WorkingCopy.Contents(
                    path: url.path, data: try path.readAll(), source: source(of: url)))
            place.withLock { $0.stamp = stamp }
        }
        if operation == .creating { copy.forget() }
        try copy.save { data in
            try super.writeContents(
                data, andAttributes: attributes, safelyTo: url, for: operation)
        }
    }

    /// The version that contents come from. On file systems without versions the modification time
    /// identifies it.
    nonisolated private func source(of url: URL) -> MergeInput.Source? {
        if let version = (try? FileVersion.currentVersionOfItem(at: url)) ?? nil {
            let saved = version.modificationDate?.timeIntervalSince1970 ?? 0
            return MergeInput.Source(
                version: version.persistentIdentifier,
                device: version.localizedNameOfSavingComputer ?? "",
                saved: Timestamp.span(seconds: saved))
        }
        guard let date = FileStamp(FilePath(url))?.modified else { return nil }
        let saved = Timestamp.span(seconds: date.timeIntervalSince1970)
        return MergeInput.Source(version: "\(saved)", device: "", saved: saved)
    }
}
