import Model

/// What happens to the coordination of a volume.
package enum Event: Hashable, Sendable {
    case requested(ClaimID, Request)
    /// The holder is done.
    case released(ClaimID)
    /// Whoever waits does not want it any more.
    case cancelled(ClaimID)
    /// A plain program has waited as long as it may.
    case overdue(ClaimID)
    /// Whoever waits has waited long enough for those who yield.
    case outwaited(ClaimID)

    case presented(PresenterID, Presenter)
    case retired(PresenterID)
    /// A presenter has done what the claim's last message asked, or says why not.
    case answered(PresenterID, ClaimID, failure: String?)
    /// A process died, or hung up: all that it had ends.
    case ended(Party)

    // What was seen to happen in the tree, by `by`'s doing, who are not told.
    case changed(Path, by: Set<PresenterID>)
    case appeared(Path, by: Set<PresenterID>)
    /// The item, and all that it contains, is at another place now.
    case moved(from: Path, to: Path, by: Set<PresenterID>)
    /// Told to all: the one behind it too.
    case version(Path, VersionChange, id: String)
}

package enum Effect: Hashable, Sendable {
    /// With the places where the items are now, in the order of the request's targets.
    case granted(ClaimID, [Path])
    case refused(ClaimID, Refusal)
    case told(PresenterID, Message)
}

package enum Refusal: Hashable, Sendable {
    /// Somebody has the turn, and whoever asked does not wait (any longer).
    case busy
    case cancelled
    /// A presenter could not save, or could not let go.
    case failed(String)
}
