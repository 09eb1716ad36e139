import Glibc
import Model

/// Reads the pages of a database from its file and its log, without SQLite and without a lock. So
/// nothing is written, and a page that cannot be read does not affect the others.
final class PageFile {
    let path: String
    let pageSize: Int
    /// Pages are numbered 1...count.
    let count: UInt32
    /// A sentence for people about what is wrong with the log.
    let logProblem: String?
    /// Pages that were read as the continuation of a row.
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
                throw VolumeError(.notFound, "There is no journal at \(path): check the path.")
            }
            throw .system(code, detail: "it cannot be opened", journal: path)
        }
        var status = stat()
        guard fstat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            Glibc.close(file)
            throw VolumeError(.system, "The journal \(path) is not a regular file: restore it.")
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

    /// Returns nil when the page does not exist or the disk cannot read it. A page that is cut off
    /// by the end of the file is filled with zeros.
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

    /// SQLite's default page size, which every journal has.
    private static let usualPageSize = 4096

    private static func pageSize(_ header: [UInt8]) -> Int? {
        guard header.count == 100, header.starts(with: "SQLite format 3\0".utf8) else { return nil }
        let size = header.big16(16) == 1 ? 65536 : header.big16(16)
        return size >= 512 && size.nonzeroBitCount == 1 ? size : nil
    }

    /// Returns fewer bytes at the end of the file, and nil when the disk fails.
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

    /// Reads SQLite's variable-length integer of 1 to 9 bytes. Returns nil when it does not end
    /// before `end`.
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
