import CLinux
import Glibc
import Model
import SystemCalls

/// Puts the names in the tree on the disk before the journal describes them. If the journal were
/// ahead of its tree after a loss of power, the scan would take what was undone for changes by
/// programs: what the hub had sent would be deleted or moved back, on all devices. Inode numbers
/// would mislead, too: one that the journal knows as a new document's can be the number of an
/// older file again, or of contents in the stash, which would become that document's versions.
struct NameBarrier {
    /// An O_PATH descriptor of the store's stash.
    private let stash: Int32
    /// Whether a sync of one inode that was just changed writes all earlier changes of names, too.
    private let isOrdered: Bool

    /// ext4 commits its journal, and XFS its log, up to the change of that inode.
    private static let ordered = [0xEF53, 0x5846_5342]

    init(stash: Int32) {
        self.stash = stash
        isOrdered = NameBarrier.ordered.contains(cl_filesystem_type("/proc/self/fd/\(stash)"))
    }

    func pass() throws(VolumeError) {
        do throws(Errno) {
            // Neither fsync(2) nor syncfs(2) accepts an O_PATH descriptor.
            let directory = try Descriptor(opening: ".", in: stash, flags: O_RDONLY | O_DIRECTORY)
            guard isOrdered else {
                try check(cl_syncfs(directory.raw))
                return
            }
            // This number of nanoseconds stands for the present time (UTIME_NOW).
            let now = timespec(tv_sec: 0, tv_nsec: 0x3fff_ffff)
            try check(cl_utimens_fd(directory.raw, [now, now]))
            try check(cl_fsync(directory.raw, 0))
        } catch {
            throw VolumeError(.system, "The tree's names cannot be synced to the disk: \(error).")
        }
    }
}
