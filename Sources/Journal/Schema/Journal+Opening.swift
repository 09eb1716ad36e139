internal import GRDB
import Glibc
import Model

extension Journal {
    /// Opens the journal at `path`.
    ///
    /// Nothing is written until the file has been recognized as a journal that this build
    /// understands.
    /// - Parameters:
    ///   - mayCreate: Whether to make a new journal, with a root, when the file does not exist or
    ///     is empty.
    ///   - checked: Whether to check all pages first (after a crash): about a second for 1 GB.
    /// - Throws: `.notFound`; `.newer`; `.damaged` when the file is not a journal or fails the
    ///   check; `.denied`; `.full`.
    package static func open(
        path: String, mayCreate: Bool = false, checked: Bool = false
    ) throws(VolumeError) -> Journal {
        if try isDatabase(path, mayCreate: mayCreate) {
            try examineContent(path, mayBeUnfinished: mayCreate, checked: checked)
        } else {
            try makePrivately(path)
        }
        do {
            let pool = try DatabasePool(path: path, configuration: configuration(readonly: false))
            try pool.writeWithoutTransaction { database in
                try synchronizeFully(database)
                try migrate(database)
            }
            return Journal(path: path, pool: pool)
        } catch {
            throw VolumeError(error, journal: path)
        }
    }

    /// Examines the file without SQLite, which would treat a file of a few bytes as new and would
    /// delete the log of a lost database.
    ///
    /// - Returns: False when the file does not exist or is empty, so that a journal may be made.
    private static func isDatabase(_ path: String, mayCreate: Bool) throws(VolumeError) -> Bool {
        let size = try size(of: path)
        guard (size ?? 0) == 0 else {
            if size! < Journal.smallestPage {
                throw .damagedJournal(path, "it has only \(size!) bytes")
            }
            return true
        }
        if let log = try Journal.size(of: path + "-wal"), log > 0 {
            throw .damagedJournal(path, "it is missing or empty, but \(path)-wal is not empty")
        }
        guard !mayCreate else { return false }
        if size == 0 { throw .damagedJournal(path, "it is empty") }
        throw VolumeError(
            .notFound, "There is no journal at \(path): check that this is a store's directory.")
    }

    /// Creates the file with mode 0600. SQLite would make it, and its log, readable for everybody.
    private static func makePrivately(_ path: String) throws(VolumeError) {
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw .system(errno, detail: "it cannot be created", journal: path)
        }
        Glibc.close(descriptor)
    }

    private static var smallestPage: Int64 { 512 }

    /// Reads through a connection that cannot write. It sees what is only in the log, too.
    private static func examineContent(
        _ path: String, mayBeUnfinished: Bool, checked: Bool
    ) throws(VolumeError) {
        do {
            let queue = try DatabaseQueue(path: path, configuration: configuration(readonly: true))
            try queue.read { database in
                try examineVersion(database, path: path, mayBeUnfinished: mayBeUnfinished)
                if checked { try quickCheck(database, path: path) }
            }
            try queue.close()
        } catch {
            throw VolumeError(error, journal: path)
        }
    }

    private static func examineVersion(
        _ database: Database, path: String, mayBeUnfinished: Bool
    ) throws {
        let application = try Int32.fetchOne(database, sql: "PRAGMA application_id") ?? 0
        let version = try Int32.fetchOne(database, sql: "PRAGMA user_version") ?? 0
        let tables = try Int.fetchOne(database, sql: "SELECT count(*) FROM sqlite_schema") ?? 0
        if application == 0, version == 0, tables == 0 {
            // A crash while the journal was being made leaves a database without tables.
            guard mayBeUnfinished else { throw VolumeError.damagedJournal(path, "it is empty") }
            return
        }
        guard application == Schema.applicationID, version > 0 else {
            throw VolumeError.damagedJournal(path, "it is a database of another program")
        }
        guard version <= Schema.version else {
            throw VolumeError(
                .newer,
                "The journal \(path) was written by a newer build (format \(version), this build "
                    + "knows \(Schema.version)): use that build; nothing was changed.")
        }
    }

    private static func quickCheck(_ database: Database, path: String) throws {
        let lines = try String.fetchAll(database, sql: "PRAGMA quick_check(3)")
        guard lines == ["ok"] else {
            throw VolumeError.damagedJournal(path, lines.joined(separator: "; "))
        }
    }

    static func configuration(readonly: Bool) -> Configuration {
        var configuration = Configuration()
        configuration.readonly = readonly
        configuration.foreignKeysEnabled = true
        configuration.prepareDatabase { database in
            try database.execute(
                sql: """
                    PRAGMA busy_timeout = 5000;
                    PRAGMA temp_store = MEMORY;
                    PRAGMA cell_size_check = ON;
                    PRAGMA trusted_schema = OFF;
                    PRAGMA mmap_size = 0;
                    PRAGMA wal_autocheckpoint = 4000;
                    PRAGMA journal_size_limit = 67108864;
                    """)
        }
        return configuration
    }

    /// Must be called after the pool has been made: the pool sets its writer to NORMAL, with which
    /// a loss of power may undo committed transactions.
    private static func synchronizeFully(_ database: Database) throws {
        try database.execute(sql: "PRAGMA synchronous = FULL")
    }

    static func migrate(_ database: Database) throws {
        let version = try Int32.fetchOne(database, sql: "PRAGMA user_version") ?? 0
        guard version < Schema.version else { return }
        try database.inTransaction(.immediate) {
            for step in Schema.steps[Int(version)...] { try database.execute(sql: step) }
            let isNoting = try Int.fetchOne(database, sql: ChangeTracking.count) ?? 0 > 0
            if isNoting {
                for sql in ChangeTracking.removals + ChangeTracking.triggers {
                    try database.execute(sql: sql)
                }
            }
            try database.execute(
                sql: """
                    PRAGMA application_id = \(Schema.applicationID);
                    PRAGMA user_version = \(Schema.version);
                    """)
            return .commit
        }
    }

    /// The size in bytes; nil when the file does not exist.
    private static func size(of path: String) throws(VolumeError) -> Int64? {
        var status = stat()
        if stat(path, &status) == 0 { return Int64(status.st_size) }
        let code = errno
        if code == ENOENT { return nil }
        throw .system(code, detail: "its file cannot be examined", journal: path)
    }
}
