import Synchronization
import Volume

/// What a node has only while it is open (or being truncated): how its contents are read and written, and how they came to be.
final class OpenState: @unchecked Sendable {
    /// Handles, and requests in progress. Guarded by the lock of `NodeTable`.
    var users = 0
    /// Handles that read and write through the kernel: a mapping may change the times behind our back, so attributes
    /// are not cached while there are any. Guarded by the lock of `NodeTable`.
    var sharedWriters = 0

    /// How the kernel reads and writes an inode; one way for all its handles while any is open, or the kernel refuses (EIO).
    enum Mode {
        case closed
        case passthrough(backing: UInt32)
        case daemon
    }

    struct Life {
        var mode = Mode.closed
        var handles = 0
        var writing = Writing()
        /// Writes of every handle must save old blocks there first.
        var undo: Undo?
    }

    /// May be held for long by a thread of `Parking`, so threads that serve requests only try.
    let life = Mutex(Life())
}
