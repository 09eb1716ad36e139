/// Bugs that the rules of grants, or the programs around them, could have. The schedules must find
/// each of them.
enum GrantBug: String, CaseIterable, Sendable {
    /// The hub takes every edit, whatever its token is.
    case noFence
    /// The hub compares tokens, but takes one that it has never given.
    case believesHighTokens
    /// A token is the wall clock of the hub that gives it.
    case wallClockTokens
    /// A grant ends only when its document is closed.
    case releasedByCloseOnly
    /// The device relies on a grant for longer than the hub keeps it.
    case reliesTooLong
    /// The device counts its time from the answer instead of from the question.
    case countsFromTheAnswer
    /// A hub that sees a grant for the first time believes that its time is over.
    case takesOverAtFirstSight
    /// A hub does not look at the holder's signs of life.
    case ignoresRenewals
    /// Each hub has grants of its own in its memory.
    case keepsGrantsInMemory
    /// A hub decides by what it saw before, instead of by what is in the ledger now.
    case decidesOutsideTheTransaction
    /// The hub takes requests that arrive after later ones.
    case takesLateRequests
    /// The hub lets a new process go on with a grant that another device has by now.
    case resumesWhatAnotherHas
    /// A fenced edit is dropped.
    case losesFencedEdits
}
