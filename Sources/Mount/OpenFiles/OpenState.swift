import CLinux
import Synchronization
import SystemCalls
import Volume

/// The state of a node while it is open or being truncated: how its contents are read and written,
/// and how they were made.
final class OpenState: @unchecked Sendable {
    /// The number of handles and requests in progress. Guarded by the lock of `NodeTable`.
    var users = 0
    /// The number of handles that read and write through the kernel. A mapping may change the times
    /// unseen, so attributes are not cached while there are any. Guarded by the lock of
    /// `NodeTable`.
    var sharedWriters = 0

    /// How the kernel reads and writes an inode. All open handles must use the same mode, or the
    /// kernel fails with EIO.
    enum Mode {
        case closed
        case passthrough(backing: UInt32)
        case daemon
    }

    struct Life {
        var mode = Mode.closed
        var handles = 0
    }

    /// Held for moments only.
    let life = Mutex(Life())

    /// How its contents are written. The lock may be held for long, so threads that serve requests
    /// only try to take it. Taken before `life`.
    let writing = Mutex(Writing())

    /// The kernel's number of the last request that has replaced or removed the file.
    let displaced = Atomic<UInt64>(0)

    /// The failures to write what mappings have changed.
    let unwrittenPages = Mutex(UnwrittenPages())

    /// The implicit leases: the programs that have the file open, and those that wait to open it.
    let leases = Mutex(ImplicitLeases())

    /// Changes the implicit leases, and lets the opens proceed that get one.
    func changeLeases(_ change: (inout ImplicitLeases, _ now: Int64) -> [WaitingOpen]) {
        let now = cl_clock_monotonic_ns()
        for open in leases.withLock({ change(&$0, now) }) { open.leaseGranted() }
    }

    /// Parked requests that need `writing` run one after the other, so that those of one file
    /// cannot occupy all parking threads.
    let line = SerialQueue()

    /// Runs `body` with `writing` locked. Returns nil if it is locked and `mayBlock` is false.
    func withWriting<Result: Sendable>(
        mayBlock: Bool, _ body: (inout Writing) throws(Errno) -> Result
    ) throws(Errno) -> Result? {
        if mayBlock {
            return try writing.withLock { (writing) throws(Errno) in try body(&writing) }
        }
        return try writing.withLockIfAvailable { (writing) throws(Errno) in try body(&writing) }
    }
}
