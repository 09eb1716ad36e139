import Foundation

/// A document that the user works on. It opens its file, saves by itself, follows the file, and
/// reacts to other programs' accesses.
///
/// A subclass says how the contents of the file become its model and back, and reports changes.
/// That is all a program needs; <doc:Documents> shows one.
///
///     final class Note: Document {
///         var text = "" { didSet { updateChangeCount(.done) } }
///
///         override func load(fromContents contents: any Sendable, ofType type: String) throws {
///             text = String(decoding: contents as? Data ?? Data(), as: UTF8.self)
///         }
///
///         override func contents(forType type: String) throws -> any Sendable { Data(text.utf8) }
///     }
///
/// ## Which code runs where
///
/// A document belongs to the main actor. Members without another mark are called there and call you
/// there, so ``load(fromContents:ofType:)`` and ``contents(forType:)`` use your model without a
/// lock. Files are read and written in a queue of the document, one access after the other, by the
/// `nonisolated` members, which must not use the model. The compiler checks both. Nothing here ever
/// blocks the main actor; keep it free in your code, too, because other programs wait for your
/// document as long as its main thread is blocked.
///
/// While a document is open it is a presenter of its file. Close it when it is no longer shown.
@MainActor open class Document: FilePresenter {
    nonisolated let file: DocumentFile
    nonisolated public let presentedItemOperationQueue = OperationQueue()

    /// Runs what opens, saves, moves, follows and closes the document.
    let accesses = SerialTaskQueue()
    let autosaveTimer = AutosaveTimer()
    private let status = DocumentStatus()
    var changes = ChangeCount()
    /// Whether a look at the file is waiting for its turn.
    var isFollowing = false
    var isLoading = false
    var isClosing = false
    /// Whether editing is disabled until it is known whether the file is gone.
    var isAwaitingDeletion = false

    /// A document at a URL. It opens nothing, and the file need not exist; create it with
    /// ``save(to:for:)`` and ``SaveOperation/creating``.
    public init(fileURL: URL) {
        file = DocumentFile(fileURL)
        presentedItemOperationQueue.maxConcurrentOperationCount = 1
        undoManager.onEvent = { [weak self] in self?.undoManagerDid($0) }
    }

    // MARK: What it is

    /// Where the document is. The URL follows the file when it moves.
    nonisolated public final var fileURL: URL { file.url }

    /// When the file was last changed, as far as this document knows; nil before it was opened or
    /// created. For a package, the newest time of its files.
    nonisolated public final var fileModificationDate: Date? {
        file.place.withLock { $0.stamp?.modified }
    }

    /// The type of the document: by default the file's extension in lower case.
    open var fileType: String { fileURL.pathExtension.lowercased() }

    /// The document's name for the user: by default the file's name without its extension.
    open var localizedName: String { fileURL.deletingPathExtension().lastPathComponent }

    /// What to show about the document. ``states`` reports changes.
    public final var documentState: State { status.state }

    /// The present state and then each new one, until the stream is cancelled.
    public final var states: AsyncStream<State> { status.makeStates() }

    /// The progress of a download, in 100 units, while ``State/progressAvailable`` is set.
    public internal(set) final var progress: Foundation.Progress?

    /// Registering an action for undo counts as a change of the document, and so do undo and redo.
    /// The history is cleared when the document is read again.
    public final let undoManager = UndoHistory()

    // MARK: Contents

    /// Makes `contents` the contents of the document. It is called when the document is opened, and
    /// again when the file was changed by another program.
    ///
    /// - Parameters:
    ///   - contents: `Data` of a file, a ``FileWrapper`` of a directory, or whatever
    ///     ``read(from:)`` returns. A file may be empty.
    ///   - type: The document's ``fileType``.
    open func load(fromContents contents: any Sendable, ofType type: String) throws {
        throw DocumentError(
            .unsupported, "\(Swift.type(of: self)) has no load(fromContents:ofType:)")
    }

    /// Returns a snapshot of the document, which is written while the user goes on editing: `Data`
    /// for a file, a ``FileWrapper`` for a file or a package, or whatever
    /// ``writeContents(_:to:for:originalContentsURL:)`` accepts. If you keep a directory wrapper,
    /// return a new one with the same children.
    open func contents(forType type: String) throws -> any Sendable {
        throw DocumentError(.unsupported, "\(Swift.type(of: self)) has no contents(forType:)")
    }

    /// Reads the file within a coordinated read, in the document's queue. The result is passed to
    /// ``load(fromContents:ofType:)``. Override it to read large documents piece by piece.
    nonisolated open func read(from url: URL) throws -> any Sendable {
        let (contents, source) = try FileWrapper.contents(of: url, packageReadingOptions)
        if let source, url == fileURL { file.place.withLock { $0.source = source } }
        return contents
    }

    /// How a package is read. The default is `.immediate`. With `[]` the contents of each file are
    /// read when they are asked for, which may be long after the coordinated read. They stay those
    /// of the version that was read, whatever other programs save meanwhile.
    nonisolated open var packageReadingOptions: FileWrapper.ReadingOptions { .immediate }

    // MARK: Opening and closing

    /// Reads the document and begins to present it.
    ///
    /// - Throws: What ``read(from:)`` or ``load(fromContents:ofType:)`` throws, or
    ///   ``FileCoordinationError``. Then the document stays closed.
    open func open() async throws { try await DocumentOpening(self).open() }

    /// Saves unsaved changes and stops presenting the file.
    ///
    /// - Throws: What ``save(to:for:)`` throws. Then the document stays open, so that nothing is
    ///   lost.
    open func close() async throws { try await DocumentOpening(self).close() }

    /// Saves and closes all open documents. Errors go to
    /// ``handleError(_:userInteractionPermitted:)``; a document that cannot be saved stays open.
    ///
    /// Call it before the program ends. When SIGTERM, SIGINT or SIGHUP ends the program this
    /// happens by itself (<doc:Documents>), unless the program handles the signal in its own way.
    public static func closeAll() async { await OpenDocuments.closeAll() }

    /// Reads the document again, from its own file or from another one such as a version's, and
    /// discards unsaved changes. Contents of another file count as a change and are saved.
    ///
    /// - Throws: What ``open()`` throws. Then the document keeps its contents.
    open func revert(toContentsOf url: URL) async throws {
        try await DocumentOpening(self).revert(toContentsOf: url)
    }

    /// Called when edits would be lost until ``enableEditing()`` is called. Override it to tell
    /// your views, and call super.
    open func disableEditing() { status.disableEditing() }
    /// Called when edits are possible again. Override it to tell your views, and call super.
    open func enableEditing() { status.enableEditing() }

    // MARK: Changes

    /// Reports a change of the document, which is then saved soon. Changes that are registered with
    /// the ``undoManager`` need not be reported.
    open func updateChangeCount(_ change: Change) { note(change) }

    /// Whether something would be lost if the program ended now.
    open var hasUnsavedChanges: Bool { changes.isDirty && !documentState.contains(.closed) }

    /// Marks the moment at which a snapshot is taken.
    open func changeCountToken(for operation: SaveOperation) -> ChangeCountToken {
        undoManager.endEventGroup()
        return changes.token
    }

    /// Reports that the snapshot of a token was written. Changes made after it are still unsaved.
    open func updateChangeCount(withToken token: ChangeCountToken, for operation: SaveOperation) {
        changes.save(token)
    }

    // MARK: Saving

    /// Takes the snapshot, before it waits for anything, and writes it.
    ///
    /// Programs call it to create documents; otherwise documents save by themselves. Saves are
    /// written in the order of the calls.
    ///
    /// - Parameters:
    ///   - url: The ``fileURL`` or, with ``SaveOperation/creating``, the place of the document from
    ///     now on.
    ///   - operation: Whether a document is created or overwritten.
    /// - Throws: What ``contents(forType:)`` or the writing throws, usually `CocoaError`;
    ///   ``FileCoordinationError``; ``DocumentError``. The error has also been passed to
    ///   ``handleError(_:userInteractionPermitted:)``.
    open func save(to url: URL, for operation: SaveOperation) async throws {
        try await DocumentSave(self, to: url, for: operation).run()
    }

    /// Saves if something is unsaved. It is called ``autosaveDelay`` after a change, and whenever
    /// other programs want to read the file. Override it to postpone saving.
    open func autosave() async throws {
        await accesses.settle()
        if hasUnsavedChanges { try await save(to: fileURL, for: .overwriting) }
    }

    /// The time from the first unsaved change to the save: one second.
    open var autosaveDelay: Duration { .seconds(1) }

    /// The type as which the document will be saved: by default the ``fileType``. If it is another
    /// one, such as `rtfd` when a picture was added to a text, the next save moves the document to
    /// a name with the extension of that type. It stays the same item, unless a file becomes a
    /// package or the other way round.
    open var savingFileType: String { fileType }

    /// The extension for a type: by default the type itself.
    open func fileNameExtension(forType type: String, saveOperation: SaveOperation) -> String {
        type
    }

    /// The attributes that the file shall get.
    open func fileAttributesToWrite(to url: URL, for operation: SaveOperation) throws
        -> FileWrapper.Attributes
    { FileWrapper.Attributes() }

    /// Writes a snapshot within a coordinated write so that either the old or the new contents are
    /// there, whatever happens: it writes a draft beside the document with
    /// ``writeContents(_:to:for:originalContentsURL:)`` and puts that in place in one step.
    ///
    /// Override it to save in another way or, after calling super, to write something into a
    /// package that belongs to the same save, such as a preview.
    nonisolated open func writeContents(
        _ contents: any Sendable, andAttributes attributes: FileWrapper.Attributes,
        safelyTo url: URL, for operation: SaveOperation
    ) throws {
        let writing = DocumentWriting(document: self, contents: contents, operation: operation)
        try writing.writeSafely(attributes, to: url)
    }

    /// Writes a snapshot to a path where nothing exists. Override it when ``contents(forType:)``
    /// returns a type of your own.
    ///
    /// - Parameter originalContentsURL: The item that will be replaced; nil when there is none.
    nonisolated open func writeContents(
        _ contents: any Sendable, to url: URL, for operation: SaveOperation,
        originalContentsURL: URL?
    ) throws {
        let writing = DocumentWriting(document: self, contents: contents, operation: operation)
        try writing.writeNew(to: url, original: originalContentsURL)
    }

    // MARK: Errors and access

    /// Receives every error, also those of automatic saving and of following the file. The default
    /// does nothing, because ``documentState`` shows failed saves. Do not show an alert for each
    /// failed save, because saving is tried again.
    ///
    /// - Parameter userInteractionPermitted: False while the document is being closed.
    open func handleError(_ error: any Error, userInteractionPermitted: Bool) {}

    /// Runs code that reads or writes the file itself in the document's queue, so that it does not
    /// run during the document's own accesses or while another program has been let in. The code
    /// must coordinate with a ``FileCoordinator`` that is made with this document.
    @concurrent nonisolated public final func performAsynchronousFileAccess<Value: Sendable>(
        _ body: @escaping @Sendable () throws -> Value
    ) async throws -> Value { try await file.perform(body) }

    // MARK: Presenting

    nonisolated public final var presentedItemURL: URL? { fileURL }

    nonisolated open var presentedItemMessages: FilePresenterMessages {
        [
            .relinquishToReader, .relinquishToWriter, .save, .accommodateDeletion, .change, .move,
            .versions, .ubiquityAttributes,
        ]
    }

    /// Lets the reader go on when no access of this document is under way.
    nonisolated open func relinquishPresentedItem(
        toReader reader: @escaping @Sendable (_ reacquirer: (@Sendable () -> Void)?) -> Void
    ) { file.queue.addOperation { reader(nil) } }

    /// Lets the writer go on when no access of this document is under way, and looks at the file
    /// afterwards.
    nonisolated open func relinquishPresentedItem(
        toWriter writer: @escaping @Sendable (_ reacquirer: (@Sendable () -> Void)?) -> Void
    ) { file.queue.addOperation { writer { self.lookAtFile() } } }

    /// Saves unsaved changes.
    nonisolated open func savePresentedItemChanges(
        completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) { answer(completionHandler) { try await $0.autosave() } }

    /// Closes the document. If unsaved changes cannot be saved, the deletion is refused. A program
    /// that does not coordinate, such as `rm`, is not kept waiting: the document is closed after
    /// the file is gone, and its unsaved changes become a version of the deleted document.
    nonisolated open func accommodatePresentedItemDeletion(
        completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        answer(completionHandler) { document in
            if !DocumentDeletion(document).begin() { try await document.close() }
        }
    }

    /// Reads the file again if it is not what was read or written last and nothing is unsaved.
    nonisolated open func presentedItemDidChange() { lookAtFile() }

    /// Follows the file.
    nonisolated open func presentedItemDidMove(to newURL: URL) {
        file.place.withLock { $0.move(to: newURL) }
    }

    /// Looks whether the document is in conflict.
    nonisolated open func presentedItemDidGain(_ version: FileVersion) { lookAtFile() }
    /// Looks whether the document is in conflict.
    nonisolated open func presentedItemDidLose(_ version: FileVersion) { lookAtFile() }
    /// Looks whether the document is in conflict.
    nonisolated open func presentedItemDidResolveConflict(_ version: FileVersion) { lookAtFile() }

    /// Passes the error to ``handleError(_:userInteractionPermitted:)``.
    nonisolated open func presentedItemRegistrationDidFail(with error: FileCoordinationError) {
        Task { @MainActor in handleError(error, userInteractionPermitted: true) }
    }

    // MARK: For the types of this module

    /// Looks whether the file has changed. Several such calls lead to one look.
    nonisolated func lookAtFile() {
        Task { @MainActor in await DocumentFollowing(self).look() }
    }

    nonisolated private func answer(
        _ completionHandler: @escaping @Sendable ((any Error)?) -> Void,
        _ body: @escaping @MainActor (Document) async throws -> Void
    ) {
        Task { @MainActor in
            do {
                try await body(self)
                completionHandler(nil)
            } catch { completionHandler(error) }
        }
    }

    func set(_ bits: State, _ isSet: Bool = true) {
        if bits.contains(.closed), isSet != documentState.contains(.closed) {
            if isSet { OpenDocuments.remove(self) } else { OpenDocuments.add(self) }
        }
        status.set(bits, isSet)
    }

    private func note(_ change: Change) {
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
        autosaveTimer.start(for: self)
    }

    private func undoManagerDid(_ happening: UndoHistory.HistoryEvent) {
        switch happening {
        case .registered: updateChangeCount(.done)
        case .lastActionExtended: changes.extendLastChange()
        case .undone: updateChangeCount(.undone)
        case .redone: updateChangeCount(.redone)
        }
    }
}
