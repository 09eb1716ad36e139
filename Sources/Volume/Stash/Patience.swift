/// How long a thread may take while it moves old contents to safety, in ascending order. A step
/// that needs more has done nothing yet, and is repeated on a thread that may take so long.
package enum Patience: Int, Comparable, Sendable {
    /// What one access to the disk takes. The thread serves all requests.
    case none
    /// The same, several times: a small copy that is synced.
    case brief
    /// Copies of any length.
    case copy
    /// Until space was freed on a full disk, which the caller does (`Room.withRoom`).
    case room
    /// No space can be freed: contents that would give way to another program give way to the one
    /// that overwrites them (`OldContents`).
    case loss

    package static func < (one: Patience, other: Patience) -> Bool {
        one.rawValue < other.rawValue
    }
}
