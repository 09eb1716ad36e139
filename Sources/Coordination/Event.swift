import Model

/// An input of `Coordination`.
package enum Event: Hashable, Sendable {
    case requested(ClaimID, Request)
    /// The holder of the claim has finished.
    case released(ClaimID)
    /// The requester does not want the claim any more.
    case cancelled(ClaimID)
    /// A plain access has waited as long as it may.
    case overdue(ClaimID)
    /// The requester has waited long enough for claims that yield.
    case yieldExpired(ClaimID)

    case presented(PresenterID, Presenter)
    case retired(PresenterID)
    /// A presenter has done what the claim's last message asked for, or says why it could not.
    case answered(PresenterID, ClaimID, failure: String?)
    /// A process has ended or has closed its connection: its claims and presenters end.
    case ended(ClientSession)

    // Changes that were observed in the tree. Presenters in `by` made the change themselves and are
    // not notified.
    case changed(Path, by: Set<PresenterID>)
    case appeared(Path, by: Set<PresenterID>)
    /// The item, with everything that it contains, has moved.
    case moved(from: Path, to: Path, by: Set<PresenterID>)
    /// Sent to all presenters, also to the one that made the change.
    case version(Path, VersionChange, id: String)
}

package enum Effect: Hashable, Sendable {
    /// The paths say where the items are now, in the order of the request's targets.
    case granted(ClaimID, [Path])
    case refused(ClaimID, Refusal)
    case told(PresenterID, Message)
}

package enum Refusal: Hashable, Sendable {
    /// A conflicting claim exists, and the requester does not wait (any longer).
    case busy
    case cancelled
    /// A presenter could not save, or could not accommodate the deletion.
    case failed(String)
}
