import Journal
import Model
import Synchronization

/// The files that programs have open for writing, or have closed and that are not recorded yet, and
/// what was synced of them. The threads that serve requests use it, and the recorder.
package final class OpenContents: Sendable {
    private struct State {
        var open: Set<UInt64> = []
        /// The files that the journal has as unfinished.
        var noted: Set<UInt64> = []
        /// Those that it does not have.
        var unnoted: Set<UInt64> = []
        var synced: [UInt64: SyncedContents] = [:]
        /// Where the files were that the recorder's present transaction has moved between the sets.
        var before: [UInt64: (isNoted: Bool, isUnnoted: Bool)] = [:]
        /// Whether `onChange` is called when the next file is opened or closed.
        var isWatched = false

        mutating func endWatch() -> Bool {
            defer { isWatched = false }
            return isWatched
        }

        mutating func remember(_ inode: UInt64) {
            guard before[inode] == nil else { return }
            before[inode] = (noted.contains(inode), unnoted.contains(inode))
        }

        /// Returns whether the file was not noted before.
        mutating func note(_ inode: UInt64) -> Bool {
            unnoted.remove(inode)
            return noted.insert(inode).inserted
        }
    }

    private let state = Mutex(State())
    /// Called once after each call of `watch`. It must be quick, because a program waits for it.
    let onChange = CallbackSlot<@Sendable () -> Void>()
    /// What was synced of more files than these is forgotten, except of those that the journal has.
    private static let syncedMax = 4096

    /// Where marks of the unrecorded files are kept, if the file system may commit a part of what a
    /// program has written at any moment.
    private let marks: OpenMarks?

    init(marks: OpenMarks? = nil) { self.marks = marks }

    func opened(_ inode: UInt64) {
        let isWatched = state.withLock { state in
            state.open.insert(inode)
            if !state.noted.contains(inode), state.unnoted.insert(inode).inserted {
                marks?.add(inode)
            }
            return state.endWatch()
        }
        if isWatched { onChange.current?() }
    }

    /// Returns whether it was open.
    func closed(_ inode: UInt64) -> Bool {
        let (wasOpen, isWatched) = state.withLock { state in
            let wasOpen = state.open.remove(inode) != nil
            return (wasOpen, wasOpen && state.endWatch())
        }
        if isWatched { onChange.current?() }
        return wasOpen
    }

    /// Returns the files that are open for writing: the first ones of these in the order of their
    /// numbers, so that the same ones are returned again. The next change is told.
    func watch(limit: Int) -> [UInt64] {
        let open = state.withLock { state in
            state.isWatched = true
            return state.open
        }
        return Array(open.sorted().prefix(limit))
    }

    /// Called after fsync(2), before the program is answered: what it has synced is no part of a
    /// save. If this fails, the file gets no version after a loss of power until it is saved again.
    package func didSync(_ snapshot: FileSnapshot, _ journal: Journal) {
        let contents = SyncedContents(size: snapshot.size, modified: snapshot.modified)
        let isNoted = state.withLock { state in
            if state.synced.count >= OpenContents.syncedMax {
                state.synced = state.synced.filter { state.noted.contains($0.key) }
            }
            state.synced[snapshot.inode] = contents
            let isMarked = marks != nil && state.unnoted.contains(snapshot.inode)
            return isMarked || state.noted.contains(snapshot.inode)
        }
        guard isNoted else { return }
        var isNew = false
        do throws(VolumeError) {
            try journal.write { t in
                // The file may have been recorded meanwhile.
                guard state.withLock({ isUnrecorded(snapshot.inode, $0) }) else { return }
                try UnfinishedFile.add(snapshot.inode, contents, t)
                isNew = state.withLock { $0.note(snapshot.inode) }
            }
        } catch {
            // The journal does not have it.
            guard isNew else { return }
            state.withLock { state in
                state.noted.remove(snapshot.inode)
                state.unnoted.insert(snapshot.inode)
            }
        }
    }

    private func isUnrecorded(_ inode: UInt64, _ state: borrowing State) -> Bool {
        state.noted.contains(inode) || state.unnoted.contains(inode)
    }

    /// Whether there are files that the journal does not have.
    var hasUnnoted: Bool { state.withLock { !$0.unnoted.isEmpty } }

    /// Adds all files to the journal that it does not have. `didSync` waits for the transaction if
    /// it comes after `note`.
    func noteAll(_ t: Transaction) throws {
        for inode in state.withLock({ $0.unnoted }) {
            try UnfinishedFile.add(inode, note(inode), t)
        }
    }

    func isNoted(_ inode: UInt64) -> Bool { state.withLock { $0.noted.contains(inode) } }
    func isOpen(_ inode: UInt64) -> Bool { state.withLock { $0.open.contains(inode) } }

    /// The journal is about to have the file as unfinished. Returns what was synced of it.
    func note(_ inode: UInt64) -> SyncedContents? {
        state.withLock { state in
            state.remember(inode)
            _ = state.note(inode)
            return state.synced[inode]
        }
    }

    /// The file was recorded or not changed, and the journal does not have it any more.
    func remove(_ inode: UInt64) {
        state.withLock { state in
            state.remember(inode)
            state.noted.remove(inode)
            if state.open.contains(inode) {
                state.unnoted.insert(inode)
            } else {
                state.unnoted.remove(inode)
                marks?.remove(inode)
            }
        }
    }

    // MARK: Transactions of the recorder, which are never nested

    func mark() { removeMark() }

    func removeMark() { state.withLock { $0.before = [:] } }

    /// The transaction has failed: the journal has the files that it had before.
    func revert() {
        state.withLock { state in
            for (inode, was) in state.before {
                if was.isNoted {
                    _ = state.note(inode)
                } else {
                    state.noted.remove(inode)
                    // A program may have opened it meanwhile.
                    if was.isUnnoted || state.open.contains(inode) { state.unnoted.insert(inode) }
                }
                if was.isNoted || was.isUnnoted { marks?.add(inode) }
            }
            state.before = [:]
        }
    }
}
