internal import GRDB
import Glibc
import Model

extension Journal {
    /// The problems that SQLite finds in the whole file, one line each; empty when there are none.
    /// Reads everything.
    package func integrityProblems() -> [String] {
        do {
            try pool.read { _ in }  // Throws if the journal is closed.
            // A connection that could write, although this one does not: a read-only connection
            // ignores the CHECK constraints.
            let queue = try DatabaseQueue(
                path: path, configuration: Journal.configuration(readonly: false))
            defer { try? queue.close() }
            return try queue.read { database in
                let lines = try String.fetchAll(database, sql: "PRAGMA integrity_check")
                let strays = try String.fetchAll(
                    database,
                    sql: """
                        SELECT 'a row of ' || "table" || ' refers to a missing row of ' || parent
                        FROM pragma_foreign_key_check
                        """)
                return (lines == ["ok"] ? [] : lines) + strays
            }
        } catch {
            return [VolumeError(error, journal: path).message]
        }
    }

    /// Copies the log into the database and truncates it. Meant for idle times.
    ///
    /// - Returns: False when a reader still needs the log; try again later.
    @discardableResult
    package func checkpoint() throws(VolumeError) -> Bool { try checkpoint("TRUNCATE").isDone }

    /// Copies the log into the database. The log then begins again in the space that its file
    /// already has. Returns whether the log had any pages.
    @discardableResult
    package func restartLog() throws(VolumeError) -> Bool {
        let result = try checkpoint("RESTART")
        return result.isDone && result.pages > 0
    }

    /// `pages` is the number of pages that the log had.
    private func checkpoint(_ mode: String) throws(VolumeError) -> (isDone: Bool, pages: Int) {
        do {
            return try pool.writeWithoutTransaction { database in
                // The recorder runs this and must not wait long for a slow reader.
                try database.execute(sql: "PRAGMA busy_timeout = 50")
                defer { try? database.execute(sql: "PRAGMA busy_timeout = 5000") }
                let row = try Row.fetchOne(database, sql: "PRAGMA wal_checkpoint(\(mode))")
                return (row?[0] == 0, row?[1] ?? 0)
            }
        } catch {
            throw VolumeError(error, journal: path)
        }
    }

    /// Rewrites the whole file, so that no removed data remains in it. Takes as long as copying the
    /// file.
    ///
    /// - Returns: False when a reader still needs the log, which may contain removed data.
    package func rewrite() throws(VolumeError) -> Bool {
        do {
            try pool.writeWithoutTransaction { try $0.execute(sql: "VACUUM") }
        } catch {
            throw VolumeError(error, journal: path)
        }
        return try checkpoint()
    }

    /// Closes all connections and leaves a single file without a log. Waits for running reads.
    package func close() throws(VolumeError) {
        do {
            // SQLite removes the log together with the last connection, but only if that one may
            // write. So the readers are closed first.
            pool.releaseMemory()
            try pool.close()
        } catch {
            throw VolumeError(error, journal: path)
        }
    }

    /// Writes a compact copy of the journal and syncs it to the disk. Readers and the writer
    /// continue meanwhile.
    ///
    /// - Throws: `.invalid` when `target` exists; `.full`; `.denied`.
    package func backup(to target: String) throws(VolumeError) {
        // SQLite accepts an empty file as the target. This one was created here, so it may be
        // removed on failure.
        try Journal.reserve(target)
        do {
            try pool.unsafeRead { database in
                try database.execute(sql: "VACUUM INTO ?", arguments: [target])
            }
            try Journal.synchronize(target)
        } catch {
            unlink(target)
            let error = VolumeError(error, journal: path)
            throw error.code == .full ? .fullJournal(target) : error
        }
    }

    /// Creates an empty file, which the caller fills or removes. Throws when there is a file
    /// already.
    static func reserve(_ target: String) throws(VolumeError) {
        let descriptor = Glibc.open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor < 0 else {
            Glibc.close(descriptor)
            return
        }
        guard errno != EEXIST else {
            throw VolumeError(.invalid, "\(target) already exists: name a new file.")
        }
        throw .system(errno, detail: "the copy cannot be created", journal: target)
    }

    /// Syncs the file and its directory.
    static func synchronize(_ target: String) throws(VolumeError) {
        try synchronize(target, for: target)
        let directory = target.lastIndex(of: "/").map { String(target[...$0]) } ?? "."
        try synchronize(directory, for: target)
    }

    private static func synchronize(_ path: String, for target: String) throws(VolumeError) {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        defer { if descriptor >= 0 { Glibc.close(descriptor) } }
        guard descriptor >= 0, fsync(descriptor) == 0 else {
            throw .system(errno, detail: "the copy cannot be synced to disk", journal: target)
        }
    }
}
