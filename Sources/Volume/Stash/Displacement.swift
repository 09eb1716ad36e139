import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls

/// A copy of a file that is about to be replaced where its contents cannot be moved to the stash.
/// It is made before the names are locked, because it may take long, and removed unless it is used.
package final class ReplacedCopy: Sendable {
    fileprivate let name: String
    /// The file that was copied, as it was before.
    fileprivate let snapshot: FileSnapshot
    private let stash: Stash
    private let isUsed = Atomic(false)

    init(name: String, of snapshot: FileSnapshot, in stash: Stash) {
        self.name = name
        self.snapshot = snapshot
        self.stash = stash
    }

    deinit { if !isUsed.load(ordering: .acquiring) { stash.remove(name) } }

    fileprivate func use() -> String {
        isUsed.store(true, ordering: .releasing)
        return name
    }
}

/// The result of a rename.
package enum Renamed: Sendable {
    /// `isStashed`: what was replaced is in the stash now.
    case done(isStashed: Bool)
    /// Nothing was done: the replaced file must be copied first (`TreeNames.copyReplaced`), and
    /// then the rename repeated with that copy.
    case needsCopy
}

/// Replaces a file so that its old contents are in the stash afterwards. Runs while all names are
/// locked, so it copies nothing.
struct Displacement {
    let stash: Stash
    let reserve: Reserve
    let to: Place
    let from: Place
    let flags: UInt32
    let actor: Actor

    /// Where the old contents are.
    enum Result {
        /// In this file of the stash; nil if they are kept nowhere.
        case replaced(String?)
        case needsCopy
    }

    /// - Parameters:
    ///   - keeps: Whether the contents of `replaced` are kept.
    ///   - copy: A copy of it, made before.
    ///   - isLastTry: The file changes all the time, so that no copy is ever of its last state.
    func replace(_ replaced: FileSnapshot?, keeps: Bool, copy: ReplacedCopy?, isLastTry: Bool)
        throws(Errno) -> Result
    {
        guard let replaced, keeps else {
            try rename()
            return .replaced(nil)
        }
        if let copy, !copy.snapshot.differs(from: replaced) {
            try rename()
            return .replaced(copy.use())
        }
        let aside = stash.newName(.displaced, replaced, spot: to.spot, actor: actor)
        do throws(Errno) {
            // A second link: the replacement itself stays one atomic step.
            try reserve.using { () throws(Errno) in
                try check(cl_linkat(to.descriptor, to.name, stash.directory, aside, 0))
            }
        } catch {
            // The file system has no hard links, or this user may not link this file
            // (protected_hardlinks).
            guard [EPERM, EMLINK, EOPNOTSUPP, EXDEV].contains(error.code) else { throw error }
            if flags == 0, try exchange(aside) { return .replaced(aside) }
            guard isLastTry else { return .needsCopy }
            try moveAway(aside)
            return .replaced(aside)
        }
        do throws(Errno) { try rename() } catch {
            stash.remove(aside)
            throw error
        }
        return .replaced(aside)
    }

    private func rename() throws(Errno) {
        try check(cl_renameat2(from.descriptor, from.name, to.descriptor, to.name, flags))
    }

    /// Replaces without a second link and without a copy: for a moment `from` shows the file that
    /// is being replaced. Returns false if the file system cannot exchange names.
    private func exchange(_ aside: String) throws(Errno) -> Bool {
        func exchange() -> Int32 {
            cl_renameat2(
                from.descriptor, from.name, to.descriptor, to.name, UInt32(RENAME_EXCHANGE))
        }
        let result = exchange()
        if result == -EINVAL || result == -EOPNOTSUPP { return false }
        try check(result)
        let moved = cl_renameat2(from.descriptor, from.name, stash.directory, aside, 0)
        if moved < 0 {
            _ = exchange()
            throw Errno(-moved)
        }
        return true
    }

    /// Replaces in two steps. In between nothing has the name, which no program can see: the kernel
    /// keeps both directories locked.
    private func moveAway(_ aside: String) throws(Errno) {
        try check(cl_renameat2(to.descriptor, to.name, stash.directory, aside, 0))
        do throws(Errno) { try rename() } catch {
            _ = cl_renameat2(stash.directory, aside, to.descriptor, to.name, 0)
            throw error
        }
    }
}
