import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls

/// A placeholder in use: which of its bytes are on this device, and which callers wait for which
/// bytes. Each chunk is verified before it is written. Which chunks are present is known in memory
/// only; after a restart they are found again by their hashes.
///
/// The object belongs to an inode, not to a name: a handle goes on reading the version that it
/// opened, even when the name shows another version by now.
package final class PlaceholderFile: Sendable {
    package let mark: PlaceholderMark
    let inode: UInt64
    package let size: Int64
    private let state = Mutex(State())
    private let bytes: Mutex<Bytes>
    private let complete = Atomic(false)

    enum Stage: UInt8 {
        case missing
        /// Read-ahead: a reader will probably need it soon.
        case ahead
        case wanted
        case underway
        case here
    }

    enum Phase { case filling, complete, finished, void }

    /// What a caller waits for.
    package enum Need: Sendable {
        /// These bytes.
        case bytes(Range<Int64>)
        /// All bytes.
        case all
        /// All bytes, synced to the disk, and the mark removed: the file is then an ordinary file.
        case finish
    }

    fileprivate struct Wait: Sendable {
        var need: Need
        /// Empty until the list of chunks is known.
        var chunks = 0..<0
        var left = 0
        var done: @Sendable (VolumeError?) -> Void

        var isFinish: Bool { if case .finish = need { true } else { false } }
    }

    struct State: Sendable {
        fileprivate var phase = Phase.filling
        /// Empty until the list of chunks is known.
        var chunks: [ChunkReference] = []
        fileprivate var starts: [Int64] = []
        fileprivate var stages: [Stage] = []
        fileprivate var left = 0
        fileprivate var waits: [UInt64: Wait] = [:]
        fileprivate var lastWait: UInt64 = 0
        fileprivate var readAhead = ReadAhead()
        /// A thread is fetching the list of chunks or finishing the file.
        fileprivate var isListing = false
        /// The file could not be synced. It is tried again only when a caller asks for it.
        fileprivate var isStuck = false
        /// The file is in a worker pool's queue.
        fileprivate var isQueued = false
        /// Guarded by this mutex; changed only under the registry's lock too.
        var users = 0
    }

    /// The descriptor. It is closed when the last user releases it.
    final class File: Sendable {
        let raw: Int32
        init(owning raw: Int32) { self.raw = raw }
        deinit { _ = cl_close(raw) }
    }

    private struct Bytes {
        /// Nil when nothing may be written into the file any more.
        var file: File?
        /// The modification time that programs are shown, in nanoseconds since 1970.
        var modified: Int64
        /// The change time that programs are shown. Filling must not move it, or tar(1) would
        /// report that the file changed while it was read.
        var changed: Int64
        var isFilling: Bool
    }

    /// `file` is open for reading and writing; `changed` maps an inode and its actual change time
    /// to the change time that programs are shown.
    init(
        _ mark: PlaceholderMark, file: consuming Descriptor, changed: (UInt64, Int64) -> Int64
    ) throws(Errno) {
        let status = try file.status()
        let snapshot = FileSnapshot(status)
        self.mark = mark
        inode = snapshot.inode
        size = snapshot.size
        let interrupted = PlaceholderMark.modified(ofFilling: file.raw)
        if let interrupted { try PlaceholderMark.restore(interrupted, of: file.raw) }
        bytes = Mutex(
            Bytes(
                file: File(owning: file.release()), modified: interrupted ?? snapshot.modified,
                changed: changed(snapshot.inode, snapshot.changed),
                isFilling: interrupted != nil))
    }

    /// Whether every byte is present, or the file is no longer a placeholder.
    package var isComplete: Bool { complete.load(ordering: .acquiring) }

    /// The absolute path of the file now; nil if it has no name any more.
    var path: [UInt8]? { bytes.withLock { $0.file.flatMap { pathOfDescriptor($0.raw) } } }

    /// The times that programs are shown, in nanoseconds since 1970.
    var times: (modified: Int64, changed: Int64) { bytes.withLock { ($0.modified, $0.changed) } }

    /// The actual change time and the shown one; nil when the file is no longer a placeholder.
    var changes: ChangeTime? {
        bytes.withLock { bytes in
            var status = stat()
            guard let file = bytes.file, cl_fstat(file.raw, &status) == 0 else { return nil }
            return ChangeTime(actual: FileSnapshot(status).changed, told: bytes.changed)
        }
    }

    /// A program has set attributes; `isModified` says that the modification time was among them.
    func setTimes(_ snapshot: FileSnapshot, modified isModified: Bool) {
        bytes.withLock { bytes in
            bytes.changed = snapshot.changed
            guard isModified else { return }
            bytes.modified = snapshot.modified
            guard bytes.isFilling, let file = bytes.file else { return }
            try? PlaceholderMark.setFilling(file.raw, modified: snapshot.modified)
        }
    }

    // MARK: Waiting

    /// Returns nil if the bytes are present already. Otherwise `done` is called once with an error
    /// or nil, unless the wait is cancelled first.
    func wait(_ need: Need, _ done: @escaping @Sendable (VolumeError?) -> Void) -> UInt64? {
        state.withLock { state in
            switch (state.phase, need) {
            case (.void, _), (.finished, _), (.complete, .all), (.complete, .bytes): return nil
            default: break
            }
            state.isStuck = false
            var wait = Wait(need: need, done: done)
            if !state.chunks.isEmpty {
                PlaceholderFile.resolve(&wait, &state, size)
                if wait.left == 0, !wait.isFinish { return nil }
            }
            state.lastWait += 1
            state.waits[state.lastWait] = wait
            return state.lastWait
        }
    }

    /// Returns false if the wait has ended already.
    @discardableResult
    package func cancel(_ number: UInt64) -> Bool {
        state.withLock { state in
            guard state.waits.removeValue(forKey: number) != nil else { return false }
            // Chunks that only this wait needed are not fetched.
            for index in state.stages.indices where state.stages[index] == .wanted {
                state.stages[index] = .missing
            }
            PlaceholderFile.resolveAll(&state, size)
            return true
        }
    }

    /// Plans to read ahead of a read of these bytes.
    func willRead(_ range: Range<Int64>) {
        state.withLock { state in
            guard state.phase == .filling else { return }
            let ahead = state.readAhead.read(range)
            guard !ahead.isEmpty, !state.chunks.isEmpty else { return }
            for index in state.indexes(of: ahead) where state.stages[index] == .missing {
                state.stages[index] = .ahead
            }
        }
    }

    private static func resolveAll(_ state: inout State, _ size: Int64) {
        for (key, wait) in state.waits {
            var wait = wait
            resolve(&wait, &state, size)
            state.waits[key] = wait
        }
    }

    private static func resolve(_ wait: inout Wait, _ state: inout State, _ size: Int64) {
        switch wait.need {
        case .all, .finish: wait.chunks = state.chunks.indices
        case .bytes(let range): wait.chunks = state.indexes(of: range.clamped(to: 0..<size))
        }
        wait.left = 0
        for index in wait.chunks where state.stages[index] != .here {
            wait.left += 1
            if state.stages[index].rawValue < Stage.wanted.rawValue {
                state.stages[index] = .wanted
            }
        }
    }

    // MARK: Work, on a thread of `Hydration`

    enum Task {
        /// The list of chunks is needed.
        case list
        case fill([Int])
        case finish
        case nothing
    }

    /// Returns true if the caller must schedule work on the file.
    func enqueue() -> Bool {
        state.withLock { state in
            guard !state.isQueued, state.hasWork else { return false }
            state.isQueued = true
            return true
        }
    }

    func next() -> Task {
        state.withLock { state in
            state.isQueued = false
            switch state.phase {
            case .void, .finished: return .nothing
            case .complete: return state.isListing ? .nothing : .finish
            case .filling: break
            }
            if state.chunks.isEmpty {
                guard !state.isListing, !state.waits.isEmpty else { return .nothing }
                state.isListing = true
                return .list
            }
            let batch = state.takeBatch()
            return batch.isEmpty ? .nothing : .fill(batch)
        }
    }

    func listed(_ chunks: [ChunkReference]) {
        let ready = state.withLock { state -> [Wait] in
            state.isListing = false
            guard state.phase == .filling, state.chunks.isEmpty else { return [] }
            state.chunks = chunks
            state.stages = Array(repeating: .missing, count: chunks.count)
            state.left = chunks.count
            var offset: Int64 = 0
            for chunk in chunks {
                state.starts.append(offset)
                offset += Int64(chunk.length)
            }
            PlaceholderFile.resolveAll(&state, size)
            return state.takeReady()
        }
        for wait in ready { wait.done(nil) }
    }

    func notListed(_ error: VolumeError) {
        let waits = state.withLock { state in
            state.isListing = false
            defer { state.waits = [:] }
            return Array(state.waits.values)
        }
        for wait in waits { wait.done(error) }
    }

    func chunk(_ index: Int) -> (reference: ChunkReference, offset: Int64) {
        state.withLock { ($0.chunks[index], $0.starts[index]) }
    }

    /// The bytes that the file holds at that chunk; nil at a hole, or when it is no longer a
    /// placeholder.
    func held(_ index: Int) -> [UInt8]? {
        let (reference, offset) = chunk(index)
        guard let file = bytes.withLock({ $0.file }) else { return nil }
        let end = offset + Int64(reference.length)
        let data = cl_lseek(file.raw, offset, SEEK_DATA)
        guard data >= 0, data < end else { return nil }
        var held = [UInt8](repeating: 0, count: Int(reference.length))
        let count = try? held.withUnsafeMutableBytes {
            try readFully(file.raw, into: $0, at: offset)
        }
        return count == held.count ? held : nil
    }

    /// Writes verified bytes at their offset. Programs never see the times change meanwhile.
    ///
    /// - Throws: `.cancelled` when the file is no longer a placeholder.
    func write(_ content: [UInt8], _ index: Int) throws(VolumeError) {
        let (_, offset) = chunk(index)
        try bytes.withLock { (bytes) throws(VolumeError) in
            guard let file = bytes.file else {
                throw VolumeError(.cancelled, "The document was emptied in the meantime.")
            }
            do throws(Errno) {
                if !bytes.isFilling {
                    try PlaceholderMark.setFilling(file.raw, modified: bytes.modified)
                    bytes.isFilling = true
                }
                // A hole already reads as zeros, so zeros are not written there.
                let end = offset + Int64(content.count)
                if !isZero(content) || !isHole(file.raw, offset..<end) {
                    try writeFully(file.raw, content, at: offset)
                }
                try PlaceholderMark.restore(bytes.modified, of: file.raw)
            } catch {
                let code: VolumeError.Code =
                    [ENOSPC, EDQUOT].contains(error.code) ? .full : .system
                throw VolumeError(code, "Contents from the hub cannot be written: \(error).")
            }
        }
    }

    private func isHole(_ file: Int32, _ range: Range<Int64>) -> Bool {
        let data = cl_lseek(file, range.lowerBound, SEEK_DATA)
        return data == -Int64(ENXIO) || data >= range.upperBound
    }

    /// Notes that a chunk has been written. Returns true if it was the last one.
    func arrived(_ index: Int) -> Bool {
        let (ready, isLast) = state.withLock { state -> ([Wait], Bool) in
            guard state.phase == .filling, state.stages[index] != .here else { return ([], false) }
            state.stages[index] = .here
            state.left -= 1
            for key in Array(state.waits.keys) where state.waits[key]!.chunks.contains(index) {
                state.waits[key]!.left -= 1
            }
            if state.left == 0 {
                state.phase = .complete
                complete.store(true, ordering: .releasing)
            }
            return (state.takeReady(), state.left == 0)
        }
        for wait in ready { wait.done(nil) }
        return isLast
    }

    /// Notes that these chunks could not be fetched. The next wait for them asks for them again.
    func failed(_ indexes: some Sequence<Int>, _ error: VolumeError) {
        let lost = Set(indexes)
        let waits = state.withLock { state -> [Wait] in
            for index in lost where state.stages[index] == .underway {
                state.stages[index] = .missing
            }
            let keys = state.waits.filter { wait in
                lost.contains { wait.value.chunks.contains($0) }
            }.map(\.key)
            return keys.compactMap { state.waits.removeValue(forKey: $0) }
        }
        for wait in waits { wait.done(error) }
    }

    // MARK: Finishing

    /// Syncs the file and then removes its mark. Returns the finished file's attributes; nil when
    /// it was emptied meanwhile or another thread is finishing it.
    func finish(isSynced: Bool) throws(Errno) -> FileSnapshot? {
        let mayFinish = state.withLock { state in
            guard state.phase == .complete, !state.isListing else { return false }
            state.isListing = true
            return true
        }
        guard mayFinish else { return nil }
        defer { state.withLock { $0.isListing = false } }
        guard let file = bytes.withLock({ $0.file }) else { return nil }
        if !isSynced { try check(cl_fsync(file.raw, 0)) }
        return try bytes.withLock { (bytes) throws(Errno) -> FileSnapshot? in
            guard bytes.file != nil else { return nil }
            try PlaceholderMark.restore(bytes.modified, of: file.raw)
            try PlaceholderMark.remove(from: file.raw)
            bytes.file = nil
            var status = stat()
            try check(cl_fstat(file.raw, &status))
            return FileSnapshot(status)
        }
    }

    /// To be called after `finish`, when the journal has been updated.
    func finished(_ error: VolumeError? = nil) {
        let waits = state.withLock { state -> [Wait] in
            if error == nil { state.phase = .finished }
            state.isStuck = error != nil
            defer { state.waits = [:] }
            return Array(state.waits.values)
        }
        for wait in waits { wait.done(error) }
    }

    /// A program empties the file: nothing may be written into it from now on.
    func void() {
        bytes.withLock { $0.file = nil }
        let waits = state.withLock { state -> [Wait] in
            state.phase = .void
            complete.store(true, ordering: .releasing)
            defer { state.waits = [:] }
            return Array(state.waits.values)
        }
        for wait in waits { wait.done(nil) }
    }

    // MARK: Facts

    var isVoid: Bool { state.withLock { $0.phase == .void || $0.phase == .finished } }

    /// Whether a caller waits for bytes of it.
    var isWaitedFor: Bool { state.withLock { !$0.waits.isEmpty } }

    /// How many bytes are known to be present.
    var bytesHere: Int64 {
        state.withLock { state in
            if state.phase != .filling { return size }
            return zip(state.chunks, state.stages).reduce(0) {
                $0 + ($1.1 == .here ? Int64($1.0.length) : 0)
            }
        }
    }

    func stage(_ index: Int) -> Stage { state.withLock { $0.stages[index] } }

    func changeUsers(by change: Int) -> Int {
        state.withLock { state in
            state.users += change
            if state.users == 0 {
                for index in state.stages.indices where state.stages[index] == .ahead {
                    state.stages[index] = .missing
                }
            }
            return state.users
        }
    }

    /// Whether the file has no users and no thread works on it.
    var isIdle: Bool {
        state.withLock { state in
            state.users == 0 && state.waits.isEmpty && !state.isQueued && !state.isListing
                && (state.phase != .complete || state.isStuck) && !state.stages.contains(.underway)
        }
    }
}

extension PlaceholderFile.State {
    /// How many bytes one request to the hub asks for.
    private static let batchBytes = 4 << 20

    fileprivate var hasWork: Bool {
        switch phase {
        case .void, .finished: false
        case .complete: !isListing && !isStuck
        case .filling:
            chunks.isEmpty
                ? !isListing && !waits.isEmpty
                : stages.contains { $0 == .wanted || $0 == .ahead }
        }
    }

    /// Chunks that a caller waits for; if there are none, chunks to read ahead.
    fileprivate mutating func takeBatch() -> [Int] {
        for stage in [PlaceholderFile.Stage.wanted, .ahead] {
            var batch: [Int] = []
            var length = 0
            for index in stages.indices where stages[index] == stage {
                if !batch.isEmpty, length + Int(chunks[index].length) > Self.batchBytes { break }
                batch.append(index)
                length += Int(chunks[index].length)
                stages[index] = .underway
            }
            if !batch.isEmpty { return batch }
        }
        return []
    }

    fileprivate mutating func takeReady() -> [PlaceholderFile.Wait] {
        let keys = waits.filter { $0.value.left == 0 && !$0.value.isFinish }.map(\.key)
        return keys.compactMap { waits.removeValue(forKey: $0) }
    }

    /// The chunks that contain these bytes.
    fileprivate func indexes(of range: Range<Int64>) -> Range<Int> {
        guard !range.isEmpty else { return 0..<0 }
        let first = partition(range.lowerBound) - 1
        let last = partition(range.upperBound - 1)
        return max(0, first)..<max(0, first, last)
    }

    /// How many chunks begin at or before the offset.
    private func partition(_ offset: Int64) -> Int {
        var (low, high) = (0, starts.count)
        while low < high {
            let middle = (low + high) / 2
            if starts[middle] <= offset { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
