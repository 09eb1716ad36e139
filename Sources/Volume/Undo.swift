import CLinux
import Model
import Synchronization
import SystemCalls

/// What a large file held before it was written in place: its old blocks, saved one by one just
/// before they are overwritten, in a sparse file of the old size. A hole there means: the file
/// itself still has that block.
package final class Undo: Sendable {
    /// Bytes. A saved block covers this much of the file.
    static let blockSize: Int64 = 1 << 16
    /// Blocks that are copied in one piece, at most: a megabyte.
    private static let pieceBlocks = 16

    /// The stash file.
    let name: String
    private let copy: Int32
    /// The size of the old contents, in bytes.
    let size: Int64
    private let saved: Mutex<[Bool]>

    init(name: String, copy: consuming Descriptor, size: Int64) throws(Errno) {
        self.name = name
        self.size = size
        self.copy = copy.release()
        saved = Mutex(
            [Bool](repeating: false, count: Int((size + Undo.blockSize - 1) / Undo.blockSize)))
        try check(cl_ftruncate(self.copy, size))
    }

    deinit { _ = cl_close(copy) }

    /// Saves the old blocks that a write of `length` bytes at `offset` is about to change.
    /// `descriptor` is open for reading. When it throws, the write must not happen.
    package func willWrite(_ descriptor: Int32, offset: Int64, length: Int64) throws(Errno) {
        let end = min(size, offset &+ length < offset ? Int64.max : offset + length)
        guard offset < end else { return }
        let result = saved.withLock { saved -> Result<Void, Errno> in
            var block = Int(offset / Undo.blockSize)
            let last = Int((end - 1) / Undo.blockSize)
            while block <= last {
                if saved[block] {
                    block += 1
                    continue
                }
                // As many as lie together, in one piece.
                var after = block + 1
                while after <= last, !saved[after], after - block < Undo.pieceBlocks { after += 1 }
                do throws(Errno) {
                    try save(descriptor, block..<after)
                } catch {
                    return .failure(error)
                }
                while block < after {
                    saved[block] = true
                    block += 1
                }
            }
            return .success(())
        }
        try result.get()
    }

    /// Saves all that is left from `offset` on: before a truncation.
    package func willTruncate(_ descriptor: Int32, to offset: Int64) throws(Errno) {
        try willWrite(descriptor, offset: offset, length: size)
    }

    private func save(_ descriptor: Int32, _ blocks: Range<Int>) throws(Errno) {
        let start = Int64(blocks.lowerBound) * Undo.blockSize
        let wanted = Int(min(Int64(blocks.count) * Undo.blockSize, size - start))
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: wanted, alignment: 4096)
        defer { piece.deallocate() }
        let count = try readFully(descriptor, into: piece, at: start)
        try writeFully(copy, UnsafeRawBufferPointer(rebasing: piece[..<count]), at: start)
    }

    /// Makes the saved blocks durable: before the file's own new blocks are made so.
    package func sync() throws(Errno) { try check(cl_fsync(copy, 1)) }
}
