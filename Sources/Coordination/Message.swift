import Model

/// A message to a presenter. A presenter must receive its messages in order.
package enum Message: Hashable, Sendable {
    /// Questions before an access: the presenter must answer. `reacquire` follows when the access
    /// has ended.
    case relinquishToReader(ClaimID)
    case relinquishToWriter(ClaimID)
    case save(ClaimID)
    case accommodateDeletion(ClaimID)
    case accommodateSubitemDeletion(ClaimID, Path)
    /// The access has ended, and its changes have been sent before this message.
    case reacquire(ClaimID)

    case changed
    case moved(Path)
    case subitemAppeared(Path)
    case subitemChanged(Path)
    case subitemMoved(from: Path, to: Path)
    case version(VersionChange, id: String)
    case subitemVersion(Path, VersionChange, id: String)

    /// The claim that waits for the presenter's answer; nil when the message needs no answer.
    package var claim: ClaimID? {
        switch self {
        case .relinquishToReader(let id), .relinquishToWriter(let id), .save(let id),
            .accommodateDeletion(let id), .accommodateSubitemDeletion(let id, _):
            id
        default: nil
        }
    }
}
