import Control
import Foundation
import Model

/// Looks what other programs have done with a document's file: it was deleted, replaced, or has
/// versions in conflict.
@MainActor struct DocumentFollowing {
    private let document: Document

    init(_ document: Document) { self.document = document }

    /// Looks unless an earlier look is still waiting for its turn.
    func look() async {
        guard !document.isFollowing else { return }
        document.isFollowing = true
        do { try await document.accesses.run { try await follow() } } catch {
            document.handleError(error, userInteractionPermitted: true)
        }
    }

    private func follow() async throws {
        // Messages that arrive from now on need another look.
        document.isFollowing = false
        guard !document.documentState.contains(.closed) else { return }
        let file = document.file
        var isDeleted = file.isBeingDeleted
        if !isDeleted { isDeleted = try await isMissing() }
        if isDeleted, try await DocumentDeletion(document).end() { return }
        await lookForConflicts()
        let differs = try await file.perform {
            let (url, known) = file.place.withLock { ($0.url, $0.stamp) }
            let stamp = FileStamp(FilePath(url))
            return stamp != nil && stamp != known
        }
        guard differs, !document.hasUnsavedChanges else { return }
        document.disableEditing()
        defer { document.enableEditing() }
        let intent = FileAccessIntent.readingIntent(
            with: document.fileURL, options: .withoutChanges)
        let reading = try await file.access([intent], for: document) {
            [document] _ -> DocumentReading? in
            let known = file.place.withLock { $0.stamp }
            let stamp = FileStamp(FilePath(intent.url))
            return stamp == nil || stamp == known
                ? nil : try DocumentReading(of: document, at: intent.url)
        }
        // The user has changed the document meanwhile, and that is newer. The other contents stay
        // as a version.
        guard let reading, !document.hasUnsavedChanges else { return }
        try reading.load(into: document)
    }

    /// Whether the file was removed without an announcement. A program's system call waits for the
    /// announcement only for a moment, while other claims may keep it back. The message that the
    /// file was moved may be on its way, so a missing file is looked for twice. At the first look
    /// the kernel may still have the removed name in its cache.
    private func isMissing() async throws -> Bool {
        let url = document.fileURL
        guard try await isMissing(at: url, orUnlinked: true) else { return false }
        try await Task.sleep(for: .milliseconds(500))
        guard document.fileURL == url else { return false }
        return try await isMissing(at: url, orUnlinked: false)
    }

    private func isMissing(at url: URL, orUnlinked: Bool) async throws -> Bool {
        try await document.file.perform {
            let path = FilePath(url)
            guard path.isMissing || orUnlinked && path.isUnlinked else { return false }
            return try path.place() != nil
        }
    }

    func lookForConflicts() async {
        let file = document.file
        let count = try? await file.perform {
            FilePath(file.url).attribute("user.concord.conflicts").map {
                String(decoding: $0, as: UTF8.self)
            }
        }
        guard !document.documentState.contains(.closed) else { return }
        document.set(.inConflict, (count ?? nil).map { $0 != "0" } ?? false)
    }
}
