internal import GRDB
import Glibc
import Model

extension Journal {
    /// What SQLite finds wrong with the whole file, a line each; empty when it is sound. Reads
    /// everything.
    package func integrityProblems() -> [String] {
        do {
            try pool.read { _ in }  // Closed journals have nothing to say.
            // A connection that may write, though it does not: one that may not forgets the CHECK
            // constraints.
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

    /// Brings the log into the database and empties it; for idle times.
    ///
    /// - Returns: False when a reader still needs the log: try again later.
    @discardableResult
    package func checkpoint() throws(VolumeError) -> Bool { try checkpoint("TRUNCATE").isDone }

    /// Brings the log into the database. The log then starts again from its beginning, in the space
    /// that its file has. Returns whether the log had held anything.
    @discardableResult
    package func restartLog() throws(VolumeError) -> Bool {
        let result = try checkpoint("RESTART")
        return result.isDone && result.pages > 0
    }

    /// `pages`: how many the log had.
    private func checkpoint(_ mode: String) throws(VolumeError) -> (isDone: Bool, pages: Int) {
        do {
            return try pool.writeWithoutTransaction { database in
                // The recorder must not wait for a slow reader here.
                try database.execute(sql: "PRAGMA busy_timeout = 50")
                defer { try? database.execute(sql: "PRAGMA busy_timeout = 5000") }
                let row = try Row.fetchOne(database, sql: "PRAGMA wal_checkpoint(\(mode))")
                return (row?[0] == 0, row?[1] ?? 0)
            }
        } catch {
            throw VolumeError(error, journal: path)
        }
    }

    /// Writes the whole file anew, without what was removed from it. Takes as long as copying it.
    ///
    /// - Returns: False when a reader still needs the log, which may have what was removed.
    package func rewrite() throws(VolumeError) -> Bool {
        do {
            try pool.writeWithoutTransaction { try $0.execute(sql: "VACUUM") }
        } catch {
            throw VolumeError(error, journal: path)
        }
        return try checkpoint()
    }

    /// Closes all connections and leaves one file without a log. Waits for reads under way.
    package func close() throws(VolumeError) {
        do {
            // SQLite removes the log with the last connection, if that one may write: the readers
            // go first.
            pool.releaseMemory()
            try pool.close()
        } catch {
            throw VolumeError(error, journal: path)
        }
    }

    /// Writes a compact copy of the journal as it is now, synced to disk, beside readers and the
    /// writer.
    ///
    /// - Throws: `.invalid` when `target` exists; `.full`; `.denied`.
    package func backup(to target: String) throws(VolumeError) {
        // SQLite takes an empty file: this one is ours to remove again.
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

    /// Makes an empty file that is the caller's to fill or to remove.
    static func reserve(_ target: String) throws(VolumeError) {
        let descriptor = Glibc.open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor < 0 else {
            Glibc.close(descriptor)
            return
        }
        guard errno != EEXIST else {
            throw VolumeError(.invalid, "There is something at \(target): name a new file.")
        }
        throw .system(errno, detail: "the copy cannot be made", journal: target)
    }

    /// The file and its name.
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
