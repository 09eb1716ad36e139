import Synchronization

/// Inodes whose contents, while their attributes are unchanged, are not recorded yet and so were
/// never reported as safe on the disk. All other contents count as promised; after a start these
/// are all.
///
/// A recording begins a new era before it processes the events of the meantime. A program's write
/// appends its event first and calls `contains` afterwards. So at least one of the two sees the
/// other.
final class UnrecordedContents: Sendable {
    private struct State {
        var era: UInt64 = 0
        var traces: [UInt64: FileSnapshot] = [:]
    }

    private let state = Mutex(State())

    /// To be passed to `add` once the contents have been written.
    var era: UInt64 { state.withLock { $0.era } }

    func contains(_ snapshot: FileSnapshot) -> Bool {
        state.withLock { state in
            guard let known = state.traces[snapshot.inode] else { return false }
            return !snapshot.differs(from: known)
        }
    }

    /// Adds contents that a program began to write in `era`. They are ignored if a recording has
    /// begun since, because it may have read them.
    func add(_ snapshot: FileSnapshot, since era: UInt64) {
        state.withLock { state in
            guard state.era == era else { return }
            if state.traces.count >= UnrecordedContents.countMax { state.traces.removeAll() }
            state.traces[snapshot.inode] = snapshot
        }
    }

    /// A program has synced its contents.
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
