import Model

/// What a presenter is told, in the order in which it is to hear it.
package enum Message: Hashable, Sendable {
    /// Before somebody's access: to be answered. What has begun so ends with `reacquire`.
    case relinquishToReader(ClaimID)
    case relinquishToWriter(ClaimID)
    case save(ClaimID)
    case accommodateDeletion(ClaimID)
    case accommodateSubitemDeletion(ClaimID, Path)
    /// The access has ended, and all that it did has been told.
    case reacquire(ClaimID)

    case changed
    case moved(Path)
    case subitemAppeared(Path)
    case subitemChanged(Path)
    case subitemMoved(from: Path, to: Path)
    case version(VersionChange, id: String)
    case subitemVersion(Path, VersionChange, id: String)

    /// Whether the presenter's answer is waited for, and of which claim.
    package var claim: ClaimID? {
        switch self {
        case .relinquishToReader(let id), .relinquishToWriter(let id), .save(let id),
            .accommodateDeletion(let id), .accommodateSubitemDeletion(let id, _):
            id
        default: nil
        }
    }
}
