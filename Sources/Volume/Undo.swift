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
            var buffer: [UInt8] = []
            for block in Int(offset / Undo.blockSize)...Int((end - 1) / Undo.blockSize)
            where !saved[block] {
                if buffer.isEmpty { buffer = [UInt8](repeating: 0, count: Int(Undo.blockSize)) }
                let start = Int64(block) * Undo.blockSize
                do throws(Errno) {
                    try save(descriptor, at: start, through: &buffer)
                } catch {
                    return .failure(error)
                }
                saved[block] = true
            }
            return .success(())
        }
        try result.get()
    }

    /// Saves all that is left from `offset` on: before a truncation.
    package func willTruncate(_ descriptor: Int32, to offset: Int64) throws(Errno) {
        try willWrite(descriptor, offset: offset, length: size)
    }

    private func save(_ descriptor: Int32, at start: Int64, through buffer: inout [UInt8])
        throws(Errno)
    {
        let wanted = Int(min(Undo.blockSize, size - start))
        let result = buffer.withUnsafeMutableBytes { bytes -> Result<Void, Errno> in
            do throws(Errno) {
                let part = UnsafeMutableRawBufferPointer(rebasing: bytes[..<wanted])
                let count = try readFully(descriptor, into: part, at: start)
                try writeFully(copy, UnsafeRawBufferPointer(rebasing: bytes[..<count]), at: start)
                return .success(())
            } catch {
                return .failure(error)
            }
        }
        try result.get()
    }

    /// Makes the saved blocks durable: before the file's own new blocks are made so.
    package func sync() throws(Errno) { try check(cl_fsync(copy, 1)) }
}
