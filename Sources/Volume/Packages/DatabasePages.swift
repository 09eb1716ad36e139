import CLinux
import ChunkStore
import Glibc
import Model
import SystemCalls

/// The pages that SQLite would copy from a log into its database before it uses it: the committed
/// ones of a write-ahead log, or the old ones of a rollback journal.
struct DatabasePages {
    let pageSize: Int64
    /// The database's size when this is done, in bytes.
    let size: Int64
    /// Where each page is in the log, by its number, which begins with 1.
    let places: [UInt32: Int64]

    private static let journalMagic: [UInt8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]

    /// Reads a log whole; nil if SQLite would not apply anything of it.
    init?(log: Int32) throws(Errno) {
        let start = try DatabasePages.read(8, from: log, at: 0)
        guard start.count == 8 else { return nil }
        if start == DatabasePages.journalMagic {
            try self.init(journal: log)
        } else if start.word(at: 0) & ~1 == 0x377f_0682 {
            try self.init(writeAheadLog: log)
        } else {
            return nil
        }
    }

    private init(pageSize: Int64, count: UInt32, places: [UInt32: Int64]) {
        self.pageSize = pageSize
        size = Int64(count) * pageSize
        self.places = places.filter { $0.key > 0 && $0.key <= count }
    }

    private static func isPageSize(_ size: Int64) -> Bool {
        size >= 512 && size <= 65536 && size & (size - 1) == 0
    }

    static func read(_ count: Int, from file: Int32, at offset: Int64) throws(Errno) -> [UInt8] {
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 16)
        defer { bytes.deallocate() }
        return Array(bytes[..<(try readFully(file, into: bytes, at: offset))])
    }

    // MARK: Write-ahead logs

    /// Each frame has a header of 24 bytes and a page. Its checksum covers everything before it, so
    /// the first wrong one ends the log, as after a loss of power.
    private init?(writeAheadLog log: Int32) throws(Errno) {
        let header = try DatabasePages.read(32, from: log, at: 0)
        guard header.count == 32 else { return nil }
        let pageSize = Int64(header.word(at: 8))
        guard DatabasePages.isPageSize(pageSize) else { return nil }
        var sum = Checksum(isBigEndian: header[3] & 1 != 0)
        sum.add(header[0..<24])
        guard sum.equals(header, at: 24) else { return nil }
        var (committed, open): ([UInt32: Int64], [UInt32: Int64]) = ([:], [:])
        var count: UInt32 = 0
        var offset: Int64 = 32
        while true {
            let frame = try DatabasePages.read(24 + Int(pageSize), from: log, at: offset)
            // Frames that an earlier use of the log has left have another salt.
            guard frame.count == 24 + Int(pageSize), frame[8..<16] == header[16..<24] else { break }
            sum.add(frame[0..<8])
            sum.add(frame[24...])
            guard sum.equals(frame, at: 16) else { break }
            open[frame.word(at: 0)] = offset + 24
            if frame.word(at: 4) != 0 {
                count = frame.word(at: 4)
                committed.merge(open) { $1 }
                open = [:]
            }
            offset += Int64(frame.count)
        }
        guard !committed.isEmpty else { return nil }
        self.init(pageSize: pageSize, count: count, places: committed)
    }

    private struct Checksum {
        let isBigEndian: Bool
        private var (first, second): (UInt32, UInt32) = (0, 0)

        init(isBigEndian: Bool) { self.isBigEndian = isBigEndian }

        mutating func add(_ bytes: ArraySlice<UInt8>) {
            bytes.withUnsafeBytes { bytes in
                for offset in stride(from: 0, to: bytes.count, by: 8) {
                    first &+= word(bytes, offset) &+ second
                    second &+= word(bytes, offset + 4) &+ first
                }
            }
        }

        private func word(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> UInt32 {
            let word = bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
            return isBigEndian ? UInt32(bigEndian: word) : UInt32(littleEndian: word)
        }

        func equals(_ bytes: [UInt8], at offset: Int) -> Bool {
            bytes.word(at: offset) == first && bytes.word(at: offset + 4) == second
        }
    }

    // MARK: Rollback journals

    /// One or more headers, each in a sector of its own and followed by records: a page's number,
    /// its old contents, and a checksum.
    private init?(journal log: Int32) throws(Errno) {
        var status = stat()
        guard cl_fstat(log, &status) == 0 else { return nil }
        let end = Int64(status.st_size)
        // One transaction over several databases names another file, which decides whether this
        // journal still counts.
        let tail = try DatabasePages.read(8, from: log, at: max(0, end - 8))
        guard tail != DatabasePages.journalMagic || end <= 512 else { return nil }
        var places: [UInt32: Int64] = [:]
        var (pageSize, count): (Int64, UInt32) = (0, 0)
        var offset: Int64 = 0
        while true {
            let header = try DatabasePages.read(28, from: log, at: offset)
            guard header.count == 28, Array(header[..<8]) == DatabasePages.journalMagic else {
                break
            }
            let sector = Int64(header.word(at: 20))
            if offset == 0 {
                (pageSize, count) = (Int64(header.word(at: 24)), header.word(at: 16))
            }
            guard DatabasePages.isPageSize(pageSize), DatabasePages.isPageSize(sector) else {
                return nil
            }
            let isUncounted = header.word(at: 8) == .max
            let records = isUncounted ? Int64.max : Int64(header.word(at: 8))
            var place = offset + sector
            var done: Int64 = 0
            while done < records {
                let record = try DatabasePages.read(Int(pageSize) + 8, from: log, at: place)
                guard record.count == Int(pageSize) + 8,
                    DatabasePages.isValid(record, pageSize, nonce: header.word(at: 12))
                else { break }
                let page = record.word(at: 0)
                if places[page] == nil { places[page] = place + 4 }
                place += Int64(record.count)
                done += 1
            }
            guard done == records else { break }
            offset = (place + sector - 1) / sector * sector
        }
        guard count > 0 else { return nil }
        self.init(pageSize: pageSize, count: count, places: places)
    }

    private static func isValid(_ record: [UInt8], _ pageSize: Int64, nonce: UInt32) -> Bool {
        var sum = nonce
        for index in stride(from: Int(pageSize) - 200, to: 0, by: -200) {
            sum &+= UInt32(record[4 + index])
        }
        return record.word(at: 0) > 0 && sum == record.word(at: 4 + Int(pageSize))
    }
}

/// A database as SQLite would see it: with the pages of its log.
final class LoggedDatabase: ContentSource {
    let pages: DatabasePages
    private let log: Descriptor
    private let database: AnySource

    init(_ database: AnySource, _ pages: DatabasePages, log: consuming Descriptor) {
        self.pages = pages
        self.log = log
        self.database = database
    }

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(VolumeError)
        -> Int
    {
        let count = Int(max(0, min(Int64(buffer.count), pages.size - offset)))
        var done = 0
        while done < count {
            let place = offset + Int64(done)
            let inner = place % pages.pageSize
            let length = min(count - done, Int(pages.pageSize - inner))
            let part = UnsafeMutableRawBufferPointer(rebasing: buffer[done..<done + length])
            let page = UInt32(place / pages.pageSize) + 1
            if let start = pages.places[page] {
                try readPage(into: part, at: start + inner)
            } else {
                let found = try database.read(into: part, at: place)
                part[found...].initializeMemory(as: UInt8.self, repeating: 0)
            }
            done += length
        }
        return count
    }

    private func readPage(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64)
        throws(VolumeError)
    {
        do throws(Errno) {
            guard try readFully(log.raw, into: buffer, at: offset) == buffer.count else {
                throw Errno(EIO)
            }
        } catch {
            throw VolumeError(.system, "The log of a database cannot be read: \(error).")
        }
    }
}

extension [UInt8] {
    func word(at offset: Int) -> UInt32 {
        self[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) }
    }
}
