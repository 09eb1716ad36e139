import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls

// The verbs that change names. The caller passes `status`, the file's attributes as of just before.
// It serves a request during which the kernel keeps others from changing that directory.
extension Volume {
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
        try store.reserve.using { () throws(Errno) in
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
            stash: stash, reserve: store.reserve, to: to, from: from, flags: flags, actor: actor)
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

    /// Must be called when a new name was created (create, mkdir, symlink, mknod). `isWriting`: the
    /// file is being opened for writing; `openForWriting` or `isNotOpened` must follow.
    package func created(
        _ place: Place, status: stat, seen: NamedBase? = nil, isWriting: Bool = false,
        by actor: Actor
    ) {
        events.append(
            .created(place.spot, FileSnapshot(status), isWriting: isWriting, by: actor),
            seen.map { [.unseen(inode: UInt64(status.st_ino), $0)] } ?? [])
    }

    /// The creator of the file could not open it.
    package func isNotOpened(_ status: stat) {
        events.append(.untouched(inode: UInt64(status.st_ino)))
    }

    /// Must be called when an inode has got another name.
    package func linked(_ place: Place, status: stat, by actor: Actor) {
        events.append(.linked(place.spot, FileSnapshot(status), by: actor))
    }

    /// Whether the item at a path never becomes a version because of its name, its path, or a
    /// directory above it.
    package func isLocal(_ path: [Name], isDirectory: Bool = false) -> Bool {
        let names = ignoreFile.current
        return names.matches(path: path, isDirectory: isDirectory)
            || path.indices.dropFirst().contains {
                names.matches(path: Array(path[..<$0]), isDirectory: true)
            }
    }

    /// Whether files with this name never become versions: temporary and lock files, and those that
    /// the ignore file adds.
    package func isLocal(_ name: UnsafePointer<CChar>) -> Bool {
        let length = strlen(name)
        return name.withMemoryRebound(to: UInt8.self, capacity: length) { bytes in
            ignoreFile.current.matches(UnsafeBufferPointer(start: bytes, count: length))
        }
    }
}
