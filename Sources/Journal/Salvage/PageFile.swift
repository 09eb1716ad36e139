import Glibc
import Model

/// The pages of a database as its file and its log hold them, read without SQLite and without a
/// lock, so that nothing is written and one bad page stands in nobody's way.
final class PageFile {
    let path: String
    let pageSize: Int
    /// Pages are numbered 1...count.
    let count: UInt32
    /// What is wrong with the log, for people.
    let logProblem: String?
    /// Pages that were read as the rest of a row.
    var overflowPages: Set<UInt32> = []
    private let file: Int32
    private let log: PageLog?

    /// - Throws: `.notFound`; `.denied`, `.system` when the file cannot be opened; `.damaged` when
    ///   it is too short.
    init(_ path: String) throws(VolumeError) {
        self.path = path
        file = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        let code = errno
        guard file >= 0 else {
            guard code != ENOENT else {
                throw VolumeError(.notFound, "There is no journal at \(path): is this a store?")
            }
            throw .system(code, detail: "it cannot be opened", journal: path)
        }
        var status = stat()
        guard fstat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            Glibc.close(file)
            throw VolumeError(.system, "The journal \(path) is no file: put the journal back.")
        }
        let header = Self.read(100, at: 0, from: file) ?? []
        let log = PageLog(path + "-wal")
        pageSize = Self.pageSize(header) ?? log?.pageSize ?? Self.usualPageSize
        let matching = log?.pageSize == pageSize ? log : nil
        self.log = matching
        logProblem = log?.problem
        let inFile = (Int(status.st_size) + pageSize - 1) / pageSize
        count = UInt32(clamping: max(inFile, Int(matching?.lastPage ?? 0)))
        guard count > 0 else { throw .damagedJournal(path, "it is empty") }
    }

    deinit { Glibc.close(file) }

    /// Nil when the page is not there or the disk cannot read it. Of a page cut short, the rest is
    /// zeros.
    func page(_ number: UInt32) -> [UInt8]? {
        guard number >= 1, number <= count else { return nil }
        if let page = log?.page(number) { return page }
        guard
            var bytes = Self.read(pageSize, at: Int64(number - 1) * Int64(pageSize), from: file),
            !bytes.isEmpty
        else { return nil }
        bytes += Array(repeating: 0, count: pageSize - bytes.count)
        return bytes
    }

    /// What SQLite takes where nothing else is said, and so what every journal has.
    private static let usualPageSize = 4096

    private static func pageSize(_ header: [UInt8]) -> Int? {
        guard header.count == 100, header.starts(with: "SQLite format 3\0".utf8) else { return nil }
        let size = header.big16(16) == 1 ? 65536 : header.big16(16)
        return size >= 512 && size.nonzeroBitCount == 1 ? size : nil
    }

    /// Fewer bytes at the end of the file; nil when the disk fails.
    static func read(_ count: Int, at offset: Int64, from file: Int32) -> [UInt8]? {
        var failed = false
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            while filled < count {
                let got = pread(
                    file, buffer.baseAddress! + filled, count - filled, off_t(offset) + filled)
                if got < 0, errno == EINTR { continue }
                failed = got < 0
                if got <= 0 { break }
                filled += got
            }
        }
        return failed ? nil : bytes
    }
}

extension [UInt8] {
    func big16(_ offset: Int) -> Int { Int(self[offset]) << 8 | Int(self[offset + 1]) }

    func big32(_ offset: Int) -> UInt32 {
        UInt32(truncatingIfNeeded: big16(offset) << 16 | big16(offset + 2))
    }

    /// SQLite's number of 1 to 9 bytes; nil when it does not end before `end`.
    func variableInteger(_ position: inout Int, end: Int) -> Int64? {
        var value: UInt64 = 0
        for index in 0..<9 {
            guard position < end else { return nil }
            let byte = self[position]
            position += 1
            if index == 8 { return Int64(bitPattern: value << 8 | UInt64(byte)) }
            value = value << 7 | UInt64(byte & 0x7F)
            if byte < 0x80 { break }
        }
        return Int64(bitPattern: value)
    }
}
