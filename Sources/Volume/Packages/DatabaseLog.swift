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
        return try read(magic.count, from: log, at: 0) == magic ? .hot : .nothing
    }

    /// A write-ahead log is hot if committed pages in it differ from the database. Some programs
    /// leave a log behind although the database has all its pages.
    @Sendable private static func contentsOfWAL(_ log: Int32, _ main: Int32) throws(Errno)
        -> Contents
    {
        let header = try read(32, from: log, at: 0)
        guard header.count == 32, header.word(at: 0) & ~1 == 0x377f_0682 else { return .nothing }
        let pageSize = Int64(header.word(at: 8))
        guard pageSize >= 512, pageSize <= 65536 else { return .nothing }
        var (committed, open): ([UInt32: Int64], [UInt32: Int64]) = ([:], [:])
        var count: Int64 = 0
        var offset: Int64 = 32
        while true {
            let frame = try read(24, from: log, at: offset)
            // Frames that an earlier use of the log has left have another salt.
            guard frame.count == 24, frame[8..<16] == header[16..<24] else { break }
            open[frame.word(at: 0)] = offset + 24
            if frame.word(at: 4) != 0 {
                count = Int64(frame.word(at: 4))
                committed.merge(open) { $1 }
                open = [:]
            }
            offset += 24 + pageSize
        }
        guard !committed.isEmpty else { return .nothing }
        var status = stat()
        guard main >= 0, cl_fstat(main, &status) == 0, Int64(status.st_size) == count * pageSize
        else { return .hot }
        for (page, place) in committed where Int64(page) <= count {
            let logged = try read(Int(pageSize), from: log, at: place)
            if try read(Int(pageSize), from: main, at: Int64(page - 1) * pageSize) != logged {
                return .hot
            }
        }
        return .copied
    }

    private static func read(_ count: Int, from file: Int32, at offset: Int64) throws(Errno)
        -> [UInt8]
    {
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 16)
        defer { bytes.deallocate() }
        return Array(bytes[..<(try readFully(file, into: bytes, at: offset))])
    }
}

extension [UInt8] {
    fileprivate func word(at offset: Int) -> UInt32 {
        self[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) }
    }
}
