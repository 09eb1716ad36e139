import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls

/// A placeholder that somebody uses: which of its bytes are here, and who waits for which. Bytes
/// come chunk by chunk, each verified before it is written at its place; what is here is known in
/// memory alone, and found out again by hash after a restart.
///
/// Of an inode, not of a name: who has it open goes on reading the version that it opened, also
/// when the name shows something else meanwhile.
package final class AbsentFile: Sendable {
    package let mark: AbsentMark
    let inode: UInt64
    package let size: Int64
    private let state = Mutex(State())
    private let bytes: Mutex<Bytes>
    private let complete = Atomic(false)

    enum Stage: UInt8 {
        case missing
        /// Somebody is expected to want it soon.
        case ahead
        case wanted
        case underway
        case here
    }

    enum Phase { case filling, complete, finished, void }

    /// What somebody waits for.
    package enum Need: Sendable {
        /// These bytes.
        case bytes(Range<Int64>)
        /// All bytes.
        case all
        /// All bytes, on the disk, and the mark gone: from then on it is a file like any other.
        case finish
    }

    fileprivate struct Wait: Sendable {
        var need: Need
        /// Once the list of chunks is known.
        var chunks = 0..<0
        var left = 0
        var done: @Sendable (VolumeError?) -> Void

        var isFinish: Bool { if case .finish = need { true } else { false } }
    }

    struct State: Sendable {
        fileprivate var phase = Phase.filling
        /// Empty while the list is not known.
        var chunks: [ChunkReference] = []
        fileprivate var starts: [Int64] = []
        fileprivate var stages: [Stage] = []
        fileprivate var left = 0
        fileprivate var waits: [UInt64: Wait] = [:]
        fileprivate var lastWait: UInt64 = 0
        fileprivate var readAhead = ReadAhead()
        /// Its list is being fetched, or it is being finished.
        fileprivate var isListing = false
        /// It could not be brought to the disk: until somebody asks for that again.
        fileprivate var isStuck = false
        /// Waits to be worked on.
        fileprivate var isQueued = false
        /// Guarded by this, changed under the registry's lock.
        var users = 0
    }

    /// The descriptor, which lives as long as anybody works with it.
    final class File: Sendable {
        let raw: Int32
        init(owning raw: Int32) { self.raw = raw }
        deinit { _ = cl_close(raw) }
    }

    private struct Bytes {
        /// Nil: nothing may be written any more.
        var file: File?
        /// Nanoseconds since 1970: what everybody is told.
        var modified: Int64
        /// The change time, which filling is no reason to move: tar(1) would say that the file
        /// changed while it was read.
        var changed: Int64
        var isFilling: Bool
    }

    /// `file` is open for reading and writing; `changed` turns its change time into the one that
    /// programs were told.
    init(
        _ mark: AbsentMark, file: consuming Descriptor, changed: (UInt64, Int64) -> Int64
    ) throws(Errno) {
        let status = try file.status()
        let trace = Trace(status)
        self.mark = mark
        inode = trace.inode
        size = trace.size
        let interrupted = AbsentMark.modified(ofFilling: file.raw)
        if let interrupted { try AbsentMark.restore(interrupted, of: file.raw) }
        bytes = Mutex(
            Bytes(
                file: File(owning: file.release()), modified: interrupted ?? trace.modified,
                changed: changed(trace.inode, trace.changed),
                isFilling: interrupted != nil))
    }

    /// Every byte is here, or it is no placeholder any more.
    package var isComplete: Bool { complete.load(ordering: .acquiring) }

    /// As programs are told, nanoseconds since 1970.
    var times: (modified: Int64, changed: Int64) {
        bytes.withLock { ($0.modified, $0.changed) }
    }

    /// The change time that it has, and the one that is told; nil when it is no placeholder.
    var changes: ChangeTime? {
        bytes.withLock { bytes in
            var status = stat()
            guard let file = bytes.file, cl_fstat(file.raw, &status) == 0 else { return nil }
            return ChangeTime(actual: Trace(status).changed, told: bytes.changed)
        }
    }

    /// Somebody set attributes of it, perhaps its times.
    func setTimes(_ trace: Trace, modified isModified: Bool) {
        bytes.withLock { bytes in
            bytes.changed = trace.changed
            guard isModified else { return }
            bytes.modified = trace.modified
            guard bytes.isFilling, let file = bytes.file else { return }
            try? AbsentMark.setFilling(file.raw, modified: trace.modified)
        }
    }

    // MARK: Waiting

    /// Nil: it is there already, and `done` is never called. Else it is called once, unless it is
    /// cancelled before, with what went wrong.
    func wait(_ need: Need, _ done: @escaping @Sendable (VolumeError?) -> Void) -> UInt64? {
        state.withLock { state in
            switch (state.phase, need) {
            case (.void, _), (.finished, _), (.complete, .all), (.complete, .bytes): return nil
            default: break
            }
            state.isStuck = false
            var wait = Wait(need: need, done: done)
            if !state.chunks.isEmpty {
                AbsentFile.resolve(&wait, &state, size)
                if wait.left == 0, !wait.isFinish { return nil }
            }
            state.lastWait += 1
            state.waits[state.lastWait] = wait
            return state.lastWait
        }
    }

    /// False: it has been told already.
    @discardableResult
    func cancel(_ number: UInt64) -> Bool {
        state.withLock { state in
            guard state.waits.removeValue(forKey: number) != nil else { return false }
            // Nobody wants what only it wanted.
            for index in state.stages.indices where state.stages[index] == .wanted {
                state.stages[index] = .missing
            }
            AbsentFile.resolveAll(&state, size)
            return true
        }
    }

    /// A read of these bytes: what follows them may be wanted next.
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

    /// True: the caller must have it worked on.
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
            AbsentFile.resolveAll(&state, size)
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

    /// What the file holds there now; nil at a hole, or when it is no placeholder any more.
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

    /// Writes verified bytes at their place. Nobody sees the moment at which the times differ.
    ///
    /// - Throws: `.cancelled` when it is no placeholder any more.
    func write(_ content: [UInt8], _ index: Int) throws(VolumeError) {
        let (_, offset) = chunk(index)
        try bytes.withLock { (bytes) throws(VolumeError) in
            guard let file = bytes.file else {
                throw VolumeError(.cancelled, "The document was emptied meanwhile.")
            }
            do throws(Errno) {
                if !bytes.isFilling {
                    try AbsentMark.setFilling(file.raw, modified: bytes.modified)
                    bytes.isFilling = true
                }
                // Zeros are not written where there is a hole already.
                let end = offset + Int64(content.count)
                if !isZero(content) || !isHole(file.raw, offset..<end) {
                    try writeFully(file.raw, content, at: offset)
                }
                try AbsentMark.restore(bytes.modified, of: file.raw)
            } catch {
                let code: VolumeError.Code =
                    [ENOSPC, EDQUOT].contains(error.code) ? .full : .system
                throw VolumeError(code, "What the hub has sent cannot be written: \(error).")
            }
        }
    }

    private func isHole(_ file: Int32, _ range: Range<Int64>) -> Bool {
        let data = cl_lseek(file, range.lowerBound, SEEK_DATA)
        return data == -Int64(ENXIO) || data >= range.upperBound
    }

    /// A chunk is at its place. True: it was the last.
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

    /// These could not be had; who comes next asks again.
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

    // MARK: The end

    /// Makes it a file like any other: on the disk first. What it is then; nil when it was emptied
    /// meanwhile, or somebody else is at it.
    func finish(isSynced: Bool) throws(Errno) -> Trace? {
        let mayFinish = state.withLock { state in
            guard state.phase == .complete, !state.isListing else { return false }
            state.isListing = true
            return true
        }
        guard mayFinish else { return nil }
        defer { state.withLock { $0.isListing = false } }
        guard let file = bytes.withLock({ $0.file }) else { return nil }
        if !isSynced { try check(cl_fsync(file.raw, 0)) }
        return try bytes.withLock { (bytes) throws(Errno) -> Trace? in
            guard bytes.file != nil else { return nil }
            try AbsentMark.restore(bytes.modified, of: file.raw)
            try AbsentMark.remove(from: file.raw)
            bytes.file = nil
            var status = stat()
            try check(cl_fstat(file.raw, &status))
            return Trace(status)
        }
    }

    /// After `finish`, and when the journal knows.
    func finished(_ error: VolumeError? = nil) {
        let waits = state.withLock { state -> [Wait] in
            if error == nil { state.phase = .finished }
            state.isStuck = error != nil
            defer { state.waits = [:] }
            return Array(state.waits.values)
        }
        for wait in waits { wait.done(error) }
    }

    /// Somebody empties it: nothing may be written into it from now on.
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

    /// Somebody waits for bytes of it.
    var isWaitedFor: Bool { state.withLock { !$0.waits.isEmpty } }

    /// Bytes that are known to be here.
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

    /// Nobody uses it and nothing is being done about it.
    var isIdle: Bool {
        state.withLock { state in
            state.users == 0 && state.waits.isEmpty && !state.isQueued && !state.isListing
                && (state.phase != .complete || state.isStuck) && !state.stages.contains(.underway)
        }
    }
}

extension AbsentFile.State {
    /// Bytes that are asked for in one go.
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

    /// Chunks that somebody waits for, or else those that somebody may want soon.
    fileprivate mutating func takeBatch() -> [Int] {
        for stage in [AbsentFile.Stage.wanted, .ahead] {
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

    fileprivate mutating func takeReady() -> [AbsentFile.Wait] {
        let keys = waits.filter { $0.value.left == 0 && !$0.value.isFinish }.map(\.key)
        return keys.compactMap { waits.removeValue(forKey: $0) }
    }

    /// The chunks that those bytes lie in.
    fileprivate func indexes(of range: Range<Int64>) -> Range<Int> {
        guard !range.isEmpty else { return 0..<0 }
        let first = partition(range.lowerBound) - 1
        let last = partition(range.upperBound - 1)
        return max(0, first)..<max(0, first, last)
    }

    /// How many chunks begin at the offset or before it.
    private func partition(_ offset: Int64) -> Int {
        var (low, high) = (0, starts.count)
        while low < high {
            let middle = (low + high) / 2
            if starts[middle] <= offset { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
