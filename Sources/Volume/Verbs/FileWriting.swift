import CLinux
import ChunkStore
import Glibc
import Model
import SystemCalls

/// Serves the beginning and the end of a save: opening for writing, truncating and closing. What
/// programs may overwrite is moved to the stash first.
package final class FileWriting: Sendable {
    private let stash: Stash
    private let events: EventQueue
    private let kept: KeptContents
    private let unrecorded: UnrecordedContents
    private let openContents: OpenContents
    private let oldContents: OldContents
    /// See `Settings.copiedSizeMax`.
    private let copiedSizeMax: Int64

    init(
        stash: Stash, events: EventQueue, kept: KeptContents, unrecorded: UnrecordedContents,
        openContents: OpenContents, oldContents: OldContents, copiedSizeMax: Int64
    ) {
        self.stash = stash
        self.events = events
        self.kept = kept
        self.unrecorded = unrecorded
        self.openContents = openContents
        self.oldContents = oldContents
        self.copiedSizeMax = copiedSizeMax
    }

    /// Begins writing: a program opens a file for writing or has just created it. Moves what it may
    /// overwrite to safety first.
    ///
    /// - Parameters:
    ///   - file: The file, opened with O_PATH.
    ///   - truncates: The open has O_TRUNC; the caller truncates afterwards.
    ///   - seen: What the process had seen, if that differs from what it empties.
    ///   - maps: The program may write through a mapping, unseen, so everything is copied.
    ///   - appends: The program normally overwrites nothing, so a large file is not copied in
    ///     advance.
    ///   - isNew: The program has just created the file.
    ///   - others: How many handles of any kind are open on the inode already.
    ///   - unique: The kernel's number of the request.
    ///   - isLastTry: Closes that may be on their way are not waited for any more.
    package func open(
        _ writing: inout Writing, file: Int32, status: stat, truncates: Bool,
        seen: NamedBase? = nil, maps: Bool = false,
        appends: Bool = false, isNew: Bool, traits: Traits, others: Int, unique: UInt64,
        patience: Patience, isLastTry: Bool = false, by actor: Actor
    ) throws(Errno) -> WriteAccess {
        if writing.writers == 0 { writing.era = unrecorded.era }
        if isNew || !FileSnapshot(status).isFile {
            writing.baseline = nil
            writing.writers += 1
            writing.actor = actor
            if !traits.contains(.local) { openContents.opened(UInt64(status.st_ino)) }
            return .direct
        }
        let snapshot = FileSnapshot(status)
        if writing.writers > 0 {
            if truncates || maps, let needed = writing.preImages?.patienceToSave(from: 0),
                patience < needed
            {
                return .slow(needed)
            }
            switch try noteBoundary(
                &writing, file: file, snapshot: snapshot, traits: traits, earlier: writing.writers,
                unique: unique, isWhole: truncates, isUnseen: seen != nil, patience: patience,
                isLastTry: isLastTry)
            {
            case .noted: break
            case .slow(let needed): return .slow(needed)
            case .early: return .early
            }
            if truncates { settleAll(&writing, inode: snapshot.inode) }
            if truncates || maps, let preImages = writing.preImages,
                let needed = try saveAll(
                    of: file, in: preImages, from: 0, isUnseen: seen != nil, patience)
            {
                return .slow(needed)
            }
        } else {
            let needed = try secure(
                &writing, file: file, snapshot: snapshot, whole: truncates || maps,
                appends: appends, traits: traits, isUnseen: seen != nil, patience: patience,
                by: actor)
            if let needed { return .slow(needed) }
            writing.baseline = snapshot
            if !traits.contains(.local) {
                openContents.opened(snapshot.inode)
                if !writing.isSecured { events.append(.opened(inode: snapshot.inode)) }
            }
        }
        noteUnseen(seen, snapshot, isSecured: writing.writers > 0 || writing.isSecured)
        writing.writers += 1
        writing.actor = actor
        if let preImages = writing.preImages { return .guarded(preImages) }
        return .direct
    }

    /// Notes that the contents which were just put into the stash had not been seen by the program
    /// that overwrites them.
    private func noteUnseen(_ base: NamedBase?, _ snapshot: FileSnapshot, isSecured: Bool) {
        guard let base, isSecured, snapshot.size > 0 else { return }
        events.append(.unseen(inode: snapshot.inode, base))
    }

    /// Ends writing by one handle. `unique` is the kernel's number of the release, `displaced` that
    /// of the request that has replaced or removed the file since (0 if none). A release may be
    /// served after a request that was issued later.
    package func close(
        _ writing: inout Writing, file: Int32, traits: Traits, unique: UInt64,
        displaced: UInt64 = 0
    ) {
        writing.writers -= 1
        if displaced > 0, unique > displaced { writing.isLate = true }
        var status = stat()
        let found = cl_fstat(file, &status) == 0
        settleBoundaries(&writing, inode: UInt64(status.st_ino), unique: unique)
        guard writing.writers == 0 else { return }
        let (isSecured, isLate) = (writing.isSecured, writing.isLate)
        writing.preImages = nil
        writing.isSecured = false
        writing.isLate = false
        guard found else { return }
        let snapshot = FileSnapshot(status)
        let isKnown = openContents.closed(snapshot.inode)
        guard !traits.contains(.local) else {
            // It got a local name while it was open.
            if isKnown { events.append(.closed(inode: snapshot.inode)) }
            return
        }
        if let baseline = writing.baseline, !snapshot.differs(from: baseline) {
            kept.endUse(snapshot)
            let inode = snapshot.inode
            events.append(isSecured ? .untouched(inode: inode) : .closed(inode: inode))
        } else {
            if !writing.isSynced(snapshot) { unrecorded.add(snapshot, since: writing.era) }
            events.append(.saved(inode: snapshot.inode, isLate: isLate, by: writing.actor))
        }
    }

    /// Called before a program's fsync(2): makes the old contents durable before the new ones.
    /// Takes as long as their length needs, so nothing may be locked; `didSync` is told of them.
    package func sync(_ old: UnsyncedContents) throws(Errno) {
        try old.preImages?.sync()
        for name in old.names { try stash.sync(name) }
    }

    /// Called after fsync(2): the present contents are promised to be on the disk, as if they were
    /// recorded. Returns what `OpenContents.didSync` must be told of.
    package func didSync(
        _ writing: inout Writing, _ old: UnsyncedContents, file: Int32
    ) -> FileSnapshot {
        writing.remove(old)
        let snapshot = FileSnapshot(of: file)
        writing.synced = snapshot
        unrecorded.remove(inode: snapshot.inode)
        return snapshot
    }

    /// Called after syncfs(2).
    package func didSyncAll() { unrecorded.beginEra() }

    /// Called when a coordinated write ends while the file is still open, which counts as a save.
    /// For a large file, the next close is the save.
    package func endCoordinatedWrite(
        _ writing: inout Writing, file: Int32, status: stat, traits: Traits
    ) throws(Errno) {
        let snapshot = FileSnapshot(status)
        guard writing.writers > 0, snapshot.isFile, snapshot.size > 0,
            snapshot.size <= copiedSizeMax, !traits.contains(.local),
            writing.baseline.map({ snapshot.differs(from: $0) }) ?? true
        else { return }
        let name = stash.newName(.copied, snapshot, spot: nil, actor: writing.actor)
        try stash.copy(of: file, snapshot, into: name)
        writing.addUnsynced(name)
        events.append(.saved(inode: snapshot.inode, isLate: true, by: writing.actor))
        events.append(.secured(inode: snapshot.inode, stash: name, by: writing.actor))
        writing.isSecured = true
        writing.baseline = snapshot
    }

    /// Called before truncate(2), or before ftruncate(2) by a handle that is open for writing
    /// (`isWriter`). Returns the patience that it needs if it must be called again with that.
    package func willTruncate(
        _ writing: inout Writing, file: Int32, status: stat, to size: Int64, traits: Traits,
        isWriter: Bool = false, seen: NamedBase? = nil, unique: UInt64, patience: Patience,
        by actor: Actor
    ) throws(Errno) -> Patience? {
        let snapshot = FileSnapshot(status)
        guard snapshot.isFile else { return nil }
        if writing.writers > 0 {
            if let needed = writing.preImages?.patienceToSave(from: size), patience < needed {
                return needed
            }
            let others = writing.writers - (isWriter ? 1 : 0)
            if others > 0 {
                let boundary = try noteBoundary(
                    &writing, file: file, snapshot: snapshot, traits: traits, earlier: others,
                    unique: unique, isWhole: size == 0, isUnseen: seen != nil,
                    patience: patience, isLastTry: true)
                if case .slow(let needed) = boundary { return needed }
                if size == 0 { settleAll(&writing, inode: snapshot.inode) }
            }
            if let preImages = writing.preImages,
                let needed = try saveAll(
                    of: file, in: preImages, from: size, isUnseen: seen != nil, patience)
            {
                return needed
            }
            noteUnseen(seen, snapshot, isSecured: true)
            return nil
        }
        writing.era = unrecorded.era
        // Growing a file overwrites nothing, but the previous version must not grow with it.
        let destroys = patience < .loss || size < snapshot.size
        let needed = try secure(
            &writing, file: file, snapshot: snapshot, whole: destroys, traits: traits,
            isUnseen: seen != nil, patience: patience, by: actor)
        if let needed { return needed }
        writing.preImages = nil
        noteUnseen(seen, snapshot, isSecured: writing.isSecured)
        return nil
    }

    /// Called after a truncation, which is a save unless the file is open for writing.
    package func didTruncate(
        _ writing: inout Writing, file: Int32, status: stat, traits: Traits, by actor: Actor
    ) {
        guard writing.writers == 0, !traits.contains(.local) else { return }
        writing.isSecured = false
        unrecorded.add(FileSnapshot(status), since: writing.era)
        events.append(.saved(inode: UInt64(status.st_ino), isLate: true, by: actor))
    }

    /// Puts the present contents, the last save, into the stash. Returns the patience that this
    /// needs if that is more than `patience`.
    private func secure(
        _ writing: inout Writing, file: Int32, snapshot: FileSnapshot, whole: Bool,
        appends: Bool = false,
        traits: Traits, isUnseen: Bool = false, patience: Patience, by actor: Actor
    ) throws(Errno) -> Patience? {
        writing.isSecured = false
        guard snapshot.size > 0, !traits.contains(.local), isUnseen || !kept.use(snapshot) else {
            return nil
        }
        // Contents that large never become a version.
        guard snapshot.size <= PackStore.Limits.contentBytes else { return nil }
        // A placeholder's version is at the hub, so it can be emptied.
        if PlaceholderMark(of: file) != nil { return nil }
        if patience == .loss {
            try oldContents.secure(
                &writing, file: file, snapshot, whole: whole, isUnseen: isUnseen, by: actor)
            return nil
        }
        let isSmall = snapshot.size <= (appends ? PreImageLog.blockSize : copiedSizeMax)
        // A clone costs little, but first all that was written to the file goes to the disk.
        if !isSmall, whole || stash.mayClone, patience < .copy { return .copy }
        // What was promised to be on the disk must be synced again.
        if patience < .brief, !unrecorded.contains(snapshot) { return .brief }
        let name = stash.newName(
            isSmall || whole ? .copied : .preImages, snapshot, spot: nil, actor: actor)
        if let needed = stash.keepLog(of: file, snapshot, with: name, patience: patience) {
            return needed
        }
        if isSmall || whole {
            let needed = try copy(file, snapshot, into: name)
            if let needed { return needed }
        } else if stash.cloneIfPossible(file, snapshot, into: name) {
            // A clone is as good as a copy.
        } else {
            writing.preImages = try PreImageLog.make(of: file, snapshot, named: name, in: stash)
        }
        writing.isSecured = true
        events.append(.secured(inode: snapshot.inode, stash: name, by: actor))
        // This must come after the event: a recording that has not seen the event has begun its era
        // before.
        let isPromised = !unrecorded.contains(snapshot)
        if let preImages = writing.preImages {
            if isPromised { preImages.syncEach() }
            // The log file's size is the only record of the old size.
            if isPromised, appends { try stash.sync(name) }
        } else if isPromised {
            try stash.sync(name)
        } else {
            writing.addUnsynced(name)
        }
        return nil
    }

    /// Puts contents into the stash. Returns `.room` if the disk is full: with that patience, the
    /// caller frees space and then calls again.
    private func putAside(_ body: () throws(Errno) -> Void) throws(Errno) -> Patience? {
        do throws(Errno) { try body() } catch {
            guard error == .noSpace else { throw error }
            return .room
        }
        return nil
    }

    private func copy(_ file: Int32, _ snapshot: FileSnapshot, into name: String) throws(Errno)
        -> Patience?
    {
        try putAside { () throws(Errno) in
            try stash.copy(of: file, snapshot, into: name)
        }
    }

    private func saveAll(
        of file: Int32, in preImages: PreImageLog, from offset: Int64, isUnseen: Bool,
        _ patience: Patience
    ) throws(Errno) -> Patience? {
        if patience == .loss, preImages.patienceToSave(from: offset) != nil {
            guard !isUnseen, oldContents.giveUp(preImages) else { throw .noSpace }
            return nil
        }
        let descriptor = Descriptor(
            owning: try check(quietly(O_RDONLY) { cl_reopen(file, $0) }))
        return try putAside { () throws(Errno) in
            try preImages.willTruncate(descriptor.raw, to: offset)
        }
    }

    /// Handles an open for writing while another writer has the file open and has changed it. That
    /// writer may have closed it already without our having been told. Then the contents are a save
    /// that the new writer is about to overwrite, so a copy is kept until this is known. Large
    /// contents are copied only for a writer that destroys the whole (`isWhole`).
    private func noteBoundary(
        _ writing: inout Writing, file: Int32, snapshot: FileSnapshot, traits: Traits, earlier: Int,
        unique: UInt64, isWhole: Bool, isUnseen: Bool, patience: Patience, isLastTry: Bool
    ) throws(Errno) -> BoundaryResult {
        guard snapshot.size > 0, snapshot.size <= PackStore.Limits.contentBytes,
            !traits.contains(.local), writing.baseline.map({ snapshot.differs(from: $0) }) ?? true
        else { return .noted }
        if snapshot.size > copiedSizeMax {
            // The close is served only while this file is not locked, so it is waited for outside.
            guard isLastTry else { return .early }
            guard isWhole else { return .noted }
            guard patience >= .copy else { return .slow(.copy) }
        }
        if patience < .brief, writing.isSynced(snapshot) { return .slow(.brief) }
        // There is no room for what may have been a save.
        if patience == .loss, !isUnseen { return .noted }
        let name = stash.newName(.copied, snapshot, spot: nil, actor: writing.actor)
        if let needed = try copy(file, snapshot, into: name) {
            return .slow(needed)
        }
        if writing.isSynced(snapshot) { try stash.sync(name) } else { writing.addUnsynced(name) }
        writing.boundaries.append(
            Writing.Boundary(
                unique: unique, stash: name, actor: writing.actor, earlier: earlier))
        return .noted
    }

    private enum BoundaryResult {
        case noted
        /// Call again with this patience.
        case slow(Patience)
        /// The contents are too large to be copied on suspicion, and a close may be on its way.
        case early
    }

    /// Counts the contents as a save, because emptying a file replaces it as a whole. The file may
    /// still be open elsewhere, for example in a child that was just forked.
    private func settleAll(_ writing: inout Writing, inode: UInt64) {
        for index in writing.boundaries.indices { writing.boundaries[index].earlier = 0 }
        settleFinished(&writing, inode: inode)
    }

    private func settleBoundaries(_ writing: inout Writing, inode: UInt64, unique: UInt64) {
        for index in writing.boundaries.indices where unique < writing.boundaries[index].unique {
            writing.boundaries[index].earlier -= 1
        }
        settleFinished(&writing, inode: inode)
        guard writing.writers == 0 else { return }
        // The earlier writers had the file open all the time, so these contents were no saves.
        for boundary in writing.boundaries { stash.remove(boundary.stash) }
        writing.boundaries = []
    }

    /// Settles boundaries up to the last one whose earlier writers have all closed.
    private func settleFinished(_ writing: inout Writing, inode: UInt64) {
        guard let last = writing.boundaries.lastIndex(where: { $0.earlier == 0 }) else { return }
        for boundary in writing.boundaries[...last] { settle(boundary, inode: inode) }
        writing.boundaries.removeSubrange(...last)
        writing.isSecured = true
    }

    /// Settles one boundary. It was no save if earlier writers still have the file open.
    private func settle(_ boundary: Writing.Boundary, inode: UInt64) {
        guard boundary.earlier == 0 else { return stash.remove(boundary.stash) }
        events.append(.saved(inode: inode, isLate: false, by: boundary.actor))
        events.append(.secured(inode: inode, stash: boundary.stash, by: boundary.actor))
    }
}
