import Model

/// One inode's life while programs have it open for writing. The owner (a node of the mount) guards
/// it with its lock and keeps it until the inode is forgotten or no writer is left.
package struct Writing: Sendable {
    /// Handles open for writing.
    package internal(set) var writers = 0
    /// The file as it was when the first of them opened it; nil when that one made it.
    var baseline: Trace?
    /// Who opened it for writing last.
    var actor = Actor(process: 0, uid: 0, program: "")
    /// Whether its old contents were put in the stash when the first writer came.
    var isSecured = false
    /// Where handles save what they are about to overwrite, for a large file.
    package internal(set) var undo: Undo?
    /// When its present contents began to be written, in eras of `UnrecordedContents`.
    var era: UInt64 = 0
    /// A writer has closed it since the file was replaced or removed.
    var isLate = false
    /// Copies of old contents that nobody has brought to the disk: a program's fsync(2) does so
    /// before it makes the new contents durable.
    private(set) var unsynced: [String] = []
    /// The file as the last fsync(2) left it.
    var synced: Trace?
    /// Saves that may have ended just before a writer opened, in that order; each is settled when
    /// the writers before it close. Several, when a burst of saves is faster than its closes.
    var boundaries: [Boundary] = []

    package init() {}

    mutating func addUnsynced(_ stash: String) {
        if unsynced.count >= Writing.unsyncedMax { unsynced.removeFirst() }
        unsynced.append(stash)
    }

    /// Whether a program has brought these contents to the disk. A rename since then changes
    /// nothing but the time of change.
    func isSynced(_ trace: Trace) -> Bool {
        synced.map { $0.size == trace.size && $0.modified == trace.modified } ?? false
    }

    mutating func removeUnsynced() { unsynced = [] }

    private static let unsyncedMax = 64

    /// RELEASE is answered after close(2) has returned, so an open can overtake the close before
    /// it. Requests are numbered in the order in which the kernel queued them: the numbers tell
    /// which came first.
    struct Boundary: Sendable {
        /// The number of the open request.
        var unique: UInt64
        var stash: String
        var actor: Actor
        /// Writers that were open then and have not been seen to close before it.
        var earlier: Int
    }
}

/// How a handle that was just opened for writing may write.
package enum WriteAccess: Sendable {
    /// Straight to the file (kernel passthrough).
    case direct
    /// Each write must go through `Undo.willWrite` first: the handle's writes (and mapped writes)
    /// must pass through the process.
    case guarded(Undo)
    /// Not without copying much: call again from a thread that may take its time, with `mayBlock`.
    case slow
}
