import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// The last time that the machine stopped while the volume was open. A file system stores a file's
/// size separately from its contents: a file that was written shortly before and not synced may
/// have its size on the disk and none of its blocks, or neither. It then reads as zeros that no
/// program wrote, or is empty, and that must not become a version.
struct PowerLoss: Sendable {
    /// Files that were last changed before this time (nanoseconds since 1970) may be destroyed. It
    /// is when the volume was opened again, by the clock from which the file system takes the times
    /// of files; if that was behind then, as on a machine without a battery, it is an hour after
    /// the newest change that is known.
    let time: Int64
    let unfinished: LostSaves

    private static let bootKey = "boot"
    private static let timeKey = "power_loss"

    /// Finds whether the machine has stopped since the volume was last open, and notes it in the
    /// journal. Returns the last such time.
    /// - Parameters:
    ///   - wasClosed: Whether the volume was closed properly.
    ///   - opened: When the volume was opened now, by the clock of its files.
    ///   - marks: The marks that the last daemon has left.
    static func last(
        _ journal: Journal, wasClosed: Bool, opened: Int64, _ clocks: MachineClocks,
        _ marks: OpenMarks
    ) throws(VolumeError) -> PowerLoss? {
        let known = try journal.read {
            (try $0.value(bootKey), try $0.value(timeKey), try UnfinishedFile.areLeft(in: $0))
        }
        let boot = clocks.boot()
        let isNew = known.0 != nil && known.0 != boot && !wasClosed
        var time = known.1.flatMap { Int64($0) }
        if isNew {
            let newest = try journal.read { try $0.newestChange() }
            let isBehind = opened < newest
            // That clock has ticks of some milliseconds, and what was changed in the tick of the
            // opening was changed before it, because no program had the volume yet.
            time = isBehind ? newest &+ 3_600_000_000_000 : opened &+ 1
        }
        let marked = marks.left()
        if known.0 != boot || known.2 {
            try journal.write { [time] t in
                try t.set(bootKey, to: boot)
                if let time { try t.set(timeKey, to: String(time)) }
                if isNew, let time {
                    for inode in marked { try UnfinishedFile.addMarked(inode, t) }
                    try UnfinishedFile.lose(before: time, t)
                }
                try UnfinishedFile.forget(t)
            }
        }
        for inode in marked { marks.remove(inode) }
        guard let time else { return nil }
        let unfinished = try journal.read { try UnfinishedFile.lost(in: $0) }
        return PowerLoss(time: time, unfinished: LostSaves(unfinished))
    }

    /// Whether a file may hold only a part of what a program was saving when the machine stopped.
    func mayBeUnfinished(_ snapshot: FileSnapshot) -> Bool { unfinished.contains(snapshot) }

    /// The same of a file that was moved to the stash before the stop.
    func mayBeUnfinished(_ entry: Stash.Entry, _ snapshot: FileSnapshot) -> Bool {
        entry.kind == .displaced && entry.saved < time && mayBeUnfinished(snapshot)
    }

    /// Whether a file that was last changed before the machine stopped has allocated blocks and
    /// none of them was ever written. A sparse file has no allocated blocks, and a file that a
    /// program is writing has its blocks in memory.
    func destroyed(_ file: Int32, _ snapshot: FileSnapshot) -> Bool {
        // Programs may set either time: one by utimensat(2), the other by renaming the file.
        guard snapshot.isFile, snapshot.size > 0, min(snapshot.modified, snapshot.changed) < time
        else { return false }
        func isUnwritten() -> Bool {
            let extents = FileExtents.first(of: file)
            return !extents.isEmpty && extents.allSatisfy { $0.flags & FileExtents.unwritten != 0 }
        }
        // Blocks that are on their way to the disk look the same until they have arrived.
        return isUnwritten() && cl_fsync(file, 1) == 0 && isUnwritten()
    }

    /// Whether an empty file was last changed before the machine stopped. File systems that store a
    /// file's size only with its contents, like XFS, leave it empty if these were not synced.
    func mayHaveEmptied(_ snapshot: FileSnapshot) -> Bool {
        snapshot.isFile && snapshot.size == 0 && max(snapshot.modified, snapshot.changed) < time
    }

    /// Whether a file was last changed before the machine stopped, and so may hold only the
    /// beginning of an earlier content. Programs may set either time.
    func mayHaveShortened(_ snapshot: FileSnapshot) -> Bool {
        snapshot.isFile && snapshot.size > 0 && min(snapshot.modified, snapshot.changed) < time
    }

    /// Whether the end of a file that was last changed before the machine stopped has allocated
    /// blocks that were never written. Such a file was appended to, and has its new size without
    /// the new contents. A program can also allocate the end of a file with fallocate(2).
    func mayHaveLostEnd(_ file: Int32, _ snapshot: FileSnapshot) -> Bool {
        guard snapshot.isFile, snapshot.size > 0, max(snapshot.modified, snapshot.changed) < time
        else { return false }
        func isUnwritten() -> Bool {
            let extents = FileExtents.first(of: file).filter { $0.logical < UInt64(snapshot.size) }
            return extents.last.map { $0.flags & FileExtents.unwritten != 0 } ?? false
        }
        // Blocks that are on their way to the disk look the same until they have arrived.
        return isUnwritten() && cl_fsync(file, 1) == 0 && isUnwritten()
    }

    /// Whether all that such a file has beyond a size is zeros in the page of its former end. A
    /// file system that appends there into a block that the file already has, like ext4, stores the
    /// new size at once. A program can also append zeros.
    func mayHaveLostEnd(_ file: Int32, _ snapshot: FileSnapshot, beyond size: UInt64) -> Bool {
        let page: UInt64 = 4_096
        let (now, rest) = (UInt64(max(snapshot.size, 0)), size % page)
        guard snapshot.isFile, rest > 0, now > size, now <= size - rest + page,
            max(snapshot.modified, snapshot.changed) < time
        else { return false }
        var bytes = [UInt8](repeating: 1, count: Int(now - size))
        return bytes.withUnsafeMutableBytes {
            pread(file, $0.baseAddress, $0.count, Int(size)) == $0.count
                && $0.allSatisfy { $0 == 0 }
        }
    }

    /// Whether a loss of power destroyed a content in the stash. An intact copy has the length that
    /// was stored with it. Neither a copy nor a pre-image log has a block that was allocated and
    /// never written.
    func destroyed(_ entry: Stash.Entry, _ file: Int32, _ snapshot: FileSnapshot) -> Bool {
        if entry.kind == .displaced { return destroyed(file, snapshot) }
        // The time of a change grows when the file gets another name or attribute afterwards; the
        // time in its name is the daemon's, which may be another clock's.
        guard min(entry.saved, snapshot.changed) < time else { return false }
        if entry.kind == .copied, let size = Stash.intendedSize(of: file), size != snapshot.size {
            return true
        }
        func hasUnwritten() -> Bool {
            FileExtents.first(of: file).contains { $0.flags & FileExtents.unwritten != 0 }
        }
        // Blocks that are on their way to the disk look the same until they have arrived.
        return hasUnwritten() && cl_fsync(file, 1) == 0 && hasUnwritten()
    }
}
