import Control
import Foundation
import Model

/// What a coordinated read has found.
struct DocumentReading: Sendable {
    let contents: any Sendable
    let stamp: FileStamp?
    var contentHash: Int? { (contents as? Data)?.contentHash }
}

extension Document {
    func openFile() async throws {
        try await inOrder { [self] in
            guard state.contains(.closed) else { return }
            do {
                let url = try await performAsynchronousFileAccess { try self.followLink() }
                try await showDownload(of: url)
                let intent = FileAccessIntent.readingIntent(with: url)
                let reading = try await access([intent]) { _ in
                    self.place.withLock { place in
                        (place.url, place.isBeingDeleted) = (intent.url, false)
                    }
                    // The presenter is added within the coordinated read, so that it misses no
                    // later change.
                    FileCoordinator.addFilePresenter(self)
                    // If this fails, the next save tries it again.
                    try? PackageSave(of: FilePath(intent.url))?.recover()
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

    /// For a symbolic link, the document is the link's target, because a save would replace the
    /// link.
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
            try await inOrder { _ = try await self.endDeletion() }
        }
        // An override of autosave() may have postponed saving. Closing must save now.
        if hasUnsavedChanges { try await save(to: fileURL, for: .overwriting) }
        try await inOrder { [self] in
            guard !state.contains(.closed) else { return }
            autosaving?.cancel()
            // This runs in the file queue, so accesses that are under way end first.
            try await performAsynchronousFileAccess { FileCoordinator.removeFilePresenter(self) }
            undoManager.removeAllActions()
            set(.closed)
            set([.inConflict, .savingError], false)
        }
    }

    func readAgain(_ url: URL) async throws {
        disableEditing()
        defer { enableEditing() }
        try await inOrder { [self] in
            do {
                // The document may have moved since the caller read `fileURL`.
                let isOwn = url == fileURL
                let intent = FileAccessIntent.readingIntent(with: url, options: .withoutChanges)
                let reading = try await access([intent]) { _ in
                    try self.reading(at: intent.url)
                }
                guard isOwn else {
                    let known = place.withLock { $0 }
                    try take(DocumentReading(contents: reading.contents, stamp: known.stamp))
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

    nonisolated private func reading(at url: URL) throws -> DocumentReading {
        // The stamp is taken before reading, so that a change by a program that does not coordinate
        // is noticed if it happens while we read.
        let stamp = FileStamp(FilePath(url))
        return DocumentReading(contents: try read(from: url), stamp: stamp)
    }

    private func take(_ reading: DocumentReading) throws {
        // Undoing changes of the old contents would make no sense, and loading is no change.
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

    /// Looks whether the file has changed. Several such calls lead to one look.
    nonisolated func lookAtFile() {
        Task { @MainActor in
            guard !isFollowing else { return }
            isFollowing = true
            do { try await inOrder { try await self.follow() } } catch {
                handleError(error, userInteractionPermitted: true)
            }
        }
    }

    private func follow() async throws {
        // Messages that arrive from now on need another look.
        isFollowing = false
        guard !state.contains(.closed) else { return }
        var isDeleted = place.withLock(\.isBeingDeleted)
        if !isDeleted { isDeleted = try await isMissing() }
        if isDeleted, try await endDeletion() { return }
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
        let reading = try await access([intent]) { [self] _ -> DocumentReading? in
            let known = place.withLock { $0.stamp }
            let stamp = FileStamp(FilePath(intent.url))
            return stamp == nil || stamp == known ? nil : try self.reading(at: intent.url)
        }
        // The user has changed the document meanwhile, and that is newer. The other contents stay
        // as a version.
        guard let reading, !hasUnsavedChanges else { return }
        try take(reading)
    }

    /// Whether the file was removed without an announcement. A program's system call waits for the
    /// announcement only for a moment, while other claims may keep it back. The message that the
    /// file was moved may be on its way, so a missing file is looked for twice. At the first look
    /// the kernel may still have the removed name in its cache.
    private func isMissing() async throws -> Bool {
        let url = place.withLock(\.url)
        guard try await isMissing(at: url, orUnlinked: true) else { return false }
        try await Task.sleep(for: .milliseconds(500))
        guard place.withLock(\.url) == url else { return false }
        return try await isMissing(at: url, orUnlinked: false)
    }

    private func isMissing(at url: URL, orUnlinked: Bool) async throws -> Bool {
        try await performAsynchronousFileAccess {
            let path = FilePath(url)
            guard path.isMissing || orUnlinked && path.isUnlinked else { return false }
            return try path.place() != nil
        }
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

    /// Downloads missing contents and publishes the progress. Reading alone would download them
    /// without showing progress.
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
            // Errors are ignored here, because the following read reports them better.
            guard let client = try? ControlClient(socket: place.socket) else { return }
            let request = Request(.download, path: place.components)
            _ = try? client.ask(request, as: Nothing.self, timeoutSeconds: 3600) { step in
                progress.completedUnitCount = Int64(step.fraction * 100)
            }
        }
    }
}
