import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls

/// The pre-image log of a large file that is written in place: its old blocks, saved just before
/// they are overwritten, in a sparse file of the old size. A hole means that the file itself still
/// has the block, unless the block begins with a `ZeroBlockMark`.
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
    private let zeros: ZeroBlockMark
    /// The size of the old contents, in bytes.
    let size: Int64
    private let state: Mutex<State>
    private let syncsEach = Atomic(false)

    /// The lock is held while one piece is copied, and not while the disk syncs, because threads
    /// that serve requests take it.
    private struct State {
        var saved: [Bool]
        /// How many pieces were saved, and how many of them are on the disk.
        var pieces = 0
        var syncedPieces = 0
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
        zeros = ZeroBlockMark(log: name)
        self.copy = copy.release()
        let count = Int((size + PreImageLog.blockSize - 1) / PreImageLog.blockSize)
        state = Mutex(State(saved: [Bool](repeating: false, count: count)))
        try check(cl_ftruncate(self.copy, size))
    }

    deinit { _ = cl_close(copy) }

    /// - Parameter file: The file, opened with O_PATH.
    static func make(of file: Int32, _ snapshot: FileSnapshot, named name: String, in stash: Stash)
        throws(Errno) -> PreImageLog
    {
        let copy = try Descriptor(
            opening: name, in: stash.directory, flags: O_RDWR | O_CREAT | O_EXCL, mode: 0o600)
        Protection(of: file).apply(to: copy.raw)
        return try PreImageLog(name: name, in: stash, copy: copy, size: snapshot.size)
    }

    /// Makes each block durable before it may be overwritten, from now on, because the old contents
    /// were promised to be on the disk.
    func syncEach() { syncsEach.store(true, ordering: .releasing) }

    /// Whether `willWrite` would wait for the disk.
    package func mustSync(offset: Int64, length: Int64) -> Bool {
        guard syncsEach.load(ordering: .acquiring), let blocks = blocks(offset, length) else {
            return false
        }
        return state.withLock { state in
            state.saved[blocks].contains(false) || state.syncedPieces < state.pieces
        }
    }

    /// Whether a write would have to save blocks first.
    func mustSave(offset: Int64, length: Int64) -> Bool {
        guard let blocks = blocks(offset, length) else { return false }
        return state.withLock { $0.saved[blocks].contains(false) }
    }

    /// From now on nothing is saved. The log must have been removed from the journal before.
    func giveUp() {
        state.withLock { state in
            for index in state.saved.indices { state.saved[index] = true }
            state.syncedPieces = state.pieces
            // Handles keep the file open, and its space is needed.
            _ = cl_ftruncate(copy, 0)
        }
    }

    /// The blocks that a write changes; nil if it only extends the file.
    private func blocks(_ offset: Int64, _ length: Int64) -> Range<Int>? {
        let end = min(size, offset &+ length < offset ? Int64.max : offset + length)
        guard offset < end else { return nil }
        return Int(offset / PreImageLog.blockSize)..<Int((end - 1) / PreImageLog.blockSize) + 1
    }

    /// What `willTruncate` needs; nil if there is nothing to save any more.
    func patienceToSave(from offset: Int64) -> Patience? {
        guard let blocks = blocks(offset, size) else { return nil }
        let unsaved = state.withLock { state in blocks.count(where: { !state.saved[$0] }) }
        guard unsaved > 0 else { return nil }
        return unsaved > PreImageLog.pieceBlocks ? .copy : .brief
    }

    /// Saves the old blocks that a write of `length` bytes at `offset` is about to change.
    /// `descriptor` is open for reading. If this throws, the write must not happen.
    package func willWrite(_ descriptor: Int32, offset: Int64, length: Int64) throws(Errno) {
        guard let blocks = blocks(offset, length) else { return }
        let syncs = syncsEach.load(ordering: .acquiring)
        var end = state.withLock { state in
            syncs ? PreImageLog.end(ahead: blocks, &state) : blocks.upperBound
        }
        var next = blocks.lowerBound
        while next < end {
            do throws(Errno) {
                next = try state.withLock { (state) throws(Errno) in
                    try savePiece(descriptor, next..<end, syncs: syncs, &state)
                }
            } catch {
                // There is no room for what would be saved ahead, which is not needed yet.
                guard error == .noSpace, end > blocks.upperBound else { throw error }
                end = blocks.upperBound
            }
        }
        if syncs { try sync() }
    }

    /// The block before which to stop saving. One sync costs more than saving additional blocks, so
    /// more and more are saved ahead of a program that writes sequentially.
    private static func end(ahead blocks: Range<Int>, _ state: inout State) -> Int {
        guard let first = blocks.first(where: { !state.saved[$0] }) else { return 0 }
        state.ahead = first == state.next ? min(state.ahead * 2, PreImageLog.aheadMax) : 1
        state.next = min(max(blocks.upperBound, first + state.ahead), state.saved.count)
        return state.next
    }

    /// Saves the first blocks that are not saved yet, as many as are copied in one piece. Returns
    /// the block after them.
    private func savePiece(
        _ descriptor: Int32, _ blocks: Range<Int>, syncs: Bool, _ state: inout State
    ) throws(Errno) -> Int {
        guard let first = blocks.first(where: { !state.saved[$0] }) else {
            return blocks.upperBound
        }
        var end = first + 1
        while end < blocks.upperBound, !state.saved[end], end - first < PreImageLog.pieceBlocks {
            end += 1
        }
        state.pieces += 1
        do throws(Errno) { try save(descriptor, first..<end) } catch {
            discard(first..<end)
            throw error
        }
        for index in first..<end { state.saved[index] = true }
        // The disk writes this piece while the next one is copied.
        if syncs {
            let start = Int64(first) * PreImageLog.blockSize
            cl_start_writing(copy, start, Int64(end) * PreImageLog.blockSize - start)
        }
        return end
    }

    /// Saves all remaining blocks from `offset` on, before a truncation.
    package func willTruncate(_ descriptor: Int32, to offset: Int64) throws(Errno) {
        try willWrite(descriptor, offset: offset, length: size)
    }

    /// Copies block by block: a buffer for a whole piece would be new memory for each piece, and
    /// bringing that in costs more than copying.
    private func save(_ descriptor: Int32, _ blocks: Range<Int>) throws(Errno) {
        let length = Int(PreImageLog.blockSize)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: length, alignment: 4096)
        defer { buffer.deallocate() }
        for block in blocks {
            let start = Int64(block) * PreImageLog.blockSize
            let wanted = Int(min(Int64(length), size - start))
            let count = try readFully(
                descriptor, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted]),
                at: start)
            let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<count])
            if ZeroBlockMark.mayReplace(bytes) {
                try zeros.put(into: copy, at: start)
            } else {
                try writeFully(copy, bytes, at: start)
            }
        }
    }

    /// Removes what a failed write has left of unsaved blocks. Within a file's size, ext4 leaves
    /// allocated zeros where it found no space, and they would be read as the old contents.
    private func discard(_ blocks: Range<Int>) {
        let start = Int64(blocks.lowerBound) * PreImageLog.blockSize
        let (keepSize, punchHole): (Int32, Int32) = (1, 2)
        _ = cl_fallocate(
            copy, keepSize | punchHole, start, Int64(blocks.count) * PreImageLog.blockSize)
    }

    /// Makes the saved blocks durable. Must happen before the file's new blocks are made durable.
    func sync() throws(Errno) {
        let (pieces, synced, isNew) = state.withLock { ($0.pieces, $0.syncedPieces, $0.isNew) }
        guard synced < pieces else { return }
        try check(cl_fsync(copy, isNew ? 0 : 1))
        if isNew { try stash.syncNames() }
        state.withLock { state in
            state.syncedPieces = max(state.syncedPieces, pieces)
            state.isNew = false
        }
    }
}
