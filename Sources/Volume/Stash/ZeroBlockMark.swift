import CLinux
import ChunkStore
import Glibc
import Model
import SystemCalls

/// Stands in a pre-image log for a block that was all zeros, so that holes and blocks that were
/// never written cost 4 KiB of the log instead of 64.
///
/// The mark is at the beginning of the block, and the rest of the block stays a hole in the log. It
/// is not enough to take a block with some data for a saved one: a block of which only a part was
/// saved, because the disk was full or the daemon was killed, has some data, too, and the file
/// still has the rest of it. So the mark is something that no program can have written there: a
/// hash of the log's name, which contains the moment at which the log was made.
struct ZeroBlockMark: Sendable {
    private let bytes: [UInt8]

    /// Shorter blocks are saved as they are.
    private static let lengthMin = 4096

    /// - Parameter log: The name of the stash file.
    init(log: String) {
        bytes = Digest.sha256(Array("zeros \(log)".utf8)).bytes
    }

    func put(into log: Int32, at block: Int64) throws(Errno) {
        try writeFully(log, bytes, at: block)
    }

    func isPut(in log: Int32, at block: Int64) throws(Errno) -> Bool {
        var found = [UInt8](repeating: 0, count: bytes.count)
        let count = found.withUnsafeMutableBytes { buffer in
            Result { () throws(Errno) in try readFully(log, into: buffer, at: block) }
        }
        return try count.get() == bytes.count && found == bytes
    }

    /// Whether the mark may stand for a block with these bytes. The bytes themselves are asked, not
    /// the extents of the file: SEEK_DATA and FIEMAP say different things of blocks that are
    /// allocated, in the page cache, or on their way to the disk.
    static func mayReplace(_ block: UnsafeRawBufferPointer) -> Bool {
        guard block.count > lengthMin, let start = block.baseAddress, block[0] == 0 else {
            return false
        }
        return memcmp(start, start + 1, block.count - 1) == 0
    }
}
