import Foundation

/// An object that shows an item for a while. It is asked before other programs read or write the
/// item, and told what they did with it.
///
/// Register it with ``FileCoordinator/addFilePresenter(_:)``, best within a coordinated read, so
/// that nothing can change between the two. End the registration with
/// ``FileCoordinator/removeFilePresenter(_:)``. A registered presenter is kept alive.
///
/// Every message has a default implementation: questions are answered at once, notifications are
/// ignored. List in ``presentedItemMessages`` which messages you implement, and no program waits
/// for the others. <doc:Presenting> is an example, <doc:Threads> has the rules for queues.
public protocol FilePresenter: AnyObject, Sendable {
    /// The presented file or directory; nil while it does not exist yet. It is read on any thread
    /// at any time. While it is nil, it is read again after each access on the presenter's behalf.
    var presentedItemURL: URL? { get }

    /// The queue in which all messages arrive, one after the other even if the queue is concurrent.
    /// Nothing in it may block while it waits for a coordinated access.
    var presentedItemOperationQueue: OperationQueue { get }

    /// For an item that belongs to another (subtitles to a film), that other one. It is never read
    /// here, because there is no sandbox that grants access item by item. The default is nil.
    var primaryPresentedItemURL: URL? { get }

    /// The messages that are implemented. The default is all of them.
    var presentedItemMessages: FilePresenterMessages { get }

    // MARK: Before accesses of other programs

    /// Another program wants to read. Stop everything that must not happen meanwhile, and then call
    /// `reader` soon, with a closure that is called when the reader is done, or nil.
    ///
    /// Several such accesses may overlap, so count them.
    func relinquishPresentedItem(
        toReader reader: @escaping @Sendable (_ reacquirer: (@Sendable () -> Void)?) -> Void)

    /// Another program wants to write, move or delete the item. Otherwise like
    /// ``relinquishPresentedItem(toReader:)``.
    func relinquishPresentedItem(
        toWriter writer: @escaping @Sendable (_ reacquirer: (@Sendable () -> Void)?) -> Void)

    /// Another program wants to read the current contents. Save unsaved changes now, without asking
    /// the user, with a coordinator that is made with this presenter. Call the handler with nil, or
    /// with the error if it failed; the reader gets that error.
    func savePresentedItemChanges(
        completionHandler: @escaping @Sendable ((any Error)?) -> Void)

    /// The item is about to be deleted or replaced by another. Close it, remove the presenter, and
    /// call the handler.
    func accommodatePresentedItemDeletion(
        completionHandler: @escaping @Sendable ((any Error)?) -> Void)

    /// The contents of the item are about to be removed from this device; the hub has them. Call
    /// the handler with nil if you do not need them, or with an error that says why they stay.
    /// After ten seconds without an answer they stay, too.
    func accommodatePresentedItemEviction(
        completionHandler: @escaping @Sendable ((any Error)?) -> Void)

    /// An item in the presented package is about to be deleted or replaced.
    func accommodatePresentedSubitemDeletion(
        at url: URL, completionHandler: @escaping @Sendable ((any Error)?) -> Void)

    // MARK: After accesses of other programs

    /// Contents or attributes have changed, perhaps by a program that does not coordinate.
    func presentedItemDidChange()

    /// The item, or a directory that contains it, was moved.
    func presentedItemDidMove(to newURL: URL)

    /// The changes of which attributes are reported. It is read when the presenter is added, and
    /// with each change. The default is none.
    var observedPresentedItemUbiquityAttributes: Set<UbiquityResourceValues.Attribute> { get }
    /// Observed attributes have other values than they had when the presenter was added, or when
    /// this was last called. ``UbiquityContainer/resourceValues(ofItemAt:)`` reads them.
    func presentedItemDidChangeUbiquityAttributes(
        _ attributes: Set<UbiquityResourceValues.Attribute>)

    /// There is a new version in conflict with the current one.
    func presentedItemDidGain(_ version: FileVersion)
    /// A version was removed.
    func presentedItemDidLose(_ version: FileVersion)
    /// A version in conflict was settled, perhaps on another device.
    func presentedItemDidResolveConflict(_ version: FileVersion)

    // MARK: Items in a presented directory, at any depth

    /// A new item is there. Presenters that implement only ``presentedSubitemDidChange(at:)``
    /// receive that instead.
    func presentedSubitemDidAppear(at url: URL)
    /// An item has changed. The default, for a package (a directory whose name has an extension),
    /// calls ``presentedItemDidChange()``.
    func presentedSubitemDidChange(at url: URL)
    /// An item was moved. The default is that of ``presentedSubitemDidChange(at:)``.
    func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL)
    /// An item has a new version in conflict with its current one.
    func presentedSubitem(at url: URL, didGain version: FileVersion)
    /// A version of an item was removed.
    func presentedSubitem(at url: URL, didLose version: FileVersion)
    /// A version of an item that was in conflict was settled.
    func presentedSubitem(at url: URL, didResolve version: FileVersion)

    // MARK: Additions to Apple's protocol

    /// The item could not be registered with its volume, so there will be no messages about it.
    func presentedItemRegistrationDidFail(with error: FileCoordinationError)
}

extension FilePresenter {
    /// There is no other item.
    public var primaryPresentedItemURL: URL? { nil }
    /// All messages.
    public var presentedItemMessages: FilePresenterMessages { .all }

    /// Lets the reader go on at once.
    public func relinquishPresentedItem(
        toReader reader: @escaping @Sendable (_ reacquirer: (@Sendable () -> Void)?) -> Void
    ) { reader(nil) }
    /// Lets the writer go on at once.
    public func relinquishPresentedItem(
        toWriter writer: @escaping @Sendable (_ reacquirer: (@Sendable () -> Void)?) -> Void
    ) { writer(nil) }
    /// Answers at once that nothing is unsaved.
    public func savePresentedItemChanges(
        completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) { completionHandler(nil) }
    /// Answers at once.
    public func accommodatePresentedItemDeletion(
        completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) { completionHandler(nil) }
    /// Refuses: contents that are shown stay on this device.
    public func accommodatePresentedItemEviction(
        completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) { completionHandler(FileCoordinationError(.busy, "it is in use")) }
    /// Answers at once.
    public func accommodatePresentedSubitemDeletion(
        at url: URL, completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) { completionHandler(nil) }

    /// Ignores it.
    public func presentedItemDidChange() {}
    /// Ignores it.
    public func presentedItemDidMove(to newURL: URL) {}
    /// None.
    public var observedPresentedItemUbiquityAttributes: Set<UbiquityResourceValues.Attribute> {
        []
    }
    /// Ignores it.
    public func presentedItemDidChangeUbiquityAttributes(
        _ attributes: Set<UbiquityResourceValues.Attribute>
    ) {}
    /// Ignores it.
    public func presentedItemDidGain(_ version: FileVersion) {}
    /// Ignores it.
    public func presentedItemDidLose(_ version: FileVersion) {}
    /// Ignores it.
    public func presentedItemDidResolveConflict(_ version: FileVersion) {}

    /// Ignores it. A change is reported, too.
    public func presentedSubitemDidAppear(at url: URL) {}
    /// Calls ``presentedItemDidChange()`` for a package.
    public func presentedSubitemDidChange(at url: URL) { changePackage() }
    /// Calls ``presentedItemDidChange()`` for a package.
    public func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL) { changePackage() }
    /// Ignores it.
    public func presentedSubitem(at url: URL, didGain version: FileVersion) {}
    /// Ignores it.
    public func presentedSubitem(at url: URL, didLose version: FileVersion) {}
    /// Ignores it.
    public func presentedSubitem(at url: URL, didResolve version: FileVersion) {}

    /// Ignores it.
    public func presentedItemRegistrationDidFail(with error: FileCoordinationError) {}

    /// Guesses by the extension whether the item is a package; only the volume knows. For
    /// presenters that do not list these messages in ``presentedItemMessages``, the volume itself
    /// reports exactly the changes of packages.
    private func changePackage() {
        if presentedItemURL?.pathExtension.isEmpty == false { presentedItemDidChange() }
    }
}
