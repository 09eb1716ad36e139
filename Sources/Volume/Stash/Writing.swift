import Model

/// The state of an inode that programs have open for writing. Its owner, a node of the mount,
/// guards it with its lock and keeps it until the inode is forgotten or no writer is left.
package struct Writing: Sendable {
    /// Handles open for writing.
    package internal(set) var writers = 0
    /// The file when the first writer opened it; nil if that writer created it.
    var baseline: FileSnapshot?
    /// The program that opened it for writing last.
    var actor = Actor(process: 0, uid: 0, program: "")
    /// Whether its old contents were put into the stash for the first writer.
    var isSecured = false
    /// For a large file, the pre-image log in which handles save what they are about to overwrite.
    package internal(set) var preImages: PreImageLog?
    /// The era of `UnrecordedContents` in which writing of the present contents began.
    var era: UInt64 = 0
    /// A writer has closed it since the file was replaced or removed.
    var isLate = false
    /// Copies of old contents that are not synced yet. A program's fsync(2) syncs them before it
    /// makes the new contents durable.
    private(set) var unsynced: [String] = []
    /// The file as the last fsync(2) left it.
    var synced: FileSnapshot?
    /// Saves that may have ended just before another writer opened the file, oldest first. Each is
    /// settled when the earlier writers close. There are several if saves follow each other faster
    /// than their closes are reported.
    var boundaries: [Boundary] = []

    package init() {}

    mutating func addUnsynced(_ stash: String) {
        if unsynced.count >= Writing.unsyncedMax { unsynced.removeFirst() }
        unsynced.append(stash)
    }

    /// Whether a program has synced these contents. A rename since then changes only the change
    /// time.
    func isSynced(_ snapshot: FileSnapshot) -> Bool {
        synced.map { $0.size == snapshot.size && $0.modified == snapshot.modified } ?? false
    }

    /// Old contents that must be synced before the new ones.
    package var unsyncedContents: UnsyncedContents {
        UnsyncedContents(names: unsynced, preImages: preImages)
    }

    mutating func remove(_ synced: UnsyncedContents) {
        unsynced.removeAll { synced.names.contains($0) }
    }

    /// To be called if a truncation has failed after `FileWriting.willTruncate` had prepared it.
    package mutating func truncationFailed(_ inode: UInt64, of volume: Volume) {
        guard writers == 0, isSecured else { return }
        isSecured = false
        volume.events.append(.untouched(inode: inode))
    }

    private static let unsyncedMax = 64

    /// A copy of contents that may have been a save. RELEASE is served after close(2) has returned,
    /// so an open can overtake the close before it. The kernel numbers requests in the order in
    /// which it queued them, so the numbers tell which came first.
    struct Boundary: Sendable {
        /// The number of the open request.
        var unique: UInt64
        var stash: String
        var actor: Actor
        /// The number of writers that were open then and whose closes before this open are not
        /// known yet.
        var earlier: Int
    }
}

/// Old contents in the stash that a program's fsync(2) syncs first.
package struct UnsyncedContents: Sendable {
    fileprivate(set) var names: [String]
    fileprivate(set) var preImages: PreImageLog?
}

/// How a handle that was opened for writing may write.
package enum WriteAccess: Sendable {
    /// Directly to the file (kernel passthrough).
    case direct
    /// Each write must call `PreImageLog.willWrite` first, so the handle's writes (and mapped
    /// writes) must pass through the process.
    case guarded(PreImageLog)
    /// Nothing was done: call again with this patience.
    case slow(Patience)
    /// The close of an earlier writer may be on its way, and the contents are too large to be
    /// copied on suspicion: call again in a moment, and after some moments with `isLastTry`.
    case early
}
