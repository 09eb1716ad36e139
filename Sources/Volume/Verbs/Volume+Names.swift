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
        // A file that its creator still has open was never saved; it becomes a temporary file
        // without a name.
        guard holdsBytes(snapshot, links: status.st_nlink), !traits.contains(.unsaved) else {
            try check(cl_unlinkat(place.descriptor, place.name, 0))
            events.append(.removed(spot, snapshot, stash: nil, by: actor))
            noteGone(status)
            return false
        }
        // One rename removes the name and keeps the bytes: they have exactly one name at any
        // moment.
        let aside = stash.newName(.displaced, snapshot, spot: spot, actor: actor)
        if DatabaseLog.maybeDatabase(snapshot) { stash.linkLog(beside: place, of: aside) }
        try usingReserve { () throws(Errno) in
            try check(cl_renameat2(place.descriptor, place.name, stash.directory, aside, 0))
        }
        events.append(.removed(spot, snapshot, stash: aside, by: actor))
        return true
    }

    /// A new name in the stash may need a block. A full disk must not forbid the removal that would
    /// empty it, so the reserve is given up for it.
    @discardableResult
    private func usingReserve<Result>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result {
        do throws(Errno) { return try body() } catch {
            guard error == .noSpace, store.reserve.giveUp() else { throw error }
            return try body()
        }
    }

    package func rmdir(_ place: Place, status: stat, by actor: Actor) throws(Errno) {
        try check(cl_unlinkat(place.descriptor, place.name, AT_REMOVEDIR))
        events.append(.removed(place.spot, FileSnapshot(status), stash: nil, by: actor))
    }

    /// renameat2(2) with all flags. Returns true if what was replaced went to the stash.
    ///
    /// - Parameters:
    ///   - moved: The attributes of the item at `from`.
    ///   - replaced: The attributes of the item at `to`; nil if there is none.
    ///   - isSwap: With RENAME_EXCHANGE: the items are exchanged, not their contents.
    ///   - seen: What the program had seen, if that differs from what it replaces.
    ///   - seenBack: The same for the item that comes to `from`.
    package func rename(
        from: Place, to: Place, flags: UInt32, moved: stat, replaced: stat?,
        movedTraits: Traits, replacedTraits: Traits, isSwap: Bool = false,
        seen: NamedBase? = nil, seenBack: NamedBase? = nil, by actor: Actor
    ) throws(Errno) -> Bool {
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
            return false
        }
        if let replaced, replaced.st_ino == moved.st_ino {
            // Both are names of one file; rename(2) leaves them alone.
            try check(
                cl_renameat2(from.descriptor, from.name, to.descriptor, to.name, flags))
            return false
        }
        var unseen: NamedBase?
        if movedTraits.contains(.local), snapshot.isFile {
            unseen = NamedBase(takenOff: from.name, in: from.descriptor)
            // A save of a deleted document does not restore it.
            guard replaced != nil || unseen == nil else { throw .notFound }
            // A base that the program names itself has priority over what the mount has seen.
            let isNamed = unseen != nil
            if let replaced, unseen?.isThat(of: FileSnapshot(replaced)) == true { unseen = nil }
            if !isNamed { unseen = seen }
        } else if replaced != nil {
            unseen = seen
        }
        let returns = replaced == nil ? seen : nil
        let aside = try replace(to, replaced, replacedTraits, with: from, flags: flags, by: actor)
        events.append(
            .renamed(
                from: from.spot, to: to.spot, snapshot, replaced: replaced.map { FileSnapshot($0) },
                stash: aside, unseen: unseen, by: actor),
            returns.map { [.unseen(inode: snapshot.inode, $0)] } ?? [])
        if aside == nil, let replaced { noteGone(replaced) }
        return aside != nil
    }

    /// Notes that the inode is free and may be reused for another file.
    private func noteGone(_ status: stat) {
        let snapshot = FileSnapshot(status)
        if snapshot.isFile, status.st_nlink == 1 { events.append(.gone(inode: snapshot.inode)) }
    }

    /// Renames. What was replaced is in the stash then, under the returned name.
    private func replace(
        _ to: Place, _ replaced: stat?, _ traits: Traits, with from: Place, flags: UInt32,
        by actor: Actor
    ) throws(Errno) -> String? {
        let aside: String?
        do throws(Errno) {
            aside = try usingReserve { () throws(Errno) in
                try putAside(replaced, at: to, traits: traits, by: actor)
            }
        } catch {
            // The file system has no hard links, or this user may not link this file
            // (protected_hardlinks).
            guard [EPERM, EMLINK, EOPNOTSUPP, EXDEV].contains(error.code), let replaced else {
                throw error
            }
            if flags == 0, let aside = try exchange(from, to, FileSnapshot(replaced), by: actor) {
                return aside
            }
            aside = try copyAside(to, FileSnapshot(replaced), by: actor)
        }
        let result = cl_renameat2(from.descriptor, from.name, to.descriptor, to.name, flags)
        if result < 0 {
            if let aside { stash.remove(aside) }
            throw Errno(-result)
        }
        return aside
    }

    /// Replaces without a second link and without a copy: for a moment `from` shows the file that
    /// is being replaced. Returns nil if the file system cannot exchange names.
    private func exchange(_ from: Place, _ to: Place, _ snapshot: FileSnapshot, by actor: Actor)
        throws(Errno) -> String?
    {
        func exchange() -> Int32 {
            cl_renameat2(
                from.descriptor, from.name, to.descriptor, to.name, UInt32(RENAME_EXCHANGE))
        }
        let result = exchange()
        if result == -EINVAL || result == -EOPNOTSUPP { return nil }
        try check(result)
        let aside = stash.newName(.displaced, snapshot, spot: to.spot, actor: actor)
        let moved = cl_renameat2(from.descriptor, from.name, stash.directory, aside, 0)
        if moved < 0 {
            _ = exchange()
            throw Errno(-moved)
        }
        return aside
    }

    private func copyAside(_ place: Place, _ snapshot: FileSnapshot, by actor: Actor) throws(Errno)
        -> String
    {
        let file = Descriptor(
            owning: try check(cl_openat(place.descriptor, place.name, O_PATH | O_NOFOLLOW, 0)))
        let copy = stash.newName(.copied, snapshot, spot: place.spot, actor: actor)
        try stash.copy(of: file.raw, snapshot, into: copy)
        try stash.sync(copy)
        return copy
    }

    /// Gives the file that is about to be replaced a second link in the stash, so that the
    /// replacement itself stays one atomic step.
    private func putAside(_ status: stat?, at place: Place, traits: Traits, by actor: Actor)
        throws(Errno) -> String?
    {
        guard let status, !traits.contains(.local) else { return nil }
        let snapshot = FileSnapshot(status)
        // A file that its creator is still writing is kept too: a later close makes it a save of a
        // superseded document, which is a conflict.
        guard
            holdsBytes(snapshot, links: status.st_nlink)
                || traits.contains(.unsaved) && snapshot.isFile && status.st_nlink == 1
        else { return nil }
        let aside = stash.newName(.displaced, snapshot, spot: place.spot, actor: actor)
        try check(cl_linkat(place.descriptor, place.name, stash.directory, aside, 0))
        return aside
    }

    private func holdsBytes(_ snapshot: FileSnapshot, links: nlink_t) -> Bool {
        snapshot.isFile && snapshot.size > 0 && links == 1
    }

    /// Must be called when a new name was created (create, mkdir, symlink, mknod).
    package func created(
        _ place: Place, status: stat, seen: NamedBase? = nil, by actor: Actor
    ) {
        events.append(
            .created(place.spot, FileSnapshot(status), by: actor),
            seen.map { [.unseen(inode: UInt64(status.st_ino), $0)] } ?? [])
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
