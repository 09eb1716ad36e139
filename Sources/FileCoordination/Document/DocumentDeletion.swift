import Control
import Foundation
import Glibc
import Model

/// A deletion by a program that does not coordinate, such as rm(1). Its system call waits for an
/// answer while the kernel holds the directory, so nothing can be saved there in the meantime, and
/// the document looks at its file only after the system call has ended.
@MainActor struct DocumentDeletion {
    private let document: Document

    init(_ document: Document) { self.document = document }

    /// Returns whether such a deletion is under way. Then edits wait for its end.
    func begin() -> Bool {
        guard document.file.isBeingDeleted, !document.documentState.contains(.closed) else {
            return false
        }
        document.autosaveTimer.cancel()
        // The deletions of the file and of each directory above it may all be announced before this
        // document has looked whether the file is gone.
        if !document.isAwaitingDeletion {
            document.isAwaitingDeletion = true
            document.disableEditing()
        }
        return true
    }

    /// Closes the document if its file is gone, and returns whether it was. It must run when no
    /// other access is under way.
    func end() async throws -> Bool {
        defer {
            if document.isAwaitingDeletion {
                document.isAwaitingDeletion = false
                document.enableEditing()
            }
        }
        let file = document.file
        let isGone = try await file.perform {
            let known = file.place.withLock { place in
                place.isBeingDeleted = false
                return place
            }
            // If another item is at the path by now, the document's own file is gone.
            let path = FilePath(known.url)
            return path.isUnlinked || FileStamp(path) != known.stamp
        }
        guard isGone else {
            document.autosaveTimer.start(for: document)
            return false
        }
        if document.hasUnsavedChanges {
            do { try await keepUnsaved() } catch {
                document.set(.savingError)
                throw error
            }
        }
        try await DocumentOpening(document).end()
        return true
    }

    /// Keeps the unsaved contents as a version of the deleted document.
    private func keepUnsaved() async throws {
        let snapshot = try document.contents(forType: document.fileType)
        try await document.file.perform { [document] in
            let path = FilePath(document.fileURL)
            guard let place = try path.place() else { return }
            // The draft goes to the volume's root if possible, because another program may be
            // removing the whole directory of the document.
            let directory =
                access(place.mountPoint.description, W_OK) == 0 ? place.mountPoint : path.parent
            let draft = directory.appending(path.draft.name)
            defer { draft.remove() }
            try document.writeContents(
                snapshot, andAttributes: FileWrapper.Attributes(), safelyTo: URL(draft),
                for: .creating)
            var request = Request(.add, path: place.components)
            request.from = RawText(path: try draft.place()?.components ?? [])
            request.deleted = true
            request.program = ProcessInfo.processInfo.processName
            do throws(VolumeError) {
                let client = try ControlClient(socket: place.socket)
                _ = try client.ask(request, as: AdditionReport.self)
            } catch { throw FileCoordinationError(error) }
        }
    }
}
