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

    /// The rows that are saved are read from the database when it is written.
    private struct Snapshot: Sendable {
        /// Nil if the document's class has none.
        let additionalContent: [String: Data]?
    }

    private enum Reading {
        case merging
        /// The changes here are discarded. `isOwn` says whether the new contents are those of the
        /// document's file.
        case replacing(isOwn: Bool)
    }

    nonisolated private let databaseState = Mutex(DatabaseState.none)
    nonisolated private let schema: DatabaseMigrator
    private var mode = Reading.merging
    private var writing = 0
    private var waiting: [CheckedContinuation<Void, Never>] = []

    // MARK: The model

    /// A document whose subclass defines the schema.
    public override init(fileURL: URL) {
        schema = DatabaseMigrator()
        super.init(fileURL: fileURL)
    }

    /// A document with the schema that the migrator makes.
    public init(fileURL: URL, migrator: DatabaseMigrator) {
        schema = migrator
        super.init(fileURL: fileURL)
    }

    /// Brings an empty database, or one of an older version of the program, to the present schema.
    ///
    /// Opening migrates only the working copy; the document is migrated when it is saved next. A
    /// document with unknown migrations cannot be opened, because a newer version of the program
    /// wrote it. By default it is the one that was given to ``init(fileURL:migrator:)``.
    nonisolated open var migrator: DatabaseMigrator { schema }

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
                var migrator = migrator
                if hasAdditionalContent { AdditionalContent.register(in: &migrator) }
                let copy = try WorkingCopy(of: fileURL.path, migrator: migrator)
                databaseState = .copy(copy)
                return copy
            }
        }
    }

    nonisolated private static func closed(_ url: URL) -> DocumentError {
        DocumentError(.closed, "\(url.path) is closed: open it to read or change it")
    }

    // MARK: Additional content

    /// Whether the document has additional content: data by name that belong to no row, such as a
    /// preview or the positions of its windows. They are in the document's file, in a table of
    /// their own, and are saved and merged with it. The default is false. When a later version of
    /// a program returns true, that changes the schema as a migration does.
    nonisolated open var hasAdditionalContent: Bool { false }

    /// Returns the additional content, by name. It is called for each save if
    /// ``hasAdditionalContent`` is true. Report changes with ``Document/updateChangeCount(_:)``.
    open func additionalContent() throws -> [String: Data] { [:] }

    /// Makes `contents` the additional content. It is called when the document is read, and again
    /// when contents of others were read or merged; what is unsaved here is then in `contents`.
    open func loadAdditionalContent(_ contents: [String: Data]) throws {}

    private func loadAdditionalContent(from copy: WorkingCopy) throws {
        guard hasAdditionalContent else { return }
        try loadAdditionalContent(copy.queue.read(AdditionalContent.read))
    }

    /// Loads what a save has merged into the additional content that it wrote.
    private func loadMerged(_ merged: [String: Data], into written: [String: Data]) {
        do {
            let present = try additionalContent()
            try loadAdditionalContent(
                AdditionalContent.merge(base: written, ours: present, theirs: merged))
        } catch {
            handleError(error, userInteractionPermitted: true)
        }
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
        let isOpening = documentState.contains(.closed)
        if isOpening { databaseState.withLock { if case .closed = $0 { $0 = .none } } }
        let copy = try copy()
        switch isOpening ? .replacing(isOwn: true) : mode {
        case .replacing(let isOwn): try copy.replace(with: contents, isRead: isOwn)
        case .merging:
            if hasAdditionalContent, hasUnsavedChanges { try copy.write(additionalContent()) }
            if try copy.take(contents) {
                // Something was written at this moment, and loading counts as saved. This marks it
                // as unsaved again.
                Task { updateChangeCount(.done) }
            }
        }
        try loadAdditionalContent(from: copy)
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
        return Snapshot(additionalContent: hasAdditionalContent ? try additionalContent() : nil)
    }

    /// Merges what other programs have saved meanwhile with the unsaved changes, and writes the
    /// result.
    nonisolated open override func writeContents(
        _ contents: any Sendable, andAttributes attributes: FileWrapper.Attributes,
        safelyTo url: URL, for operation: SaveOperation
    ) throws {
        guard let contents = contents as? Snapshot else {
            return try super.writeContents(
                contents, andAttributes: attributes, safelyTo: url, for: operation)
        }
        let copy = try copy()
        if let content = contents.additionalContent { try copy.write(content) }
        let path = FilePath(url)
        if operation == .overwriting, let stamp = FileStamp(path),
            stamp != file.place.withLock(\.stamp)
        {
            _ = try copy.take(
                WorkingCopy.Contents(
                    path: url.path, data: try path.readAll(), source: source(of: url)))
            file.place.withLock { $0.stamp = stamp }
            if let written = contents.additionalContent {
                let merged = try copy.queue.read(AdditionalContent.read)
                if merged != written {
                    Task { @MainActor in loadMerged(merged, into: written) }
                }
            }
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
