import CLinux
import Model
import Synchronization
import SystemCalls

/// The pre-image log of a large file that is written in place: its old blocks, saved just before
/// they are overwritten, in a sparse file of the old size. A hole means that the file itself still
/// has the block.
package final class PreImageLog: Sendable {
    /// In bytes: the part of the file that a saved block covers.
    static let blockSize: Int64 = 1 << 16
    /// The largest number of blocks copied in one piece: one megabyte.
    private static let pieceBlocks = 16
    /// The largest number of blocks saved ahead of a program that writes sequentially, if each save
    /// is synced.
    private static let aheadMax = 256

    /// The name of the stash file.
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
        /// The block after the last saved ones, and how many blocks to save ahead from there.
        var next = 0
        var ahead = 1
    }

    init(name: String, in stash: Stash, copy: consuming Descriptor, size: Int64) throws(Errno) {
        self.name = name
        self.stash = stash
        self.size = size
        self.copy = copy.release()
        let count = Int((size + PreImageLog.blockSize - 1) / PreImageLog.blockSize)
        state = Mutex(State(saved: [Bool](repeating: false, count: count)))
        try check(cl_ftruncate(self.copy, size))
    }

    deinit { _ = cl_close(copy) }

    /// Makes each block durable before it may be overwritten, from now on, because the old contents
    /// were promised to be on the disk.
    func syncEach() { syncsEach.store(true, ordering: .releasing) }

    /// Whether `willWrite` would wait for the disk.
    package func mustSync(offset: Int64, length: Int64) -> Bool {
        guard syncsEach.load(ordering: .acquiring), let blocks = blocks(offset, length) else {
            return false
        }
        return state.withLock { $0.saved[blocks].contains(false) || $0.isUnsynced }
    }

    /// The blocks that a write changes; nil if it only extends the file.
    private func blocks(_ offset: Int64, _ length: Int64) -> Range<Int>? {
        let end = min(size, offset &+ length < offset ? Int64.max : offset + length)
        guard offset < end else { return nil }
        return Int(offset / PreImageLog.blockSize)..<Int((end - 1) / PreImageLog.blockSize) + 1
    }

    /// Saves the old blocks that a write of `length` bytes at `offset` is about to change.
    /// `descriptor` is open for reading. If this throws, the write must not happen.
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
            // One sync costs more than saving additional blocks.
            state.ahead = block == state.next ? min(state.ahead * 2, PreImageLog.aheadMax) : 1
            end = min(max(end, block + state.ahead), state.saved.count)
        }
        while block < end {
            if state.saved[block] {
                block += 1
                continue
            }
            // Copies adjacent blocks in one piece.
            var after = block + 1
            while after < end, !state.saved[after], after - block < PreImageLog.pieceBlocks {
                after += 1
            }
            state.isUnsynced = true
            try save(descriptor, block..<after)
            for index in block..<after { state.saved[index] = true }
            block = after
        }
        state.next = end
    }

    /// Saves all remaining blocks from `offset` on, before a truncation.
    package func willTruncate(_ descriptor: Int32, to offset: Int64) throws(Errno) {
        try willWrite(descriptor, offset: offset, length: size)
    }

    private func save(_ descriptor: Int32, _ blocks: Range<Int>) throws(Errno) {
        let start = Int64(blocks.lowerBound) * PreImageLog.blockSize
        let wanted = Int(min(Int64(blocks.count) * PreImageLog.blockSize, size - start))
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: wanted, alignment: 4096)
        defer { piece.deallocate() }
        let count = try readFully(descriptor, into: piece, at: start)
        try writeFully(copy, UnsafeRawBufferPointer(rebasing: piece[..<count]), at: start)
    }

    /// Makes the saved blocks durable. Must happen before the file's new blocks are made durable.
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
