import Control
import Foundation
import Glibc
import Model

extension Document {
    /// What is to be written, as it was when saving began.
    private struct Draft: Sendable {
        let contents: any Sendable
        let attributes: FileWrapper.Attributes
        let token: ChangeCountToken
        let operation: SaveOperation
        let url: URL
        /// It is meant to be where the document is by then.
        let isOwn: Bool
        /// When the type has changed.
        let fileExtension: String?
    }

    func write(to url: URL, for operation: SaveOperation) async throws {
        do {
            // Now, before anything is waited for: what is done from now on is for the next save.
            let draft = try draft(url, operation)
            try await inTurn { try await self.write(draft) }
            failures = 0
            set(.savingError, false)
        } catch {
            if operation == .overwriting, (error as? CocoaError)?.code == .fileNoSuchFile {
                // Deleted while it was being saved. What was to be saved is kept all the same.
                deletionBegins()
                lookAtFile()
            }
            failures += 1
            set(.savingError)
            handleError(error, userInteractionPermitted: !isClosing)
            scheduleAutosave()
            throw error
        }
        // What was done meanwhile.
        scheduleAutosave()
    }

    private func draft(_ url: URL, _ operation: SaveOperation) throws -> Draft {
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
        return Draft(
            contents: try contents(forType: type),
            attributes: try fileAttributesToWrite(to: url, for: operation), token: token,
            operation: operation, url: url, isOwn: url == fileURL, fileExtension: fileExtension)
    }

    private func write(_ draft: Draft) async throws {
        let isNew = draft.operation == .creating
        // Whether it is gone is seen in a moment; until then nothing may take its name.
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
            // Of what was written: something else may be there already.
            let written = place.withLock { $0.written?.base == nil ? nil : $0.written }
            let stamp = written ?? FileStamp(FilePath(to))
            let wasElsewhere = place.withLock { place in
                let hash = (draft.contents as? Data)?.contentHash
                defer {
                    place = Place(
                        url: to, stamp: stamp, isBeingDeleted: place.isBeingDeleted,
                        contentHash: hash)
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

    /// On a volume what others wrote is not written over: the save names what it was made from, and
    /// theirs is merged with it or is in conflict. On other file systems nobody would keep it.
    nonisolated private func checkUnchanged(_ url: URL) throws {
        let path = FilePath(url)
        let known = place.withLock { $0 }
        guard let old = known.stamp, let stamp = FileStamp(path), stamp != old else { return }
        if let hash = known.contentHash, stamp.size == old.size,
            (try? path.readAll())?.contentHash == hash
        {
            // Its time is another, and nothing else.
            return place.withLock { $0.stamp = stamp }
        }
        guard try path.place() == nil else { return }
        throw DocumentError(
            .changedElsewhere,
            "another program has changed \(path) since it was read: revert the document, or save "
                + "it with .creating, there or under another name")
    }

    nonisolated private func write(_ draft: Draft, _ url: URL) throws {
        try writeContents(
            draft.contents, andAttributes: draft.attributes, safelyTo: url, for: draft.operation)
    }

    /// Under the name of another type. The item keeps its identity where it can: the new name comes
    /// first, and the new contents then. A file that becomes a package is another item, and who
    /// shows it is told where it is.
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

    // MARK: By itself

    func saveChanges() async throws {
        await settle()
        if hasUnsavedChanges { try await save(to: fileURL, for: .overwriting) }
    }

    func note(_ change: Change) {
        // What a subclass's model tells while it is being loaded is no change.
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

    func undoManagerDid(_ happening: UndoHistory.Happening) {
        switch happening {
        case .registered: updateChangeCount(.done)
        case .registeredMore: changes.doneMore()
        case .undone: updateChangeCount(.undone)
        case .redone: updateChangeCount(.redone)
        }
    }

    func noteUnsaved() { scheduleAutosave() }

    private func scheduleAutosave() {
        guard autosaving == nil, hasUnsavedChanges else { return }
        // A disk that is full is not asked all the time.
        let delay = min(autosaveDelay * (1 << min(failures, 5)), max(autosaveDelay, .seconds(30)))
        autosaving = Task { [weak self] in
            try? await Task.sleep(for: delay)
            guard let self, !Task.isCancelled else { return }
            autosaving = nil
            // A save that fails says so itself.
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
        do {
            try writeContents(
                contents, to: URL(draft), for: operation,
                originalContentsURL: isThere ? url : nil)
            if isThere, draft.kind == target.kind { draft.takeAttributes(of: target) }
            try draft.set(attributes)
            let (base, stamp) = (place.withLock(\.stamp), FileStamp(draft))
            if operation == .overwriting, let base { draft.name(base: base) }
            try draft.install(at: target)
            place.withLock { $0.written = stamp }
        } catch {
            draft.remove()
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
