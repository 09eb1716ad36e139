import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls

/// A file of the store that only reserves space. It is given up when the disk is full, so that the
/// journal can grow and the store can be opened, and is made again when there is room. Programs may
/// take the space that is given up, so the journal's log has space reserved for itself: removals
/// that make room can always be noted.
final class Reserve: Sendable {
    /// An O_PATH descriptor of the store.
    private let directory: Int32
    /// The file system cannot allocate space in advance.
    private let isImpossible = Atomic(false)

    /// In bytes. The journal's log is this long when it is written into the database.
    private static let sizeMax: Int64 = 16 << 20
    private static let name = "reserve"
    private static let log = "journal.sqlite-wal"

    init(directory: Int32) { self.directory = directory }

    /// The size for this disk.
    private func wanted(_ space: DiskSpace) -> Int64 {
        min(Reserve.sizeMax, space.total / 100) & ~4095
    }

    /// Whether it has its full size, or cannot be made on this file system.
    var isWhole: Bool {
        guard !isImpossible.load(ordering: .relaxed), let space = DiskSpace(of: directory) else {
            return true
        }
        return size >= wanted(space) && isLogAhead(by: wanted(space) / 4)
    }

    var size: Int64 { status(Reserve.name).map { Int64($0.st_size) } ?? 0 }

    /// Whether the log has this many bytes allocated beyond its end.
    private func isLogAhead(by bytes: Int64) -> Bool {
        guard let log = status(Reserve.log) else { return true }
        return Int64(log.st_blocks) * 512 >= Int64(log.st_size) + bytes
    }

    private func status(_ name: String) -> stat? {
        var status = stat()
        let isFound = cl_fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0
        return isFound ? status : nil
    }

    /// Frees the reserved space; returns false if there is none. A program may take it before the
    /// journal does; then the journal's writer waits for space as before.
    @discardableResult
    func giveUp() -> Bool {
        guard size > 0,
            let file = try? Descriptor(opening: Reserve.name, in: directory, flags: O_WRONLY)
        else { return false }
        return cl_ftruncate(file.raw, 0) == 0
    }

    /// Runs `body`, which gives a file a name in the stash. That may need a block, and a full disk
    /// must not forbid the removal that would empty it, so the reserve is given up for it.
    @discardableResult
    func using<Result>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result {
        do throws(Errno) { return try body() } catch {
            guard error == .noSpace, giveUp() else { throw error }
            return try body()
        }
    }

    /// Gives the reserve up when less space than its size is free on the disk.
    func giveUpIfFull() {
        guard let space = DiskSpace(of: directory), space.free < wanted(space) else { return }
        giveUp()
    }

    /// Makes the reserve again when four times its size is free on the disk.
    func restore() {
        guard !isWhole, let space = DiskSpace(of: directory), space.free >= 4 * wanted(space)
        else { return }
        fillLog(wanted(space))
        make(wanted(space))
    }

    /// Allocates space for the log, which has just begun anew, before programs take it.
    func fillLog() {
        guard let space = DiskSpace(of: directory) else { return }
        // The other half is for the journal itself.
        fillLog(min(wanted(space), space.free / 2))
    }

    /// Allocates space beyond the log's end, which SQLite does not notice. Closing this descriptor
    /// releases no POSIX lock, because SQLite has none on the log.
    private func fillLog(_ bytes: Int64) {
        let bytes = bytes & ~4095
        guard bytes > 0, !isLogAhead(by: bytes),
            let log = try? Descriptor(opening: Reserve.log, in: directory, flags: O_RDWR),
            let status = try? log.status()
        else { return }
        let keepSize: Int32 = 1
        if cl_fallocate(log.raw, keepSize, 0, Int64(status.st_size) + bytes) == -EOPNOTSUPP {
            isImpossible.store(true, ordering: .relaxed)
        }
    }

    /// Reserves what is left of the disk when the store is closed, because the next opening needs
    /// it.
    func keepRest() {
        guard !isWhole, let space = DiskSpace(of: directory) else { return }
        make(min(wanted(space), space.free & ~4095))
    }

    private func make(_ size: Int64) {
        guard size > self.size,
            let file = try? Descriptor(
                opening: Reserve.name, in: directory, flags: O_RDWR | O_CREAT, mode: 0o600)
        else { return }
        let result = cl_fallocate(file.raw, 0, 0, size)
        if result == -EOPNOTSUPP { isImpossible.store(true, ordering: .relaxed) }
        if result < 0 { _ = cl_ftruncate(file.raw, 0) }
    }
}

extension DiskSpace {
    /// Reads them for the file system of a descriptor.
    init?(of descriptor: Int32) {
        var space = statvfs()
        guard fstatvfs(descriptor, &space) == 0 else { return nil }
        self.init(blocks: space.f_blocks, free: space.f_bavail, unit: space.f_frsize)
    }
}
