import CLinux
import Model
import SystemCalls

// Opening for writing, truncating and closing: where a save begins and ends.
extension Volume {
    /// A program opens a file for writing (`truncates`: with O_TRUNC, which the caller does afterwards), or has just made
    /// it (`isNew`). Puts in safety what it may overwrite. `file` is O_PATH; `unique` the kernel's number of the request;
    /// `others` how many handles of any kind are open on the inode already.
    package func openForWriting(
        _ writing: inout Writing, file: Int32, status: stat, truncates: Bool, isNew: Bool,
        traits: Traits, others: Int, unique: UInt64, mayBlock: Bool, by actor: Actor
    ) throws(Errno) -> WriteAccess { .direct }

    /// One handle opened for writing was released.
    package func closeWriter(_ writing: inout Writing, file: Int32, traits: Traits, unique: UInt64)
    {}

    /// Before truncate(2) or ftruncate(2) to `size`. True when done; false: call again with `mayBlock` from a thread that may take its time.
    package func willTruncate(
        _ writing: inout Writing, file: Int32, status: stat, traits: Traits, mayBlock: Bool,
        by actor: Actor
    ) throws(Errno) -> Bool { true }

    /// After it: a save, unless the file is open for writing.
    package func didTruncate(_ writing: inout Writing, file: Int32, status: stat, by actor: Actor) {
    }

    /// `user.concord.package` of a directory was set or removed.
    package func packageAttributeChanged(inode: UInt64) {}
}
