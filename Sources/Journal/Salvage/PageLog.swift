import Glibc

/// A write-ahead log. It has the pages of all transactions whose checksums are correct, as SQLite
/// itself would recover them.
final class PageLog {
    let pageSize: Int
    private(set) var lastPage: UInt32 = 0
    /// A sentence for people about what is wrong with the log.
    private(set) var problem: String?
    private let file: Int32
    /// The offset of the newest committed content of each page.
    private var offsets: [UInt32: Int64] = [:]

    /// Fails when there is no log. A log whose header is damaged has no pages: SQLite drops it
    /// completely, too.
    init?(_ path: String) {
        file = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard file >= 0 else { return nil }
        let header = PageFile.read(32, at: 0, from: file) ?? []
        guard header.count == 32 else {
            pageSize = 0
            return
        }
        pageSize = Int(header.big32(8))
        var sum = Checksum(isBigEndian: header.big32(0) & 1 == 1)
        sum.add(header, 0..<24)
        guard header.big32(0) & ~1 == 0x377F_0682, pageSize >= 512, pageSize <= 65536,
            pageSize.nonzeroBitCount == 1, sum.equals(header, at: 24)
        else {
            problem = "Its log \(path) cannot be read: the last changes may be missing."
            return
        }
        readFrames(salt: Array(header[16..<24]), sum: sum, path: path)
    }

    deinit { if file >= 0 { Glibc.close(file) } }

    func page(_ number: UInt32) -> [UInt8]? {
        guard let offset = offsets[number] else { return nil }
        let bytes = PageFile.read(pageSize, at: offset, from: file)
        return bytes?.count == pageSize ? bytes : nil
    }

    private func readFrames(salt: [UInt8], sum: Checksum, path: String) {
        var sum = sum
        var offset: Int64 = 32
        var open: [UInt32: Int64] = [:]
        var isSound = true
        while let frame = PageFile.read(24 + pageSize, at: offset, from: file),
            frame.count == 24 + pageSize, Array(frame[8..<16]) == salt
        {
            sum.add(frame, 0..<8)
            sum.add(frame, 24..<frame.count)
            isSound = isSound && sum.equals(frame, at: 16)
            if isSound {
                open[frame.big32(0)] = offset + 24
            } else if frame.big32(4) != 0 {
                // Each commit was synced, so a frame that was torn by a crash has no commit after
                // it. A commit after a bad frame means damage.
                problem = "Its log \(path) is damaged: the last changes may be missing."
                return
            }
            if isSound, frame.big32(4) != 0 {
                offsets.merge(open) { $1 }
                lastPage = max(lastPage, frame.big32(4))
                open = [:]
            }
            offset += Int64(frame.count)
        }
    }
}

/// The running checksum of the log.
private struct Checksum {
    let isBigEndian: Bool
    private var first: UInt32 = 0
    private var second: UInt32 = 0

    init(isBigEndian: Bool) { self.isBigEndian = isBigEndian }

    mutating func add(_ bytes: [UInt8], _ range: Range<Int>) {
        bytes.withUnsafeBytes { buffer in
            for offset in stride(from: range.lowerBound, to: range.upperBound, by: 8) {
                first &+= word(buffer, offset) &+ second
                second &+= word(buffer, offset + 4) &+ first
            }
        }
    }

    private func word(_ buffer: UnsafeRawBufferPointer, _ offset: Int) -> UInt32 {
        let word = buffer.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
        return isBigEndian ? UInt32(bigEndian: word) : UInt32(littleEndian: word)
    }

    func equals(_ bytes: [UInt8], at offset: Int) -> Bool {
        bytes.big32(offset) == first && bytes.big32(offset + 4) == second
    }
}
