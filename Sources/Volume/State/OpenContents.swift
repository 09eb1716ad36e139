import Journal
import Synchronization

/// What programs have synced of the files that they have open for writing. The threads that serve
/// fsync(2) use it, and the recorder.
package final class OpenContents: Sendable {
    private struct State {
        var synced: [UInt64: SyncedContents] = [:]
        /// The files that the journal has as unfinished.
        var noted: Set<UInt64> = []
    }

    private let state = Mutex(State())

    /// Called after fsync(2), before the program is answered: what it has synced is no part of a
    /// save. Without the journal's row, the worst is that a person has to confirm that.
    package func didSync(_ snapshot: FileSnapshot?, _ journal: Journal) {
        guard let snapshot else { return }
        let contents = SyncedContents(size: snapshot.size, modified: snapshot.modified)
        let isNoted = state.withLock { state in
            state.synced[snapshot.inode] = contents
            return state.noted.contains(snapshot.inode)
        }
        if isNoted { try? journal.write { try $0.setSynced(contents, of: snapshot.inode) } }
    }

    /// The journal is about to have the file as unfinished. Returns what was synced of it.
    func note(_ inode: UInt64) -> SyncedContents? {
        state.withLock { state in
            state.noted.insert(inode)
            return state.synced[inode]
        }
    }

    /// The file is closed, and its contents are recorded or were not changed.
    func remove(_ inode: UInt64) {
        state.withLock { state in
            state.synced[inode] = nil
            state.noted.remove(inode)
        }
    }
}
