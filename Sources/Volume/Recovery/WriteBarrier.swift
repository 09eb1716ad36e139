import CLinux
import Glibc
import Model
import SystemCalls

/// Puts contents and names in the tree on the disk before the journal describes them, and nothing
/// that programs are still writing: syncfs(2) would make half of a save durable, which after a loss
/// of power looks like a save.
///
/// If the journal were ahead of its tree after a loss of power, the scan would take what was undone
/// for changes by programs: what the hub had sent would be deleted or moved back, on all devices.
/// Inode numbers would mislead, too: one that the journal knows as a new document's can be the
/// number of an older file again, or of contents in the stash, which would become that document's
/// versions.
struct WriteBarrier: Sendable {
    /// An O_PATH descriptor of a directory of the store.
    private let directory: Int32
    private let commit: Commit

    /// How all earlier changes of names, and the places of all blocks that were written, are put on
    /// the disk.
    private enum Commit {
        /// ext4 commits its journal, and XFS its log, up to the change of an inode that is synced.
        case ofInode
        /// Btrfs commits its transaction when it is asked to.
        case ofTransaction
        /// Other file systems have only syncfs(2).
        case ofEverything

        init(_ type: Int) {
            switch type {
            case 0xEF53, 0x5846_5342: self = .ofInode
            case 0x9123_683E: self = .ofTransaction
            default: self = .ofEverything
            }
        }
    }

    init(directory: Int32) {
        self.directory = directory
        commit = Commit(cl_filesystem_type("/proc/self/fd/\(directory)"))
    }

    /// Whether `pass` may also make durable a part of what a program has written. Btrfs begins to
    /// write a file that was emptied as soon as anybody closes it, and commits what is written.
    var commitsParts: Bool { commit != .ofInode }

    /// Whether fsync(2) of a file can make a loss of power mix its contents with the size of later
    /// ones (`ShortenedFiles`).
    var mixesContents: Bool { commit == .ofTransaction }

    /// Writes a file's contents. They are durable after the next `pass`.
    func write(_ file: Int32) throws(Errno) {
        do throws(Errno) {
            try FileExtents.write(of: file)
        } catch {
            guard [ENOTTY, EOPNOTSUPP, EINVAL].contains(error.code) else { throw error }
            try check(cl_fsync(file, 0))
        }
    }

    /// Makes all names durable, and what `write` has written.
    func pass() throws(VolumeError) {
        do throws(Errno) {
            // Neither fsync(2) nor syncfs(2) accepts an O_PATH descriptor.
            let directory = try Descriptor(
                opening: ".", in: directory, flags: O_RDONLY | O_DIRECTORY)
            switch commit {
            case .ofInode:
                // This number of nanoseconds stands for the present time (UTIME_NOW).
                let now = timespec(tv_sec: 0, tv_nsec: 0x3fff_ffff)
                try check(cl_utimens_fd(directory.raw, [now, now]))
                try check(cl_fsync(directory.raw, 0))
            case .ofTransaction:
                var transaction: UInt64 = 0
                try check(cl_ioctl(directory.raw, WriteBarrier.startSync, &transaction))
                try check(cl_ioctl(directory.raw, WriteBarrier.waitSync, &transaction))
            case .ofEverything: try check(cl_syncfs(directory.raw))
            }
        } catch {
            throw VolumeError(.system, "The tree cannot be synced to the disk: \(error).")
        }
    }

    // BTRFS_IOC_START_SYNC and BTRFS_IOC_WAIT_SYNC (linux/btrfs.h).
    private static let startSync: UInt = 0x8008_9418
    private static let waitSync: UInt = 0x4008_9416
}
