import Control
import Foundation
import Glibc
import Model

extension Document {
    /// Moves the file, and the document with it, whether it is open or not. Other presenters of the
    /// file follow. Unsaved changes stay unsaved.
    ///
    /// - Throws: `CocoaError`: `.fileWriteFileExists` when something is at `url`, or what the file
    ///   system says, for example that `url` is on another one. ``FileCoordinationError``.
    public final func move(to url: URL) async throws {
        try await accesses.run { try await DocumentMove(self, url).move() }
    }

    /// Gives the file another name in its directory. A name without an extension gets that of the
    /// file.
    ///
    /// - Throws: What ``move(to:)`` throws; ``FileCoordinationError`` `.invalid` for what is no
    ///   name.
    public final func rename(to name: String) async throws {
        try await move(to: DocumentMove.url(of: name, beside: fileURL))
    }

    /// Saves unsaved changes, and copies the file. The document itself stays where it is.
    ///
    /// - Throws: What ``save(to:for:)`` and ``move(to:)`` throw.
    public final func duplicate(to url: URL) async throws {
        if hasUnsavedChanges { try await save(to: fileURL, for: .overwriting) }
        try await accesses.run { try await DocumentMove(self, url).copy() }
    }
}

/// A file operation on a document that is not a save.
@MainActor private struct DocumentMove {
    private let document: Document
    private let target: URL

    init(_ document: Document, _ target: URL) {
        (self.document, self.target) = (document, target)
    }

    static func url(of name: String, beside url: URL) throws(FileCoordinationError) -> URL {
        guard !name.isEmpty, name.utf8.count <= 255, name != ".", name != "..",
            !name.contains("/"), !name.contains("\0")
        else { throw FileCoordinationError(.invalid, "\"\(name)\" is not a name for a file") }
        let path = FilePath(url)
        var bytes = Array(name.utf8)
        let ending = path.name.fileExtension
        if Name(name).fileExtension.isEmpty, !ending.isEmpty {
            bytes += [UInt8(ascii: ".")] + ending
        }
        return URL(path.parent.appending(Name(bytes: bytes)), isDirectory: url.hasDirectoryPath)
    }

    func move() async throws {
        let intents: [FileAccessIntent] = [
            .writingIntent(with: document.fileURL, options: .forMoving),
            .writingIntent(with: target, options: .forReplacing),
        ]
        let isPresented = !document.documentState.contains(.closed)
        try await document.file.access(intents, for: document) { [document] _ in
            let (from, to) = (intents[0].url, intents[1].url)
            try FilePath(to).checkFree()
            try FilePath(from).move(to: FilePath(to))
            document.file.place.withLock { $0.move(to: to) }
            guard isPresented else { return }
            FileCoordinator.removeFilePresenter(document)
            FileCoordinator.addFilePresenter(document)
        }
    }

    func copy() async throws {
        let intents: [FileAccessIntent] = [
            .readingIntent(with: document.fileURL, options: .withoutChanges),
            .writingIntent(with: target, options: .forReplacing),
        ]
        try await document.file.access(intents, for: document) { _ in
            let (from, to) = (FilePath(intents[0].url), FilePath(intents[1].url))
            try to.checkFree()
            let draft = to.draft
            do {
                try FileManager.default.copyItem(at: URL(from), to: URL(draft))
                draft.takeAttributes(of: from)
                try draft.move(to: to)
            } catch {
                draft.remove()
                throw error
            }
        }
    }
}

extension FilePath {
    fileprivate func checkFree() throws(CocoaError) {
        guard kind != nil else { return }
        errno = EEXIST
        throw failure(.fileWriteUnknown)
    }
}
