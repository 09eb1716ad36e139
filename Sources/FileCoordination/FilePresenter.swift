import Foundation

/// An object that shows an item for a while, and wants to be asked before others read or write it
/// and to hear what became of it.
///
/// Register with ``FileCoordinator/addFilePresenter(_:)``, best inside a coordinated read, so that
/// nothing can change between the two; and end it with
/// ``FileCoordinator/removeFilePresenter(_:)``. A registered presenter is kept alive.
///
/// Every message has a default: what asks is answered at once, what tells is ignored. Say in
/// ``presentedItemMessages`` which you implement, and nobody waits for the others.
/// <doc:Presenting> is an example, <doc:Threads> has the rules for queues.
public protocol FilePresenter: AnyObject, Sendable {
    /// The presented file or directory; nil when it does not exist yet. Asked on any thread, at any
    /// time. When it is nil, it is asked again after each access on the presenter's behalf.
    var presentedItemURL: URL? { get }

    /// Where all messages arrive, one after the other whatever the queue allows. It must not be
    /// one that something else may keep waiting for a turn.
    var presentedItemOperationQueue: OperationQueue { get }

    /// For an item that belongs to another (subtitles to a film), that other one. It is asked by
    /// nobody here: access to files is not given out item by item. The default is nil.
    var primaryPresentedItemURL: URL? { get }

    /// Which messages are implemented. The default is all.
    var presentedItemMessages: FilePresenterMessages { get }

    // MARK: Before others' accesses

    /// Somebody wants to read. Stop what must not happen meanwhile, then call `reader`, soon, with
    /// what is to be called when they are done, or nil.
    ///
    /// Such brackets may overlap: count them.
    func relinquishPresentedItem(
        toReader reader: @escaping @Sendable (_ reacquirer: (@Sendable () -> Void)?) -> Void)

    /// Somebody wants to write, move or delete. As
    /// ``relinquishPresentedItem(toReader:)`` otherwise.
    func relinquishPresentedItem(
        toWriter writer: @escaping @Sendable (_ reacquirer: (@Sendable () -> Void)?) -> Void)

    /// Somebody wants to read what is current: write what is unsaved now, without asking anybody,
    /// with a coordinator made with this presenter. Call the handler with nil, or with why it
    /// failed: they get that error.
    func savePresentedItemChanges(
        completionHandler: @escaping @Sendable ((any Error)?) -> Void)

    /// The item is about to be deleted, or replaced by another: close it, remove the presenter, and
    /// call the handler.
    func accommodatePresentedItemDeletion(
        completionHandler: @escaping @Sendable ((any Error)?) -> Void)

    /// Something in the presented package is about to be deleted or replaced.
    func accommodatePresentedSubitemDeletion(
        at url: URL, completionHandler: @escaping @Sendable ((any Error)?) -> Void)

    // MARK: After the fact

    /// Contents or attributes have changed, perhaps by a program that takes no turns.
    func presentedItemDidChange()

    /// The item, or a directory it is in, was moved.
    func presentedItemDidMove(to newURL: URL)

    /// There is another version, in conflict with the current one.
    func presentedItemDidGain(_ version: FileVersion)
    /// A version was removed.
    func presentedItemDidLose(_ version: FileVersion)
    /// A version in conflict was settled, perhaps elsewhere.
    func presentedItemDidResolveConflict(_ version: FileVersion)

    // MARK: Of what a presented directory contains, at any depth

    /// Something new is there. ``presentedSubitemDidChange(at:)`` follows for those who listen
    /// only to that.
    func presentedSubitemDidAppear(at url: URL)
    /// Something has changed. The default, for a package (a directory whose name has an extension),
    /// is ``presentedItemDidChange()``.
    func presentedSubitemDidChange(at url: URL)
    /// Something was moved. The default is that of ``presentedSubitemDidChange(at:)``.
    func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL)
    /// Something has another version, in conflict with its current one.
    func presentedSubitem(at url: URL, didGain version: FileVersion)
    /// A version of something was removed.
    func presentedSubitem(at url: URL, didLose version: FileVersion)
    /// A version of something in conflict was settled.
    func presentedSubitem(at url: URL, didResolve version: FileVersion)

    // MARK: Not Apple's

    /// The item could not be registered with its volume, so that nothing will be heard of it.
    func presentedItemRegistrationDidFail(with error: FileCoordinationError)
}

extension FilePresenter {
    /// Nil.
    public var primaryPresentedItemURL: URL? { nil }
    /// All.
    public var presentedItemMessages: FilePresenterMessages { .all }

    /// Lets them, at once.
    public func relinquishPresentedItem(
        toReader reader: @escaping @Sendable (_ reacquirer: (@Sendable () -> Void)?) -> Void
    ) { reader(nil) }
    /// Lets them, at once.
    public func relinquishPresentedItem(
        toWriter writer: @escaping @Sendable (_ reacquirer: (@Sendable () -> Void)?) -> Void
    ) { writer(nil) }
    /// Of one that never has anything unsaved.
    public func savePresentedItemChanges(
        completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) { completionHandler(nil) }
    /// Has nothing to close.
    public func accommodatePresentedItemDeletion(
        completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) { completionHandler(nil) }
    /// Has nothing to close.
    public func accommodatePresentedSubitemDeletion(
        at url: URL, completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) { completionHandler(nil) }

    /// Ignores it.
    public func presentedItemDidChange() {}
    /// Ignores it.
    public func presentedItemDidMove(to newURL: URL) {}
    /// Ignores it.
    public func presentedItemDidGain(_ version: FileVersion) {}
    /// Ignores it.
    public func presentedItemDidLose(_ version: FileVersion) {}
    /// Ignores it.
    public func presentedItemDidResolveConflict(_ version: FileVersion) {}

    /// Ignores it: a change is told too.
    public func presentedSubitemDidAppear(at url: URL) {}
    /// Tells the presenter of a package that the package has changed.
    public func presentedSubitemDidChange(at url: URL) { changePackage() }
    /// Tells the presenter of a package that the package has changed.
    public func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL) { changePackage() }
    /// Ignores it.
    public func presentedSubitem(at url: URL, didGain version: FileVersion) {}
    /// Ignores it.
    public func presentedSubitem(at url: URL, didLose version: FileVersion) {}
    /// Ignores it.
    public func presentedSubitem(at url: URL, didResolve version: FileVersion) {}

    /// Ignores it.
    public func presentedItemRegistrationDidFail(with error: FileCoordinationError) {}

    /// Which directories are packages only the volume knows. One that says in
    /// ``presentedItemMessages`` that it does not implement these hears from there exactly.
    private func changePackage() {
        if presentedItemURL?.pathExtension.isEmpty == false { presentedItemDidChange() }
    }
}
