import Glibc
import Model

// What programs are shown of placeholders.
extension Hydration {
    /// Runs `body`, which may wait for the network, on a thread of its own pool.
    package func remotely(_ body: @escaping @Sendable () -> Void) { pool.run(body) }

    /// Adjusts a file's attributes to what programs are shown: a placeholder always has its exact
    /// times, and the number of blocks that it takes on this device.
    package func present(_ status: inout stat, of file: () -> Int32?) {
        guard status.st_mode & S_IFMT == S_IFREG, status.st_size > 0 else { return }
        let (known, told) = look(
            UInt64(status.st_ino), changed: FileSnapshot(status).changed)
        if let told { status.st_ctim = Timestamp(nanoseconds: told).timespec }
        if let known, !known.isVoid {
            let times = known.times
            status.st_mtim = Timestamp(nanoseconds: times.modified).timespec
            status.st_ctim = Timestamp(nanoseconds: times.changed).timespec
            status.st_blocks = max(status.st_blocks, Hydration.absentBlocks)
            return
        }
        // A file can be so long that rounding its size up would overflow.
        guard status.st_blocks <= (status.st_size - 1) / 512, let file = file(),
            PlaceholderMark(of: file) != nil
        else { return }
        status.st_blocks = max(status.st_blocks, Hydration.absentBlocks)
        if let modified = PlaceholderMark.modified(ofFilling: file) {
            status.st_mtim = Timestamp(nanoseconds: modified).timespec
        }
    }

    /// A placeholder without blocks is shown with one, because tar(1) archives a file without
    /// blocks as zeros, without reading it.
    private static let absentBlocks: blkcnt_t = 1

    /// Notes that a program has set attributes of a file; `modified` says whether its modification
    /// time was among them.
    package func attributesSet(on file: Int32, status: stat, modified: Bool) {
        let snapshot = FileSnapshot(status)
        if let known = self.known(snapshot.inode) {
            known.setTimes(snapshot, modified: modified)
        } else if modified, PlaceholderMark.modified(ofFilling: file) != nil {
            try? PlaceholderMark.setFilling(file, modified: snapshot.modified)
        }
    }
}
