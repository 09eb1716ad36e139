import Foundation
import Synchronization

/// A document that the user works on: it opens, saves by itself, follows its file, and hears what
/// others do with it.
///
/// Say in a subclass how its contents become your model and back, and tell it of changes. That is
/// all a program needs; <doc:Documents> shows one.
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
/// A document belongs to the main actor: what has no other mark is called there, and calls you
/// there; so ``load(fromContents:ofType:)`` and ``contents(forType:)`` touch your model without a
/// lock. Files are read and written in a queue of the document's own, one access after the other,
/// in the `nonisolated` members: those must not touch the model. The compiler watches over both.
/// Nothing ever waits on the main actor, so keep it free: a program that blocks its main thread
/// keeps others waiting for your document.
///
/// While a document is open it is a presenter of its file; close it when it is not shown any more.
@MainActor open class Document: FilePresenter {
    /// What the file queue knows too.
    struct Place: Sendable {
        var url: URL
        /// Of what was read or written last, which the next save is made from; nil before.
        var stamp: FileStamp?
        /// During a save: of what was written, before it got its name.
        var written: FileStamp?
        /// A program is in the middle of deleting it.
        var isBeingDeleted = false
        /// Of a file of moderate size: tells whether it was only touched.
        var contentHash: Int?
    }

    nonisolated let place: Mutex<Place>
    nonisolated let files = OperationQueue()
    nonisolated public let presentedItemOperationQueue = OperationQueue()

    var last: Task<Void, Never>?
    var changes = ChangeCount()
    var state = State.closed
    var listeners: [Int: AsyncStream<State>.Continuation] = [:]
    var disablings = 0
    var autosaving: Task<Void, Never>?
    var failures = 0
    var isFollowing = false
    var isLoading = false
    var isClosing = false
    /// Editing is disabled until it is seen whether the file is gone.
    var isAwaitingDeletion = false

    /// A document at a URL: opens nothing. The file need not exist; create it by
    /// ``save(to:for:)`` with ``SaveOperation/creating``.
    public init(fileURL: URL) {
        place = Mutex(Place(url: fileURL))
        files.maxConcurrentOperationCount = 1
        presentedItemOperationQueue.maxConcurrentOperationCount = 1
        undoManager.happened = { [weak self] in self?.undoManagerDid($0) }
    }

    // MARK: What it is

    /// Where it is: moves with the file.
    nonisolated public final var fileURL: URL { place.withLock { $0.url } }

    /// When the file was changed last, as far as is known here; nil before it was opened or
    /// created. Of a package, the newest that it contains.
    nonisolated public final var fileModificationDate: Date? {
        place.withLock { $0.stamp?.modified }
    }

    /// What kind of document it is: by default the file's extension in small letters.
    open var fileType: String { fileURL.pathExtension.lowercased() }

    /// Its name for the user: by default the file's without its extension.
    open var localizedName: String { fileURL.deletingPathExtension().lastPathComponent }

    /// What to show of it. ``states`` tells of changes.
    public final var documentState: State { state }

    /// The state, and then each new one, for as long as somebody listens.
    public final var states: AsyncStream<State> { makeStates() }

    /// While ``State/progressAvailable`` is set: of 100 units.
    public internal(set) final var progress: Foundation.Progress?

    /// Registering something to be undone in it is a change of the document, and so are undoing and
    /// doing again. It forgets everything when the document is read again.
    public final let undoManager = UndoHistory()

    // MARK: Contents

    /// Takes what the file contains as what the document is now. Called when it is opened, and
    /// again when the file was changed elsewhere.
    ///
    /// - Parameters:
    ///   - contents: `Data` of a file, a ``FileWrapper`` of a directory, or whatever
    ///     ``read(from:)`` returns. A file may be empty.
    ///   - type: The document's ``fileType``.
    open func load(fromContents contents: any Sendable, ofType type: String) throws {
        throw DocumentError(
            .unsupported, "\(Swift.type(of: self)) has no load(fromContents:ofType:)")
    }

    /// A snapshot of the document, to be written while the user goes on: `Data` for a file, a
    /// ``FileWrapper`` for a file or a package, or whatever
    /// ``writeContents(_:to:for:originalContentsURL:)`` takes. Of a wrapper that you keep, make a
    /// new one with the same children.
    open func contents(forType type: String) throws -> any Sendable {
        throw DocumentError(.unsupported, "\(Swift.type(of: self)) has no contents(forType:)")
    }

    /// Reads the file in a turn, in the document's own queue; what it returns is loaded. Override
    /// it to read large documents piece by piece.
    nonisolated open func read(from url: URL) throws -> any Sendable {
        let wrapper = try FileWrapper(url: url, options: .immediate)
        return wrapper.regularFileContents ?? wrapper as any Sendable
    }

    // MARK: Opening and closing

    /// Reads the document and begins to present it.
    ///
    /// - Throws: What ``read(from:)`` or ``load(fromContents:ofType:)`` throw,
    ///   ``FileCoordinationError``. It stays closed then.
    open func open() async throws { try await openFile() }

    /// Saves what is unsaved, and lets go of the file.
    ///
    /// - Throws: What ``save(to:for:)`` throws; it stays open then, for nothing may be lost.
    open func close() async throws { try await closeFile() }

    /// Reads the document again, from its own file or another such as a version's, and forgets what
    /// is unsaved. From another, it is as if the user had typed that: it is saved.
    ///
    /// - Throws: As ``open()``; what was there stays then.
    open func revert(toContentsOf url: URL) async throws { try await readAgain(url) }

    /// Edits would be lost until ``enableEditing()``. Override it to tell your views; call super.
    open func disableEditing() { disable() }
    /// Edits are welcome again. Override it to tell your views; call super.
    open func enableEditing() { enable() }

    // MARK: Changes

    /// Tells that something was done to the document, which is then saved soon. Not needed for what
    /// is registered with the ``undoManager``.
    open func updateChangeCount(_ change: Change) { note(change) }

    /// Whether something would be lost if the program ended now.
    open var hasUnsavedChanges: Bool { changes.isDirty && !state.contains(.closed) }

    /// The moment of a snapshot.
    open func changeCountToken(for operation: SaveOperation) -> ChangeCountToken {
        undoManager.endEventGroup()
        return changes.token
    }

    /// Tells that the snapshot of a token was written: what was done since is still unsaved.
    open func updateChangeCount(withToken token: ChangeCountToken, for operation: SaveOperation) {
        changes.save(token)
    }

    // MARK: Saving

    /// Takes the snapshot, now, and writes it.
    ///
    /// Programs call it to create documents; else documents save by themselves. Saves are written
    /// in the order in which they were asked for.
    ///
    /// - Parameters:
    ///   - url: The ``fileURL``, or for ``SaveOperation/creating`` where the document is to be from
    ///     now on.
    ///   - operation: What it is for.
    /// - Throws: What ``contents(forType:)`` or the writing throws, `CocoaError` as a rule;
    ///   ``FileCoordinationError``; ``DocumentError``. ``handleError(_:userInteractionPermitted:)``
    ///   has heard of it.
    open func save(to url: URL, for operation: SaveOperation) async throws {
        try await write(to: url, for: operation)
    }

    /// Saves if something is unsaved. Called ``autosaveDelay`` after a change, and whenever others
    /// want to read the file. Override it to put saving off.
    open func autosave() async throws { try await saveChanges() }

    /// How long after the first unsaved change the document is saved: a second.
    open var autosaveDelay: Duration { .seconds(1) }

    /// As what type the document will be saved: by default the ``fileType``. Another one than that,
    /// such as `rtfd` when a picture came into a text, makes it be moved to a name with that type's
    /// extension. It stays the same item, unless a file becomes a package or the other way round.
    open var savingFileType: String { fileType }

    /// The extension for a type: the type itself.
    open func fileNameExtension(forType type: String, saveOperation: SaveOperation) -> String {
        type
    }

    /// Attributes that the file shall have.
    open func fileAttributesToWrite(to url: URL, for operation: SaveOperation) throws
        -> FileWrapper.Attributes
    { FileWrapper.Attributes() }

    /// Writes a snapshot in a turn, so that whatever happens the old or the new contents are there:
    /// beside, by ``writeContents(_:to:for:originalContentsURL:)``, and then into place in one
    /// step.
    ///
    /// Override it to save otherwise, or, after a call of super, to write into a package what shall
    /// be saved with it, such as a preview.
    nonisolated open func writeContents(
        _ contents: any Sendable, andAttributes attributes: FileWrapper.Attributes,
        safelyTo url: URL, for operation: SaveOperation
    ) throws { try writeSafely(contents, attributes, url, operation) }

    /// Writes a snapshot to a place where nothing is. Override it when
    /// ``contents(forType:)`` returns something of your own.
    ///
    /// - Parameter originalContentsURL: What will be replaced; nil when nothing is there.
    nonisolated open func writeContents(
        _ contents: any Sendable, to url: URL, for operation: SaveOperation,
        originalContentsURL: URL?
    ) throws { try writeNew(contents, url, originalContentsURL) }

    // MARK: Errors and access

    /// Hears of everything that goes wrong, also where nobody called: when the document saves by
    /// itself or follows its file. The default does nothing, for ``documentState`` shows it. Do not
    /// alert the user for each save that fails: saving is tried again.
    ///
    /// - Parameter userInteractionPermitted: False when the document is being closed.
    open func handleError(_ error: any Error, userInteractionPermitted: Bool) {}

    /// Runs code that reads or writes the file by itself, in the document's queue: not while the
    /// document does, and not after others were let in without knowing of it. The code takes its
    /// own turn, with a ``FileCoordinator`` made with this document.
    @concurrent nonisolated public final func performAsynchronousFileAccess<Value: Sendable>(
        _ body: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { done in
            files.addOperation { done.resume(with: Result { try body() }) }
        }
    }

    // MARK: Presenting

    nonisolated public final var presentedItemURL: URL? { fileURL }

    nonisolated open var presentedItemMessages: FilePresenterMessages {
        [
            .relinquishToReader, .relinquishToWriter, .save, .accommodateDeletion, .change, .move,
            .versions,
        ]
    }

    /// Lets them when no access of this document is under way.
    nonisolated open func relinquishPresentedItem(
        toReader reader: @escaping @Sendable (_ reacquirer: (@Sendable () -> Void)?) -> Void
    ) { files.addOperation { reader(nil) } }

    /// Lets them when no access of this document is under way, and looks at the file afterwards.
    nonisolated open func relinquishPresentedItem(
        toWriter writer: @escaping @Sendable (_ reacquirer: (@Sendable () -> Void)?) -> Void
    ) { files.addOperation { writer { self.lookAtFile() } } }

    /// Saves what is unsaved.
    nonisolated open func savePresentedItemChanges(
        completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) { answer(completionHandler) { try await $0.autosave() } }

    /// Closes the document. When something unsaved cannot be saved they are refused, and nothing
    /// is deleted. A program that takes no turns (`rm`) is not kept waiting: the document is closed
    /// when the file is gone, and what was unsaved is a version of what was deleted.
    nonisolated open func accommodatePresentedItemDeletion(
        completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        answer(completionHandler) { document in
            if !document.awaitsDeletion() { try await document.close() }
        }
    }

    /// Reads it again if it is not what was read or written last, and nothing is unsaved.
    nonisolated open func presentedItemDidChange() { lookAtFile() }

    /// Follows.
    nonisolated open func presentedItemDidMove(to newURL: URL) {
        place.withLock { $0.url = newURL }
    }

    /// Looks whether it is in conflict.
    nonisolated open func presentedItemDidGain(_ version: FileVersion) { lookAtFile() }
    /// Looks whether it is in conflict.
    nonisolated open func presentedItemDidLose(_ version: FileVersion) { lookAtFile() }
    /// Looks whether it is in conflict.
    nonisolated open func presentedItemDidResolveConflict(_ version: FileVersion) { lookAtFile() }

    /// An error of the document.
    nonisolated open func presentedItemRegistrationDidFail(with error: FileCoordinationError) {
        Task { @MainActor in handleError(error, userInteractionPermitted: true) }
    }
}
