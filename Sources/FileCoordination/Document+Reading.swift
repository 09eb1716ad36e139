import Control
import Foundation
import Model

extension Document {
    /// What was found in a turn.
    struct Reading: Sendable {
        let contents: any Sendable
        let stamp: FileStamp?
        var contentHash: Int? { (contents as? Data)?.contentHash }
    }

    func openFile() async throws {
        try await inTurn { [self] in
            guard state.contains(.closed) else { return }
            do {
                let url = try await performAsynchronousFileAccess { try self.followLink() }
                try await showDownload(of: url)
                let intent = FileAccessIntent.readingIntent(with: url)
                let reading = try await access([intent]) { _ in
                    self.place.withLock { place in
                        (place.url, place.isBeingDeleted) = (intent.url, false)
                    }
                    // Within the turn: nothing that happens after the reading goes unheard.
                    FileCoordinator.addFilePresenter(self)
                    return try self.reading(at: intent.url)
                }
                try take(reading)
                set(.closed, false)
                await lookForConflicts()
            } catch {
                FileCoordinator.removeFilePresenter(self)
                handleError(error, userInteractionPermitted: true)
                throw error
            }
        }
    }

    /// Of a symbolic link, the document is what it leads to: a save must not take its place.
    nonisolated private func followLink() throws -> URL {
        let path = FilePath(fileURL)
        guard path.kind == .symlink else { return fileURL }
        let url = URL(try path.followed(), isDirectory: fileURL.hasDirectoryPath)
        place.withLock { $0.url = url }
        return url
    }

    func closeFile() async throws {
        disableEditing()
        isClosing = true
        defer {
            isClosing = false
            enableEditing()
        }
        await settle()
        if place.withLock(\.isBeingDeleted) {
            try await inTurn { _ = try await self.endDeletion() }
        }
        // Saving may be put off by an override of autosave(), but not any longer.
        if hasUnsavedChanges { try await save(to: fileURL, for: .overwriting) }
        try await inTurn { [self] in
            guard !state.contains(.closed) else { return }
            autosaving?.cancel()
            // What is being done with the file is done before it is let go.
            try await performAsynchronousFileAccess { FileCoordinator.removeFilePresenter(self) }
            undoManager.removeAllActions()
            set(.closed)
            set([.inConflict, .savingError], false)
        }
    }

    func readAgain(_ url: URL) async throws {
        disableEditing()
        defer { enableEditing() }
        try await inTurn { [self] in
            do {
                // A move may have been heard of since.
                let isOwn = url == fileURL
                let intent = FileAccessIntent.readingIntent(with: url, options: .withoutChanges)
                let reading = try await access([intent]) { _ in
                    try self.reading(at: intent.url)
                }
                guard isOwn else {
                    let known = place.withLock { $0 }
                    try take(Reading(contents: reading.contents, stamp: known.stamp))
                    place.withLock { $0.contentHash = known.contentHash }
                    return updateChangeCount(.done)
                }
                try take(reading)
                await lookForConflicts()
            } catch {
                handleError(error, userInteractionPermitted: true)
                throw error
            }
        }
    }

    nonisolated private func reading(at url: URL) throws -> Reading {
        // Before: what is changed while it is read, by a program that takes no turns, is seen.
        let stamp = FileStamp(FilePath(url))
        return Reading(contents: try read(from: url), stamp: stamp)
    }

    private func take(_ reading: Reading) throws {
        // Undoing what was done to other contents makes no sense; and reading is no change.
        undoManager.disableUndoRegistration()
        isLoading = true
        defer {
            undoManager.enableUndoRegistration()
            isLoading = false
        }
        try load(fromContents: reading.contents, ofType: fileType)
        undoManager.removeAllActions()
        place.withLock { place in
            (place.stamp, place.contentHash) = (reading.stamp, reading.contentHash)
        }
        changes.clear()
    }

    // MARK: Following

    /// Something may have happened to the file; many such messages are one look.
    nonisolated func lookAtFile() {
        Task { @MainActor in
            guard !isFollowing else { return }
            isFollowing = true
            do { try await inTurn { try await self.follow() } } catch {
                handleError(error, userInteractionPermitted: true)
            }
        }
    }

    private func follow() async throws {
        // What happens from now on deserves another look.
        isFollowing = false
        guard !state.contains(.closed) else { return }
        if place.withLock(\.isBeingDeleted), try await endDeletion() { return }
        await lookForConflicts()
        let differs = try await performAsynchronousFileAccess { [self] in
            let (url, known) = place.withLock { ($0.url, $0.stamp) }
            let stamp = FileStamp(FilePath(url))
            return stamp != nil && stamp != known
        }
        guard differs, !hasUnsavedChanges else { return }
        disableEditing()
        defer { enableEditing() }
        let intent = FileAccessIntent.readingIntent(with: fileURL, options: .withoutChanges)
        let reading = try await access([intent]) { [self] _ -> Reading? in
            let known = place.withLock { $0.stamp }
            let stamp = FileStamp(FilePath(intent.url))
            return stamp == nil || stamp == known ? nil : try self.reading(at: intent.url)
        }
        // What the user has done all the same is newer; the other is kept as a version.
        guard let reading, !hasUnsavedChanges else { return }
        try take(reading)
    }

    private func lookForConflicts() async {
        let count = try? await performAsynchronousFileAccess { [self] in
            FilePath(fileURL).attribute("user.concord.conflicts").map {
                String(decoding: $0, as: UTF8.self)
            }
        }
        guard !state.contains(.closed) else { return }
        set(.inConflict, (count ?? nil).map { $0 != "0" } ?? false)
    }

    // MARK: Downloading

    /// Downloads what is not here, telling how far that is; reading would do the same silently.
    private func showDownload(of url: URL) async throws {
        let place = try await performAsynchronousFileAccess { () -> MountedPath? in
            let path = FilePath(url)
            let state = path.attribute("user.concord.state").map {
                String(decoding: $0, as: UTF8.self)
            }
            return state == "dataless" || state == "downloading" ? try path.place() : nil
        }
        guard let place else { return }
        let progress = Foundation.Progress(totalUnitCount: 100)
        self.progress = progress
        set(.progressAvailable)
        defer {
            set(.progressAvailable, false)
            self.progress = nil
        }
        try await performAsynchronousFileAccess {
            // Reading says better than this what does not go well.
            guard let client = try? ControlClient(socket: place.socket) else { return }
            let request = Request(.download, path: place.components)
            _ = try? client.ask(request, as: Nothing.self, timeoutSeconds: 3600) { step in
                progress.completedUnitCount = Int64(step.fraction * 100)
            }
        }
    }
}
