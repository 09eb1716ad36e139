import Control
import Foundation
import Glibc
import Model

/// One save of a document: it takes the snapshot, and writes it when no other access is under way.
@MainActor struct DocumentSave {
    private let document: Document
    private let target: URL
    private let operation: Document.SaveOperation

    init(_ document: Document, to target: URL, for operation: Document.SaveOperation) {
        (self.document, self.target, self.operation) = (document, target, operation)
    }

    /// What is written, as it was when the save began.
    private struct Draft: Sendable {
        let contents: any Sendable
        let attributes: FileWrapper.Attributes
        let token: ChangeCountToken
        /// Whether the target is the document's own file, which may move before it is written.
        let isOwn: Bool
        /// The new extension, if the document's type has changed.
        let fileExtension: String?
    }

    func run() async throws {
        do {
            // The snapshot is taken before anything is waited for. Later changes belong to the next
            // save.
            let draft = try draft()
            try await document.accesses.run { try await write(draft) }
            document.autosaveTimer.noteSave()
            document.set(.savingError, false)
        } catch {
            if operation == .overwriting, (error as? CocoaError)?.code == .fileNoSuchFile {
                // The file was deleted during the save. The contents are kept as a version all the
                // same.
                document.file.deletionBegins()
                document.lookAtFile()
            }
            document.autosaveTimer.noteFailure()
            document.set(.savingError)
            document.handleError(error, userInteractionPermitted: !document.isClosing)
            document.autosaveTimer.start(for: document)
            throw error
        }
        // The user may have changed more during the save.
        document.autosaveTimer.start(for: document)
    }

    private func draft() throws -> Draft {
        if operation == .overwriting, document.documentState.contains(.closed) {
            throw DocumentError(
                .closed, "\(target.path) is not open: open it, or save it with .creating")
        }
        let type = document.savingFileType
        var fileExtension: String?
        if operation == .overwriting, type != document.fileType {
            fileExtension = document.fileNameExtension(forType: type, saveOperation: operation)
        }
        let token = document.changeCountToken(for: operation)
        return Draft(
            contents: try document.contents(forType: type),
            attributes: try document.fileAttributesToWrite(to: target, for: operation),
            token: token, isOwn: target == document.fileURL, fileExtension: fileExtension)
    }

    private func write(_ draft: Draft) async throws {
        let isNew = operation == .creating
        if !isNew, document.file.isBeingDeleted { return }
        let intents = intents(for: draft)
        try await document.file.access(intents, for: document) { coordinator in
            let (from, to) = (intents[0].url, intents[intents.count - 1].url)
            if !isNew { try document.file.checkUnchanged(at: from) }
            document.file.place.withLock { $0.written = nil }
            if intents.count > 1 {
                try write(draft, from, to, coordinator)
            } else {
                try write(draft, to)
            }
            let wasElsewhere = document.file.noteWritten(draft.contents, at: to)
            guard isNew || wasElsewhere else { return }
            FileCoordinator.removeFilePresenter(document)
            FileCoordinator.addFilePresenter(document)
        }
        document.updateChangeCount(withToken: draft.token, for: operation)
        document.set(.closed, false)
    }

    private func intents(for draft: Draft) -> [FileAccessIntent] {
        let url = draft.isOwn ? document.fileURL : target
        var renamed = url
        if let fileExtension = draft.fileExtension {
            renamed = url.deletingPathExtension()
            if !fileExtension.isEmpty { renamed = renamed.appendingPathExtension(fileExtension) }
        }
        if renamed != url {
            return [
                .writingIntent(with: url, options: .forMoving),
                .writingIntent(with: renamed, options: .forReplacing),
            ]
        }
        let isClosed = document.documentState.contains(.closed)
        let replaces = operation == .creating && (!draft.isOwn || isClosed)
        return [.writingIntent(with: url, options: replaces ? .forReplacing : [])]
    }

    // MARK: In the file queue

    nonisolated private func write(_ draft: Draft, _ url: URL) throws {
        try document.writeContents(
            draft.contents, andAttributes: draft.attributes, safelyTo: url, for: operation)
    }

    /// Saves under the name of another type. If possible the item keeps its identity: it is renamed
    /// first and then gets its new contents. A file that becomes a package is another item, and its
    /// presenters are told the new place.
    nonisolated private func write(
        _ draft: Draft, _ from: URL, _ to: URL, _ coordinator: FileCoordinator
    ) throws {
        let (old, new) = (FilePath(from), FilePath(to))
        guard new.kind == nil else {
            errno = EEXIST
            throw new.failure(.fileWriteUnknown)
        }
        let isDirectory = (draft.contents as? FileWrapper)?.isDirectory ?? false
        if let kind = old.kind, isDirectory == (kind == .directory) {
            try old.move(to: new)
            do { try write(draft, to) } catch {
                try? new.move(to: old)
                throw error
            }
        } else {
            try write(draft, to)
            coordinator.item(at: from, didMoveTo: to)
            old.remove()
        }
    }
}

/// How a snapshot gets to the disk, in the file queue of its document.
struct DocumentWriting {
    let document: Document
    let contents: any Sendable
    let operation: Document.SaveOperation

    /// Writes a draft beside the item at `url` and puts it in place in one step.
    func writeSafely(_ attributes: FileWrapper.Attributes, to url: URL) throws {
        let target = FilePath(url)
        let draft = target.draft
        let isThere = target.kind != nil
        let base = operation == .overwriting ? document.file.place.withLock(\.stamp) : nil
        let save = base == nil ? nil : try PackageSave(of: target)
        try save?.recover()
        do {
            if let base { save?.begin(draft, madeFrom: base) }
            try document.writeContents(
                contents, to: URL(draft), for: operation,
                originalContentsURL: isThere ? url : nil)
            if isThere, draft.kind == target.kind { draft.takeAttributes(of: target) }
            try draft.set(attributes)
            let stamp = FileStamp(draft)
            if let base {
                draft.name(base: base)
                try draft.install(at: target, madeFrom: base, save)
            } else {
                try draft.install(at: target)
            }
            save?.end()
            document.file.place.withLock { $0.written = stamp }
        } catch {
            save?.didKeep()
            draft.remove()
            save?.end()
            throw error
        }
    }

    /// Writes the contents to a path where nothing exists.
    func writeNew(to url: URL, original: URL?) throws {
        switch contents {
        case let data as Data: try FilePath(url).create(with: data, permissions: nil)
        case let wrapper as FileWrapper: try wrapper.write(to: url, originalContentsURL: original)
        default:
            throw DocumentError(
                .unsupported,
                "contents(forType:) returned neither Data nor a FileWrapper: "
                    + "\(Swift.type(of: document)) must override "
                    + "writeContents(_:to:for:originalContentsURL:)")
        }
    }
}
