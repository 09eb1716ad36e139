import Synchronization

/// Inodes whose contents, in that state, are no recorded version yet, so nobody was told that they
/// are safe on the disk. What is not known here counts as promised: after a start, everything.
///
/// A recording begins a new era before it looks whether anything has happened meanwhile. A program
/// notes first what it is about to overwrite, and asks then. So one of the two sees the other.
final class UnrecordedContents: Sendable {
    private struct State {
        var era: UInt64 = 0
        var traces: [UInt64: Trace] = [:]
    }

    private let state = Mutex(State())

    /// To be handed to `add` once the contents have been written.
    var era: UInt64 { state.withLock { $0.era } }

    func contains(_ trace: Trace) -> Bool {
        state.withLock { state in
            guard let known = state.traces[trace.inode] else { return false }
            return !trace.differs(from: known)
        }
    }

    /// Contents that a program began to write in `era`: a recording since then may have read them.
    func add(_ trace: Trace, since era: UInt64) {
        state.withLock { state in
            guard state.era == era else { return }
            if state.traces.count >= UnrecordedContents.countMax { state.traces.removeAll() }
            state.traces[trace.inode] = trace
        }
    }

    /// A program has brought its contents to the disk.
    func remove(inode: UInt64) { state.withLock { $0.traces[inode] = nil } }

    /// A recording has read contents and is about to be committed.
    func beginEra() {
        state.withLock { state in
            state.era += 1
            state.traces.removeAll()
        }
    }

    private static let countMax = 100_000
}
