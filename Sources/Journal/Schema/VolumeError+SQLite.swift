internal import GRDB
internal import GRDBSQLite
import Glibc
import Model

// The only place where SQLite's result codes become errors of the domain.

extension VolumeError {
    /// - Parameters:
    ///   - result: SQLite's (extended) result code.
    ///   - systemError: The errno that caused it, if SQLite has kept it.
    init(result: Int32, systemError: Int32, detail: String, journal path: String) {
        switch result & 0xFF {
        case SQLITE_FULL: self = .fullJournal(path)
        case SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_FORMAT: self = .damagedJournal(path, detail)
        case SQLITE_BUSY, SQLITE_LOCKED, SQLITE_PROTOCOL:
            self.init(
                .busy, "The journal \(path) is in use by another process: stop that process first.")
        case SQLITE_PERM, SQLITE_AUTH, SQLITE_READONLY: self = .deniedJournal(path)
        case SQLITE_CONSTRAINT, SQLITE_MISMATCH, SQLITE_TOOBIG, SQLITE_RANGE:
            self.init(.invalid, "The journal \(path) rejected a row: \(detail).")
        case SQLITE_MISUSE:
            self.init(.invalid, "The journal \(path) cannot be used any more: \(detail).")
        case SQLITE_IOERR, SQLITE_CANTOPEN:
            self = .system(systemError, detail: detail, journal: path)
        default:
            self.init(.system, "The journal \(path) failed: \(detail) (SQLite \(result)).")
        }
    }

    /// Converts what GRDB threw. The errno is taken from `database`.
    init(_ error: any Error, journal path: String, in database: Database? = nil) {
        guard let error = error as? DatabaseError else {
            self =
                error as? VolumeError
                ?? VolumeError(.system, "An operation on the journal \(path) failed: \(error).")
            return
        }
        let systemError =
            database?.sqliteConnection.map { sqlite3_system_errno($0) }
            ?? (VolumeError.hasNoSpace(for: path) ? ENOSPC : 0)
        self.init(
            result: error.extendedResultCode.rawValue, systemError: systemError,
            detail: error.message ?? "no reason given", journal: path)
    }

    static func damagedJournal(_ path: String, _ detail: String) -> VolumeError {
        VolumeError(
            .damaged,
            "The journal \(path) is damaged (\(detail)). It was not changed. Restore a backup.")
    }

    static func fullJournal(_ path: String) -> VolumeError {
        VolumeError(
            .full,
            "The disk of the journal \(path) is full, and a change was not recorded: make room.")
    }

    static func deniedJournal(_ path: String) -> VolumeError {
        VolumeError(
            .denied, "This user may not write the journal \(path): check its permissions.")
    }

    /// Whether the disk has too little room for the files that SQLite makes when it opens a
    /// journal. Needed because the errno of a failed opening is not available.
    private static func hasNoSpace(for path: String) -> Bool {
        let name = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
        var space = statvfs()
        guard statvfs(name.isEmpty ? "/" : name, &space) == 0 else { return false }
        let free = geteuid() == 0 ? space.f_bfree : space.f_bavail
        let known = DiskSpace(blocks: space.f_blocks, free: free, unit: space.f_frsize)
        return known.free < openingBytes
    }

    /// The size of the shared memory and the first pages of the log.
    private static var openingBytes: Int64 { 64 << 10 }

    /// SQLite reports an I/O error instead of a full disk when it grows its shared memory or syncs;
    /// only the errno tells.
    static func system(_ errno: Int32, detail: String, journal path: String) -> VolumeError {
        switch errno {
        case ENOSPC, EDQUOT: .fullJournal(path)
        case EACCES, EPERM, EROFS: .deniedJournal(path)
        case 0: VolumeError(.system, "The journal \(path) failed: \(detail).")
        default:
            VolumeError(
                .system,
                "The journal \(path) failed: \(detail) (\(String(cString: strerror(errno)))).")
        }
    }
}
