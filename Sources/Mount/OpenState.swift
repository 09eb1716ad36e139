import Synchronization
import SystemCalls
import Volume

/// What a node has only while it is open (or being truncated): how its contents are read and
/// written, and how they came to be.
final class OpenState: @unchecked Sendable {
    /// Handles, and requests in progress. Guarded by the lock of `NodeTable`.
    var users = 0
    /// Handles that read and write through the kernel: a mapping may change the times behind our
    /// back, so attributes are not cached while there are any. Guarded by the lock of `NodeTable`.
    var sharedWriters = 0

    /// How the kernel reads and writes an inode; one way for all its handles while any is open, or
    /// the kernel refuses (EIO).
    enum Mode {
        case closed
        case passthrough(backing: UInt32)
        case daemon
    }

    struct Life {
        var mode = Mode.closed
        var handles = 0
    }

    /// Never held for long.
    let life = Mutex(Life())

    struct Content {
        var writing = Writing()
        /// Writes and truncations must save old blocks there first.
        var undo: Undo?
    }

    /// Held for as long as the volume takes: threads that serve requests only try. Taken before
    /// `life`.
    let content = Mutex(Content())

    /// The kernel's number of the request that replaced or removed the file last.
    let displaced = Atomic<UInt64>(0)

    /// Who has it open, and who waits to.
    let seats = Mutex(Seats())

    /// Parked requests that want `content` take turns, so that one file's cannot keep every parking
    /// thread waiting.
    let line = Line()

    /// Runs `body` with the content locked. Nil: somebody holds it who may take his time, and we
    /// may not.
    func withContent<Result: Sendable>(
        mayBlock: Bool, _ body: (inout Content) throws(Errno) -> Result
    ) throws(Errno) -> Result? {
        if mayBlock {
            return try content.withLock { (content) throws(Errno) in try body(&content) }
        }
        return try content.withLockIfAvailable { (content) throws(Errno) in try body(&content) }
    }
}
