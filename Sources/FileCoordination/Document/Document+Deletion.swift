import Control
import Foundation
import Glibc
import Model

// A deletion by a program that does not coordinate, such as rm(1). Its system call waits for an
// answer while the kernel holds the directory, so nothing can be saved there in the meantime.
extension Document {
    nonisolated func deletionBegins() { place.withLock { $0.isBeingDeleted = true } }

    /// Returns whether such a deletion is under way. Then the document looks at its file only after
    /// the program's system call has ended.
    func awaitsDeletion() -> Bool {
        guard place.withLock(\.isBeingDeleted), !state.contains(.closed) else { return false }
        autosaving?.cancel()
        autosaving = nil
        // The deletions of the file and of each directory above it may all be announced before this
        // document has looked whether the file is gone.
        if !isAwaitingDeletion {
            isAwaitingDeletion = true
            disableEditing()
        }
        return true
    }

    /// Closes the document if its file is gone, and returns whether it was. It must run when no
    /// other access is under way.
    func endDeletion() async throws -> Bool {
        defer {
            if isAwaitingDeletion {
                isAwaitingDeletion = false
                enableEditing()
            }
        }
        let isGone = try await performAsynchronousFileAccess { [self] in
            let known = place.withLock { place in
                place.isBeingDeleted = false
                return place
            }
            // If another item is at the path by now, the document's own file is gone.
            let path = FilePath(known.url)
            return path.isUnlinked || FileStamp(path) != known.stamp
        }
        guard isGone else {
            noteUnsaved()
            return false
        }
        if hasUnsavedChanges {
            do { try await keepUnsaved() } catch {
                set(.savingError)
                throw error
            }
        }
        try await performAsynchronousFileAccess { FileCoordinator.removeFilePresenter(self) }
        undoManager.removeAllActions()
        set(.closed)
        set([.inConflict, .savingError], false)
        return true
    }

    /// Keeps the unsaved contents as a version of the deleted document.
    private func keepUnsaved() async throws {
        let snapshot = try contents(forType: fileType)
        try await performAsynchronousFileAccess { [self] in
            let path = FilePath(fileURL)
            guard let place = try path.place() else { return }
            // The draft goes to the volume's root if possible, because another program may be
            // removing the whole directory of the document.
            let directory =
                Glibc.access(place.mountPoint.description, W_OK) == 0
                ? place.mountPoint : path.parent
            let draft = directory.appending(path.draft.name)
            defer { draft.remove() }
            try writeContents(
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
