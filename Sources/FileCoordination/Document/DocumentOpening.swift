import Control
import Foundation
import Model

/// Opens a document, reads it again, and closes it.
@MainActor struct DocumentOpening {
    private let document: Document

    init(_ document: Document) { self.document = document }

    func open() async throws {
        try await document.accesses.run {
            guard document.documentState.contains(.closed) else { return }
            do {
                let file = document.file
                let url = try await file.perform { try file.followLink() }
                try await DocumentDownload(document).run(of: url)
                let intent = FileAccessIntent.readingIntent(with: url)
                let reading = try await file.access([intent], for: document) { [document] _ in
                    file.place.withLock { place in
                        (place.url, place.isBeingDeleted) = (intent.url, false)
                    }
                    // The presenter is added within the coordinated read, so that it misses no
                    // later change.
                    FileCoordinator.addFilePresenter(document)
                    // If this fails, the next save tries it again.
                    try? PackageSave(of: FilePath(intent.url))?.recover()
                    return try DocumentReading(of: document, at: intent.url)
                }
                try reading.load(into: document)
                document.set(.closed, false)
                await DocumentFollowing(document).lookForConflicts()
            } catch {
                FileCoordinator.removeFilePresenter(document)
                document.handleError(error, userInteractionPermitted: true)
                throw error
            }
        }
    }

    func close() async throws {
        document.disableEditing()
        document.isClosing = true
        defer {
            document.isClosing = false
            document.enableEditing()
        }
        await document.accesses.settle()
        if document.file.isBeingDeleted {
            try await document.accesses.run { _ = try await DocumentDeletion(document).end() }
        }
        // An override of autosave() may have postponed saving. Closing must save now.
        if document.hasUnsavedChanges {
            try await document.save(to: document.fileURL, for: .overwriting)
        }
        try await document.accesses.run {
            guard !document.documentState.contains(.closed) else { return }
            document.autosaveTimer.cancel()
            try await end()
        }
    }

    /// Stops presenting the file. The document must have nothing unsaved.
    func end() async throws {
        // This runs in the file queue, so accesses that are under way end first.
        try await document.file.perform { [document] in
            FileCoordinator.removeFilePresenter(document)
        }
        document.undoManager.removeAllActions()
        document.set(.closed)
        document.set([.inConflict, .savingError], false)
    }

    func revert(toContentsOf url: URL) async throws {
        document.disableEditing()
        defer { document.enableEditing() }
        try await document.accesses.run {
            do {
                // The document may have moved since the caller read `fileURL`.
                let isOwn = url == document.fileURL
                let intent = FileAccessIntent.readingIntent(with: url, options: .withoutChanges)
                var reading = try await document.file.access([intent], for: document) {
                    [document] _ in try DocumentReading(of: document, at: intent.url)
                }
                if !isOwn {
                    // The file still has what was last read or written there.
                    reading.stay(at: document.file.place.withLock { $0 })
                }
                try reading.load(into: document)
                guard isOwn else { return document.updateChangeCount(.done) }
                await DocumentFollowing(document).lookForConflicts()
            } catch {
                document.handleError(error, userInteractionPermitted: true)
                throw error
            }
        }
    }
}

/// What a coordinated read has found.
struct DocumentReading: Sendable {
    private let contents: any Sendable
    private var stamp: FileStamp?
    private var contentHash: Int?

    /// Reads the file. It must run in the document's file queue.
    init(of document: Document, at url: URL) throws {
        // The stamp is taken before reading, so that a change by a program that does not coordinate
        // is noticed if it happens while we read.
        stamp = FileStamp(FilePath(url))
        contents = try document.read(from: url)
        contentHash = (contents as? Data)?.contentHash
    }

    /// Makes contents of another file those of a document whose own file is unchanged.
    mutating func stay(at known: DocumentPlace) {
        (stamp, contentHash) = (known.stamp, known.contentHash)
    }

    @MainActor func load(into document: Document) throws {
        // Undoing changes of the old contents would make no sense, and loading is no change.
        document.undoManager.disableUndoRegistration()
        document.isLoading = true
        defer {
            document.undoManager.enableUndoRegistration()
            document.isLoading = false
        }
        try document.load(fromContents: contents, ofType: document.fileType)
        document.undoManager.removeAllActions()
        document.file.place.withLock { place in
            (place.stamp, place.contentHash) = (stamp, contentHash)
        }
        document.changes.clear()
    }
}
