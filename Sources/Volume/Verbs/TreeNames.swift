import CLinux
import Glibc
import Model
import SystemCalls

/// Changes names in the tree for programs, and moves the contents that would be lost to the stash.
/// The caller passes `status`, the file's attributes as of just before. It serves a request during
/// which the kernel keeps others from changing that directory.
package final class TreeNames: Sendable {
    private let stash: Stash
    private let events: EventQueue
    private let reserve: Reserve
    private let room: Room

    init(stash: Stash, events: EventQueue, reserve: Reserve, room: Room) {
        (self.stash, self.events, self.reserve, self.room) = (stash, events, reserve, room)
    }

    /// Removes a name that is not a directory's. Returns true if the file was moved to the stash.
    /// Open handles must then be shown a link count of 0, although the inode has a name there.
    package func unlink(_ place: Place, status: stat, traits: Traits, by actor: Actor)
        throws(Errno) -> Bool
    {
        let snapshot = FileSnapshot(status)
        let spot = place.spot
        if traits.contains(.local) {
            try check(cl_unlinkat(place.descriptor, place.name, 0))
            return false
        }
        guard holdsBytes(snapshot, links: status.st_nlink) else {
            try check(cl_unlinkat(place.descriptor, place.name, 0))
            events.append(.removed(spot, snapshot, stash: nil, by: actor))
            noteGone(status)
            return false
        }
        // One rename removes the name and keeps the bytes: they have exactly one name at any
        // moment.
        let aside = stash.newName(.displaced, snapshot, spot: spot, actor: actor)
        if DatabaseLog.maybeDatabase(snapshot) { stash.linkLog(beside: place, of: aside) }
        try reserve.using { () throws(Errno) in
            try check(cl_renameat2(place.descriptor, place.name, stash.directory, aside, 0))
        }
        events.append(
            .removed(
                spot, snapshot, stash: aside, isUnsaved: traits.contains(.unsaved), by: actor))
        return true
    }

    package func rmdir(_ place: Place, status: stat, by actor: Actor) throws(Errno) {
        try check(cl_unlinkat(place.descriptor, place.name, AT_REMOVEDIR))
        events.append(.removed(place.spot, FileSnapshot(status), stash: nil, by: actor))
    }

    /// renameat2(2) with all flags.
    ///
    /// - Parameters:
    ///   - moved: The attributes of the item at `from`.
    ///   - replaced: The attributes of the item at `to`; nil if there is none.
    ///   - isSwap: With RENAME_EXCHANGE: the items are exchanged, not their contents.
    ///   - seen: What the program had seen, if that differs from what it replaces.
    ///   - seenBack: The same for the item that comes to `from`.
    ///   - copy: A copy of the replaced file, after `Renamed.needsCopy`.
    ///   - isLastTry: Copies were made in vain, because the replaced file changes all the time.
    package func rename(
        from: Place, to: Place, flags: UInt32, moved: stat, replaced: stat?,
        movedTraits: Traits, replacedTraits: Traits, isSwap: Bool = false,
        seen: NamedBase? = nil, seenBack: NamedBase? = nil, copy: ReplacedCopy? = nil,
        isLastTry: Bool = false, by actor: Actor
    ) throws(Errno) -> Renamed {
        let snapshot = FileSnapshot(moved)
        if flags & UInt32(RENAME_EXCHANGE) != 0, let replaced {
            try check(
                cl_renameat2(from.descriptor, from.name, to.descriptor, to.name, flags))
            events.append(
                isSwap
                    ? .swapped(from.spot, to.spot)
                    : .exchanged(from.spot, snapshot, to.spot, FileSnapshot(replaced), by: actor),
                [(snapshot.inode, seen), (UInt64(replaced.st_ino), seenBack)].compactMap {
                    (inode, base) in base.map { .unseen(inode: inode, $0) }
                })
            return .done(isStashed: false)
        }
        if let replaced, replaced.st_ino == moved.st_ino {
            // Both are names of one file; rename(2) leaves them alone.
            try check(
                cl_renameat2(from.descriptor, from.name, to.descriptor, to.name, flags))
            return .done(isStashed: false)
        }
        var unseen: NamedBase?
        // A base that the program names itself has priority over what the mount has seen.
        var isNamed = false
        if movedTraits.contains(.local), snapshot.isFile {
            unseen = NamedBase(of: from.name, in: from.descriptor)
            isNamed = unseen != nil
            // A save of a deleted document does not restore it.
            guard replaced != nil || unseen == nil else { throw .notFound }
            if let replaced, unseen?.isThat(of: FileSnapshot(replaced)) == true { unseen = nil }
            if !isNamed { unseen = seen }
        } else if replaced != nil {
            unseen = seen
        }
        let returns = replaced == nil ? seen : nil
        let displacement = Displacement(
            stash: stash, reserve: reserve, to: to, from: from, flags: flags, actor: actor)
        let result = try displacement.replace(
            replaced.map { FileSnapshot($0) },
            keeps: replaced.map { keeps($0, replacedTraits) } ?? false, copy: copy,
            isLastTry: isLastTry)
        guard case .replaced(let aside) = result else { return .needsCopy }
        if isNamed { NamedBase.remove(from: to.name, in: to.descriptor) }
        events.append(
            .renamed(
                from: from.spot, to: to.spot, snapshot, replaced: replaced.map { FileSnapshot($0) },
                stash: aside, unseen: unseen, by: actor),
            returns.map { [.unseen(inode: snapshot.inode, $0)] } ?? [])
        if aside == nil, let replaced { noteGone(replaced) }
        return .done(isStashed: aside != nil)
    }

    /// Notes that the inode is free and may be reused for another file.
    private func noteGone(_ status: stat) {
        let snapshot = FileSnapshot(status)
        if snapshot.isFile, status.st_nlink == 1 { events.append(.gone(inode: snapshot.inode)) }
    }

    /// Whether the contents of a file that is about to be replaced are kept. A file that its
    /// creator is still writing is kept too: a later close makes it a save of a superseded
    /// document, which is a conflict.
    private func keeps(_ status: stat, _ traits: Traits) -> Bool {
        let snapshot = FileSnapshot(status)
        return !traits.contains(.local)
            && (holdsBytes(snapshot, links: status.st_nlink)
                || traits.contains(.unsaved) && snapshot.isFile && status.st_nlink == 1)
    }

    private func holdsBytes(_ snapshot: FileSnapshot, links: nlink_t) -> Bool {
        snapshot.isFile && snapshot.size > 0 && links == 1
    }

    /// Copies a file that is about to be replaced. Takes as long as its length needs.
    ///
    /// - Parameter file: The file, opened with O_PATH.
    package func copyReplaced(_ file: Int32, at spot: DirectoryEntry, by actor: Actor)
        throws(Errno) -> ReplacedCopy
    {
        var status = stat()
        try check(cl_fstat(file, &status))
        let snapshot = FileSnapshot(status)
        let name = stash.newName(.copied, snapshot, spot: spot, actor: actor)
        try room.withRoom(for: snapshot.size) { () throws(Errno) in
            try stash.copy(of: file, snapshot, into: name)
        }
        let copy = ReplacedCopy(name: name, of: snapshot, in: stash)
        try stash.sync(name)
        return copy
    }
}
