import Control
import Foundation
import Glibc
import Model

// A deletion by a program that takes no turns: while its system call waits for an answer, the
// kernel holds the directory, so that nothing can be saved there.
extension Document {
    nonisolated func deletionBegins() { place.withLock { $0.isBeingDeleted = true } }

    /// Whether it is seen later what becomes of the file: when the program has had its turn.
    func awaitsDeletion() -> Bool {
        guard place.withLock(\.isBeingDeleted), !state.contains(.closed) else { return false }
        autosaving?.cancel()
        autosaving = nil
        // The removal of the file and of each directory above it may be announced before this
        // document has looked whether the file is gone.
        if !isAwaitingDeletion {
            isAwaitingDeletion = true
            disableEditing()
        }
        return true
    }

    /// Closes the document if its file is gone. Called when nothing else is under way.
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
            // Where there is something else by now, it is nothing of this document.
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

    /// What the user has typed last becomes a version of the document that was deleted.
    private func keepUnsaved() async throws {
        let snapshot = try contents(forType: fileType)
        try await performAsynchronousFileAccess { [self] in
            let path = FilePath(fileURL)
            guard let place = try path.place() else { return }
            // Rather not where others may be removing a whole directory.
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
