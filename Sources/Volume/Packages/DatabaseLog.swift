import CLinux
import Glibc
import Model
import SystemCalls

/// A SQLite database and its log are one document: while the log holds changes that the database
/// does not have, the database file alone is an older or a torn state.
package enum DatabaseLog {
    /// What a log holds.
    enum Contents {
        /// Nothing that SQLite would ever apply.
        case nothing
        /// Only changes that the database has. SQLite would apply them again, so they must not lie
        /// beside other contents.
        case copied
        /// Changes that the database lacks. SQLite applies them when it opens the database next.
        case hot
    }

    /// The name of the database's log if it is hot.
    ///
    /// - Parameter main: The database, open for reading.
    static func hot(beside name: Name, in directory: Int32, main: Int32) -> Name? {
        logs(beside: name, in: directory, main: main).first { $0.contents == .hot }?.name
    }

    /// The logs beside a database that hold something. A log that cannot be read counts as hot.
    ///
    /// - Parameter main: The database, open for reading; -1 if it does not exist. A log that was
    ///   left behind would then be applied to whatever file gets the name.
    static func logs(beside name: Name, in directory: Int32, main: Int32)
        -> [(name: Name, contents: Contents)]
    {
        kinds.compactMap { kind in
            let log = kind.name(beside: name)
            do throws(Errno) {
                let file = try openBeneath(
                    [log], from: directory, flags: O_RDONLY | O_NONBLOCK | O_NOATIME)
                let snapshot = FileSnapshot(try file.status())
                guard snapshot.isFile, snapshot.size > 0 else { return nil }
                let found = try kind.contents(file.raw, main)
                return found == .nothing ? nil : (log, found)
            } catch {
                let isMissing = error == .notFound || [ENAMETOOLONG, ELOOP].contains(error.code)
                return isMissing ? nil : (log, .hot)
            }
        }
    }

    /// A database and its logs as they stand. Equal states mean that none of them was written in
    /// between.
    package struct State: Equatable, Sendable {
        private var main: FileSnapshot?
        /// The logs that are not empty.
        package private(set) var logs: [Name: FileSnapshot] = [:]
        /// A log that cannot be examined.
        private var unknown: Name?

        package init(beside name: Name, in directory: Int32) {
            func status(_ name: Name) throws(Errno) -> FileSnapshot {
                var status = stat()
                try check(
                    name.withCString { cl_fstatat(directory, $0, &status, AT_SYMLINK_NOFOLLOW) })
                return FileSnapshot(status)
            }
            main = try? status(name)
            for kind in DatabaseLog.kinds {
                let log = kind.name(beside: name)
                do throws(Errno) {
                    let found = try status(log)
                    if found.isFile, found.size > 0 { logs[log] = found }
                } catch {
                    if error != .notFound, error.code != ENAMETOOLONG { unknown = log }
                }
            }
        }

        /// One of the logs; nil if there is none.
        package var log: Name? { unknown ?? logs.keys.first }

        /// Whether a file was changed so recently that another change may have got the same time.
        var isRecent: Bool {
            let now = cl_clock_realtime_ns()
            return ([main].compactMap(\.self) + logs.values).contains {
                $0.changed > now - 20_000_000
            }
        }
    }

    /// Examines the logs beside a database. Reads them whole.
    ///
    /// - Parameter root: A descriptor of the tree, where the path begins.
    package static func examine(_ path: [Name], below root: Int32) -> Examination {
        guard let name = path.last,
            let directory = try? openBeneath(
                Array(path.dropLast()), from: root, flags: O_PATH | O_DIRECTORY)
        else { return Examination() }
        let state = State(beside: name, in: directory.raw)
        var examination = Examination(state: state.isRecent ? nil : state)
        guard state.log != nil else { return examination }
        let main = name.withCString {
            cl_openat(directory.raw, $0, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOATIME, 0)
        }
        defer { if main >= 0 { _ = cl_close(main) } }
        for log in logs(beside: name, in: directory.raw, main: main) {
            if log.contents == .hot { examination.hot = log.name }
            if log.contents == .copied { examination.copied[log.name] = state.logs[log.name] }
        }
        return examination
    }

    /// What `examine` has found.
    package struct Examination: Sendable {
        /// A log with changes that the database lacks.
        package var hot: Name?
        /// Logs with changes that the database has, too.
        package var copied: [Name: FileSnapshot] = [:]
        /// The examined files; nil if they may have been written meanwhile.
        package var state: State?
    }

    /// What is appended to a database's name for its logs.
    static let endings = ["-journal", "-wal"]

    /// Whether a file may be a SQLite database: its size is a multiple of the smallest page.
    static func maybeDatabase(_ snapshot: FileSnapshot) -> Bool {
        snapshot.isFile && snapshot.size > 0 && snapshot.size % 512 == 0
    }

    /// Opens the log of an open file if it is not empty.
    static func openLog(of file: Int32) -> Descriptor? {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let length = buffer.withUnsafeMutableBytes {
            cl_readlinkat(
                AT_FDCWD, "/proc/self/fd/\(file)",
                $0.baseAddress!.assumingMemoryBound(to: CChar.self), $0.count)
        }
        guard length > 0 else { return nil }
        let path = Array(buffer[..<length])
        for ending in endings {
            let name = Name(bytes: path + Array(ending.utf8))
            let found = name.withCString {
                cl_openat(
                    AT_FDCWD, $0, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOATIME, 0)
            }
            guard found >= 0 else { continue }
            let log = Descriptor(owning: found)
            if let status = try? log.status(), FileSnapshot(status).isFile, status.st_size > 0 {
                return log
            }
        }
        return nil
    }

    private struct Kind: Sendable {
        /// What is appended to the database's name.
        let ending: String
        /// Reads the log (the first descriptor) of a database (the second).
        let contents: @Sendable (Int32, Int32) throws(Errno) -> Contents

        func name(beside database: Name) -> Name {
            Name(bytes: database.bytes + Array(ending.utf8))
        }
    }

    private static let kinds = [
        Kind(ending: "-journal", contents: contentsOfJournal),
        Kind(ending: "-wal", contents: contentsOfWAL),
    ]

    /// Whether a rollback journal belongs to an unfinished transaction: a finished one removes it,
    /// empties it or overwrites its header with zeros.
    @Sendable private static func contentsOfJournal(_ log: Int32, _ main: Int32) throws(Errno)
        -> Contents
    {
        let magic: [UInt8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]
        return try DatabasePages.read(magic.count, from: log, at: 0) == magic ? .hot : .nothing
    }

    /// A write-ahead log is hot if committed pages in it differ from the database. Some programs
    /// leave a log behind although the database has all its pages.
    @Sendable private static func contentsOfWAL(_ log: Int32, _ main: Int32) throws(Errno)
        -> Contents
    {
        guard let found = try DatabasePages(log: log) else { return .nothing }
        var status = stat()
        guard main >= 0, cl_fstat(main, &status) == 0, Int64(status.st_size) == found.size
        else { return .hot }
        let size = Int(found.pageSize)
        for (page, place) in found.places {
            let logged = try DatabasePages.read(size, from: log, at: place)
            let present = try DatabasePages.read(
                size, from: main, at: Int64(page - 1) * found.pageSize)
            if present != logged { return .hot }
        }
        return .copied
    }
}
