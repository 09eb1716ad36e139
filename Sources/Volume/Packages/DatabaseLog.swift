import CLinux
import Glibc
import Model
import SystemCalls

/// A SQLite database and its log are one document: while the log holds changes that the database
/// does not have, the database file alone is an older or a torn state.
package enum DatabaseLog {
    /// The name of the database's log if it is hot, which means that SQLite would apply it when it
    /// opens the database next. A log that cannot be read counts as hot.
    ///
    /// - Parameter main: The database, open for reading; -1 if it does not exist. A log that was
    ///   left behind would then be applied to whatever file gets the name.
    package static func hot(beside name: Name, in directory: Int32, main: Int32) -> Name? {
        for (ending, isHot) in logs {
            let log = Name(bytes: name.bytes + Array("\(ending)".utf8))
            do throws(Errno) {
                let file = try openBeneath(
                    [log], from: directory, flags: O_RDONLY | O_NONBLOCK | O_NOATIME)
                let snapshot = FileSnapshot(try file.status())
                guard snapshot.isFile, snapshot.size > 0 else { continue }
                if try isHot(file.raw, main) { return log }
            } catch {
                if error != .notFound, error.code != ENAMETOOLONG, error.code != ELOOP {
                    return log
                }
            }
        }
        return nil
    }

    private static let logs: [(StaticString, @Sendable (Int32, Int32) throws(Errno) -> Bool)] = [
        ("-journal", isJournalHot), ("-wal", isWALHot),
    ]

    /// Whether a rollback journal belongs to an unfinished transaction: a finished one removes it,
    /// empties it or overwrites its header with zeros.
    @Sendable private static func isJournalHot(_ log: Int32, _ main: Int32) throws(Errno) -> Bool {
        let magic: [UInt8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]
        return try read(magic.count, from: log, at: 0) == magic
    }

    /// Whether committed pages of a write-ahead log differ from the database. Some programs leave a
    /// log behind although the database has all its pages.
    @Sendable private static func isWALHot(_ log: Int32, _ main: Int32) throws(Errno) -> Bool {
        let header = try read(32, from: log, at: 0)
        guard header.count == 32, header.word(at: 0) & ~1 == 0x377f_0682 else { return false }
        let pageSize = Int64(header.word(at: 8))
        guard pageSize >= 512, pageSize <= 65536 else { return false }
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
        guard !committed.isEmpty else { return false }
        var status = stat()
        guard main >= 0, cl_fstat(main, &status) == 0, Int64(status.st_size) == count * pageSize
        else { return true }
        for (page, place) in committed where Int64(page) <= count {
            let logged = try read(Int(pageSize), from: log, at: place)
            if try read(Int(pageSize), from: main, at: Int64(page - 1) * pageSize) != logged {
                return true
            }
        }
        return false
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
