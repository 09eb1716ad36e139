import Control
import Foundation
import Glibc
import Model

/// What a save writes, as it was when the save began.
private struct SaveDraft: Sendable {
    let contents: any Sendable
    let attributes: FileWrapper.Attributes
    let token: ChangeCountToken
    let operation: Document.SaveOperation
    let url: URL
    /// Whether `url` is the document's own file, which may move before it is written.
    let isOwn: Bool
    /// The new extension, if the document's type has changed.
    let fileExtension: String?
}

extension Document {
    func write(to url: URL, for operation: SaveOperation) async throws {
        do {
            // The snapshot is taken before anything is waited for. Later changes belong to the next
            // save.
            let draft = try draft(url, operation)
            try await inOrder { try await self.write(draft) }
            failures = 0
            set(.savingError, false)
        } catch {
            if operation == .overwriting, (error as? CocoaError)?.code == .fileNoSuchFile {
                // The file was deleted during the save. The contents are kept as a version all the
                // same.
                deletionBegins()
                lookAtFile()
            }
            failures += 1
            set(.savingError)
            handleError(error, userInteractionPermitted: !isClosing)
            scheduleAutosave()
            throw error
        }
        // The user may have changed more during the save.
        scheduleAutosave()
    }

    private func draft(_ url: URL, _ operation: SaveOperation) throws -> SaveDraft {
        if operation == .overwriting, state.contains(.closed) {
            throw DocumentError(
                .closed, "\(url.path) is not open: open it, or save it with .creating")
        }
        let type = savingFileType
        var fileExtension: String?
        if operation == .overwriting, type != fileType {
            fileExtension = fileNameExtension(forType: type, saveOperation: operation)
        }
        let token = changeCountToken(for: operation)
        return SaveDraft(
            contents: try contents(forType: type),
            attributes: try fileAttributesToWrite(to: url, for: operation), token: token,
            operation: operation, url: url, isOwn: url == fileURL, fileExtension: fileExtension)
    }

    private func write(_ draft: SaveDraft) async throws {
        let isNew = draft.operation == .creating
        // It is soon known whether the file is gone. Until then no save may take its name.
        if !isNew, place.withLock(\.isBeingDeleted) { return }
        let url = draft.isOwn ? fileURL : draft.url
        var target = url
        if let fileExtension = draft.fileExtension {
            target = url.deletingPathExtension()
            if !fileExtension.isEmpty { target = target.appendingPathExtension(fileExtension) }
        }
        let intents: [FileAccessIntent] =
            if target != url {
                [
                    .writingIntent(with: url, options: .forMoving),
                    .writingIntent(with: target, options: .forReplacing),
                ]
            } else if isNew && (!draft.isOwn || state.contains(.closed)) {
                [.writingIntent(with: url, options: .forReplacing)]
            } else {
                [.writingIntent(with: url)]
            }
        try await access(intents) { [self] coordinator in
            let (from, to) = (intents[0].url, intents[intents.count - 1].url)
            if !isNew { try checkUnchanged(from) }
            place.withLock { $0.written = nil }
            if intents.count > 1 {
                try write(draft, from, to, coordinator)
            } else {
                try write(draft, to)
            }
            // The stamp is of what was written. Another program's contents may be at the path
            // already.
            let written = place.withLock { $0.written?.base == nil ? nil : $0.written }
            let stamp = written ?? FileStamp(FilePath(to))
            let wasElsewhere = place.withLock { place in
                let hash = (draft.contents as? Data)?.contentHash
                let source = place.source
                source?.move(to: FilePath(to))
                defer {
                    place = DocumentPlace(
                        url: to, stamp: stamp, isBeingDeleted: place.isBeingDeleted,
                        contentHash: hash, source: source)
                }
                return place.url != to
            }
            guard isNew || wasElsewhere else { return }
            FileCoordinator.removeFilePresenter(self)
            FileCoordinator.addFilePresenter(self)
        }
        updateChangeCount(withToken: draft.token, for: draft.operation)
        set(.closed, false)
    }

    /// Checks that the file is still what this document has read or written. On a volume nothing is
    /// overwritten: the save names its base, and other contents are merged with it or become a
    /// conflict version. Other file systems keep no versions, so there the save fails.
    nonisolated private func checkUnchanged(_ url: URL) throws {
        let path = FilePath(url)
        let known = place.withLock { $0 }
        guard let old = known.stamp, let stamp = FileStamp(path), stamp != old else { return }
        if let hash = known.contentHash, stamp.size == old.size,
            (try? path.readAll())?.contentHash == hash
        {
            // Only the file's modification time has changed.
            return place.withLock { $0.stamp = stamp }
        }
        if let place = try path.place() {
            // The unseen contents of a package become a version with the name of their program
            // before they are replaced.
            if stamp.packageBase != nil { place.recordVersions() }
            return
        }
        throw DocumentError(
            .changedElsewhere,
            "another program has changed \(path) since it was read: revert the document, or save "
                + "it with .creating, there or under another name")
    }

    nonisolated private func write(_ draft: SaveDraft, _ url: URL) throws {
        try writeContents(
            draft.contents, andAttributes: draft.attributes, safelyTo: url, for: draft.operation)
    }

    /// Saves under the name of another type. If possible the item keeps its identity: it is renamed
    /// first and then gets its new contents. A file that becomes a package is another item, and its
    /// presenters are told the new place.
    nonisolated private func write(
        _ draft: SaveDraft, _ from: URL, _ to: URL, _ coordinator: FileCoordinator
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

    // MARK: Saving automatically

    func saveChanges() async throws {
        await settle()
        if hasUnsavedChanges { try await save(to: fileURL, for: .overwriting) }
    }

    func note(_ change: Change) {
        // A change that a subclass's model reports while it is being loaded is no change by the
        // user.
        guard !isLoading else { return }
        switch change {
        case .done: changes.done()
        case .undone: changes.undone()
        case .redone: changes.redone()
        case .cleared: changes.clear()
        case .discardable: return
        }
        scheduleAutosave()
    }

    func undoManagerDid(_ happening: UndoHistory.HistoryEvent) {
        switch happening {
        case .registered: updateChangeCount(.done)
        case .lastActionExtended: changes.extendLastChange()
        case .undone: updateChangeCount(.undone)
        case .redone: updateChangeCount(.redone)
        }
    }

    func noteUnsaved() { scheduleAutosave() }

    private func scheduleAutosave() {
        guard autosaving == nil, hasUnsavedChanges else { return }
        // After failures the delay grows, so that a full disk is not tried all the time.
        let delay = min(autosaveDelay * (1 << min(failures, 5)), max(autosaveDelay, .seconds(30)))
        autosaving = Task { [weak self] in
            try? await Task.sleep(for: delay)
            guard let self, !Task.isCancelled else { return }
            autosaving = nil
            // A failed save has been reported to handleError already.
            try? await autosave()
        }
    }

    // MARK: In the file queue

    nonisolated func writeSafely(
        _ contents: any Sendable, _ attributes: FileWrapper.Attributes, _ url: URL,
        _ operation: SaveOperation
    ) throws {
        let target = FilePath(url)
        let draft = target.draft
        let isThere = target.kind != nil
        let base = operation == .overwriting ? place.withLock(\.stamp) : nil
        let save = base == nil ? nil : try PackageSave(of: target)
        try save?.recover()
        do {
            if let base { save?.begin(draft, madeFrom: base) }
            try writeContents(
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
            place.withLock { $0.written = stamp }
        } catch {
            save?.didKeep()
            draft.remove()
            save?.end()
            throw error
        }
    }

    nonisolated func writeNew(_ contents: any Sendable, _ url: URL, _ original: URL?) throws {
        switch contents {
        case let data as Data: try FilePath(url).create(with: data, permissions: nil)
        case let wrapper as FileWrapper: try wrapper.write(to: url, originalContentsURL: original)
        default:
            throw DocumentError(
                .unsupported,
                "contents(forType:) returned neither Data nor a FileWrapper: "
                    + "\(Swift.type(of: self)) must override "
                    + "writeContents(_:to:for:originalContentsURL:)")
        }
    }
}
