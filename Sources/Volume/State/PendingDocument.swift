import Model

/// A pending document: what the recorder still has to record of it.
struct PendingDocument {
    /// Its prior contents that are not recorded yet, oldest first.
    var priorContents: [PriorContent] = []
    /// Who saved the contents that the tree holds, and when; nil if they are no new save.
    var save: Save?
    /// Who created the file, if no program has saved it under this name.
    var author: Save?
    /// Whether a program has it open for writing.
    var isWriting = false
    /// The change was found by the scan, so what the file held before was not moved aside.
    var isFound = false
    /// Grows with each change of this value, so that a recording notices changes made while it
    /// read.
    var revision: UInt64 = 0
    /// When the document became pending, and when to record it; monotonic nanoseconds. `since` is 0
    /// if a caller waits for the document.
    var since: Int64
    var due: Int64
    var attempts = 0

    struct Save: Hashable {
        var actor: Actor
        /// Nanoseconds since 1970.
        var time: Int64
    }

    init(now: Int64) { (since, due) = (now, now) }
}
