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
    /// Blocks that are saved ahead of a program that writes one after the other, at most, where
    /// each saving is synced.
    private static let aheadMax = 256

    /// The stash file.
    let name: String
    private let stash: Stash
    private let copy: Int32
    /// The size of the old contents, in bytes.
    let size: Int64
    private let state: Mutex<State>
    private let syncsEach = Atomic(false)

    private struct State {
        var saved: [Bool]
        var isUnsynced = false
        /// The stash file's name may not be on the disk yet.
        var isNew = true
        /// The block after those that were saved last, and how many are saved from there on.
        var next = 0
        var ahead = 1
    }

    init(name: String, in stash: Stash, copy: consuming Descriptor, size: Int64) throws(Errno) {
        self.name = name
        self.stash = stash
        self.size = size
        self.copy = copy.release()
        let count = Int((size + Undo.blockSize - 1) / Undo.blockSize)
        state = Mutex(State(saved: [Bool](repeating: false, count: count)))
        try check(cl_ftruncate(self.copy, size))
    }

    deinit { _ = cl_close(copy) }

    /// The old contents were promised to be on the disk: from now on each block is brought there
    /// before it may be overwritten.
    func syncEach() { syncsEach.store(true, ordering: .releasing) }

    /// Whether `willWrite` has to wait for the disk.
    package func mustSync(offset: Int64, length: Int64) -> Bool {
        guard syncsEach.load(ordering: .acquiring), let blocks = blocks(offset, length) else {
            return false
        }
        return state.withLock { $0.saved[blocks].contains(false) || $0.isUnsynced }
    }

    /// Those that a write changes; nil when it only makes the file longer.
    private func blocks(_ offset: Int64, _ length: Int64) -> Range<Int>? {
        let end = min(size, offset &+ length < offset ? Int64.max : offset + length)
        guard offset < end else { return nil }
        return Int(offset / Undo.blockSize)..<Int((end - 1) / Undo.blockSize) + 1
    }

    /// Saves the old blocks that a write of `length` bytes at `offset` is about to change.
    /// `descriptor` is open for reading. When it throws, the write must not happen.
    package func willWrite(_ descriptor: Int32, offset: Int64, length: Int64) throws(Errno) {
        guard let blocks = blocks(offset, length) else { return }
        try state.withLock { (state) throws(Errno) in
            try save(descriptor, blocks, &state)
            if syncsEach.load(ordering: .acquiring) { try sync(&state) }
        }
    }

    private func save(_ descriptor: Int32, _ blocks: Range<Int>, _ state: inout State)
        throws(Errno)
    {
        guard var block = blocks.first(where: { !state.saved[$0] }) else { return }
        var end = blocks.upperBound
        if syncsEach.load(ordering: .acquiring) {
            // A sync costs more than saving more than was asked for.
            state.ahead = block == state.next ? min(state.ahead * 2, Undo.aheadMax) : 1
            end = min(max(end, block + state.ahead), state.saved.count)
        }
        while block < end {
            if state.saved[block] {
                block += 1
                continue
            }
            // As many as lie together, in one piece.
            var after = block + 1
            while after < end, !state.saved[after], after - block < Undo.pieceBlocks { after += 1 }
            state.isUnsynced = true
            try save(descriptor, block..<after)
            for index in block..<after { state.saved[index] = true }
            block = after
        }
        state.next = end
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
    package func sync() throws(Errno) {
        try state.withLock { (state) throws(Errno) in try sync(&state) }
    }

    private func sync(_ state: inout State) throws(Errno) {
        guard state.isUnsynced else { return }
        try check(cl_fsync(copy, state.isNew ? 0 : 1))
        if state.isNew { try stash.syncNames() }
        (state.isUnsynced, state.isNew) = (false, false)
    }
}
