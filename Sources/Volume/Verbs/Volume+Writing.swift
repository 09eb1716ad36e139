import CLinux
import ChunkStore
import Glibc
import Model
import SystemCalls

// Opening for writing, truncating and closing: the beginning and the end of a save.
extension Volume {
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
    package func openForWriting(
        _ writing: inout Writing, file: Int32, status: stat, truncates: Bool,
        seen: NamedBase? = nil, maps: Bool = false,
        appends: Bool = false, isNew: Bool, traits: Traits, others: Int, unique: UInt64,
        mayBlock: Bool, isLastTry: Bool = false, by actor: Actor
    ) throws(Errno) -> WriteAccess {
        if writing.writers == 0 { writing.era = unrecorded.era }
        if isNew || !FileSnapshot(status).isFile {
            writing.baseline = nil
            writing.writers += 1
            writing.actor = actor
            return .direct
        }
        let snapshot = FileSnapshot(status)
        if writing.writers > 0 {
            guard mayBlock || !writing.isSynced(snapshot) else { return .slow }
            switch try noteBoundary(
                &writing, file: file, snapshot: snapshot, traits: traits, earlier: writing.writers,
                unique: unique, isWhole: truncates, mayBlock: mayBlock, isLastTry: isLastTry)
            {
            case .noted: break
            case .slow: return .slow
            case .early: return .early
            }
            if truncates { settleAll(&writing, inode: snapshot.inode) }
            if truncates || maps, let preImages = writing.preImages {
                guard mayBlock, try saveAll(of: file, in: preImages, from: 0, mayBlock: mayBlock)
                else {
                    return .slow
                }
            }
        } else if !(try secure(
            &writing, file: file, snapshot: snapshot, whole: truncates || maps, appends: appends,
            traits: traits, isUnseen: seen != nil, mayBlock: mayBlock, by: actor))
        {
            return .slow
        } else {
            writing.baseline = snapshot
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
    package func closeWriter(
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
        guard found, !traits.contains(.local) else { return }
        let snapshot = FileSnapshot(status)
        if let baseline = writing.baseline, !snapshot.differs(from: baseline) {
            kept.endUse(snapshot)
            if isSecured { events.append(.untouched(inode: snapshot.inode)) }
        } else {
            if !writing.isSynced(snapshot) { unrecorded.add(snapshot, since: writing.era) }
            events.append(.saved(inode: snapshot.inode, isLate: isLate, by: writing.actor))
        }
    }

    /// Called before a program's fsync(2): makes the old contents durable before the new ones.
    package func syncOldContents(_ writing: inout Writing) throws(Errno) {
        try writing.preImages?.sync()
        for name in writing.unsynced { try stash.sync(name) }
        writing.removeUnsynced()
    }

    /// Called after fsync(2): the present contents are promised to be on the disk, as if they were
    /// recorded.
    package func didSync(_ writing: inout Writing, file: Int32) {
        let snapshot = snapshot(file)
        writing.synced = snapshot
        unrecorded.remove(inode: snapshot.inode)
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
            snapshot.size <= settings.copiedSizeMax, !traits.contains(.local),
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

    /// Records a package at the end of a coordinated write. Returns when it is recorded, or after
    /// `packageClaimSeconds`; it is then recorded later.
    package func recordPackage(at path: [Name]) {
        _ = recorder.catchUp(with: .path(path), timeoutSeconds: settings.packageClaimSeconds)
    }

    /// Called before truncate(2), or before ftruncate(2) by a handle that is open for writing
    /// (`isWriter`). Returns false if it must be called again with `mayBlock`, on a thread that may
    /// wait.
    package func willTruncate(
        _ writing: inout Writing, file: Int32, status: stat, to size: Int64, traits: Traits,
        isWriter: Bool = false, seen: NamedBase? = nil, unique: UInt64, mayBlock: Bool,
        by actor: Actor
    ) throws(Errno) -> Bool {
        let snapshot = FileSnapshot(status)
        guard snapshot.isFile else { return true }
        if writing.writers > 0 {
            let others = writing.writers - (isWriter ? 1 : 0)
            if others > 0 {
                guard mayBlock || !writing.isSynced(snapshot) else { return false }
                let boundary = try noteBoundary(
                    &writing, file: file, snapshot: snapshot, traits: traits, earlier: others,
                    unique: unique, isWhole: size == 0, mayBlock: mayBlock, isLastTry: true)
                if boundary == .slow { return false }
                if size == 0 { settleAll(&writing, inode: snapshot.inode) }
            }
            if let preImages = writing.preImages,
                try !saveAll(of: file, in: preImages, from: size, mayBlock: mayBlock)
            {
                return false
            }
            noteUnseen(seen, snapshot, isSecured: true)
            return true
        }
        writing.era = unrecorded.era
        // Growing a file overwrites nothing, but the previous version must not grow with it.
        let done = try secure(
            &writing, file: file, snapshot: snapshot, whole: true, traits: traits,
            isUnseen: seen != nil, mayBlock: mayBlock, by: actor)
        if done { writing.preImages = nil }
        if done { noteUnseen(seen, snapshot, isSecured: writing.isSecured) }
        return done
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

    /// Called when `user.concord.package` of a directory was set or removed.
    package func packageAttributeChanged(inode: UInt64) { events.append(.packaged(inode: inode)) }

    /// Called when mode, attributes or times of a file or directory were changed.
    package func attributesChanged(inode: UInt64) { events.append(.attributes(inode: inode)) }

    /// The same after a change of a directory's owner, mode or access control list.
    ///
    /// - Parameter file: Any descriptor of the directory.
    package func protectionChanged(ofDirectory inode: UInt64, file: Int32) {
        events.append(.attributes(inode: inode, Protection(of: file)))
    }

    /// Puts the present contents, the last save, into the stash. Returns false if that would take
    /// long and `mayBlock` is false.
    private func secure(
        _ writing: inout Writing, file: Int32, snapshot: FileSnapshot, whole: Bool,
        appends: Bool = false,
        traits: Traits, isUnseen: Bool = false, mayBlock: Bool, by actor: Actor
    ) throws(Errno) -> Bool {
        writing.isSecured = false
        guard snapshot.size > 0, !traits.contains(.local), isUnseen || !kept.use(snapshot) else {
            return true
        }
        // Contents that large never become a version.
        guard snapshot.size <= PackStore.Limits.contentBytes else { return true }
        // A placeholder's version is at the hub, so it can be emptied.
        if PlaceholderMark(of: file) != nil { return true }
        // The copy must be synced, which takes long.
        if !mayBlock, !unrecorded.contains(snapshot) { return false }
        let isSmall = snapshot.size <= (appends ? PreImageLog.blockSize : settings.copiedSizeMax)
        let name = stash.newName(
            isSmall || whole ? .copied : .preImages, snapshot, spot: nil, actor: actor)
        guard stash.keepLog(of: file, snapshot, with: name, mayBlock: mayBlock) else {
            return false
        }
        if isSmall || whole && mayBlock {
            guard try copy(file, snapshot, into: name, mayBlock: mayBlock) else { return false }
        } else if stash.cloneIfPossible(file, snapshot, into: name) {
            // A clone is as good as a copy and costs nothing.
        } else if whole {
            return false
        } else {
            let copy = try Descriptor(
                opening: name, in: stash.directory, flags: O_RDWR | O_CREAT | O_EXCL, mode: 0o600)
            Protection(of: file).apply(to: copy.raw)
            writing.preImages = try PreImageLog(
                name: name, in: stash, copy: copy, size: snapshot.size)
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
        return true
    }

    /// Puts contents into the stash, which needs up to `bytes`. On a full disk older contents are
    /// removed for that. Returns false if that would take long and `mayBlock` is false.
    private func putAside(
        _ bytes: Int64, mayBlock: Bool, _ body: () throws(Errno) -> Void
    ) throws(Errno) -> Bool {
        guard mayBlock else {
            do throws(Errno) { try body() } catch {
                guard error == .noSpace else { throw error }
                return false
            }
            return true
        }
        try withRoom(for: bytes, mayBlock: true, body)
        return true
    }

    private func copy(_ file: Int32, _ snapshot: FileSnapshot, into name: String, mayBlock: Bool)
        throws(Errno) -> Bool
    {
        try putAside(snapshot.size, mayBlock: mayBlock) { () throws(Errno) in
            try stash.copy(of: file, snapshot, into: name)
        }
    }

    private func saveAll(
        of file: Int32, in preImages: PreImageLog, from offset: Int64, mayBlock: Bool
    )
        throws(Errno) -> Bool
    {
        let descriptor = Descriptor(
            owning: try check(quietly(O_RDONLY) { cl_reopen(file, $0) }))
        return try putAside(preImages.size, mayBlock: mayBlock) { () throws(Errno) in
            try preImages.willTruncate(descriptor.raw, to: offset)
        }
    }

    /// Handles an open for writing while another writer has the file open and has changed it. That
    /// writer may have closed it already without our having been told. Then the contents are a save
    /// that the new writer is about to overwrite, so a copy is kept until this is known. Large
    /// contents are copied only for a writer that destroys the whole (`isWhole`).
    private func noteBoundary(
        _ writing: inout Writing, file: Int32, snapshot: FileSnapshot, traits: Traits, earlier: Int,
        unique: UInt64, isWhole: Bool, mayBlock: Bool, isLastTry: Bool
    ) throws(Errno) -> BoundaryResult {
        guard snapshot.size > 0, snapshot.size <= PackStore.Limits.contentBytes,
            !traits.contains(.local), writing.baseline.map({ snapshot.differs(from: $0) }) ?? true
        else { return .noted }
        if snapshot.size > settings.copiedSizeMax {
            guard mayBlock else { return .slow }
            // The close is served only while this file is not locked, so it is waited for outside.
            guard isLastTry else { return .early }
            guard isWhole else { return .noted }
        }
        let name = stash.newName(.copied, snapshot, spot: nil, actor: writing.actor)
        guard try copy(file, snapshot, into: name, mayBlock: mayBlock) else { return .slow }
        if writing.isSynced(snapshot) { try stash.sync(name) } else { writing.addUnsynced(name) }
        writing.boundaries.append(
            Writing.Boundary(
                unique: unique, stash: name, actor: writing.actor, earlier: earlier))
        return .noted
    }

    private enum BoundaryResult {
        case noted
        /// It takes long: call again with `mayBlock`.
        case slow
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
