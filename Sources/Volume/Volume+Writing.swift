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
        if isNew || !Trace(status).isFile {
            writing.baseline = nil
            writing.writers += 1
            writing.actor = actor
            return .direct
        }
        let trace = Trace(status)
        if writing.writers > 0 {
            guard mayBlock || !writing.isSynced(trace) else { return .slow }
            switch try noteBoundary(
                &writing, file: file, trace: trace, traits: traits, earlier: writing.writers,
                unique: unique, isWhole: truncates, mayBlock: mayBlock, isLastTry: isLastTry)
            {
            case .noted: break
            case .slow: return .slow
            case .early: return .early
            }
            if truncates { settleAll(&writing, inode: trace.inode) }
            if truncates || maps, let undo = writing.undo {
                guard mayBlock, try saveAll(of: file, in: undo, from: 0, mayBlock: mayBlock) else {
                    return .slow
                }
            }
        } else if !(try secure(
            &writing, file: file, trace: trace, whole: truncates || maps, appends: appends,
            traits: traits, isUnseen: seen != nil, mayBlock: mayBlock, by: actor))
        {
            return .slow
        } else {
            writing.baseline = trace
        }
        noteUnseen(seen, trace, isSecured: writing.writers > 0 || writing.isSecured)
        writing.writers += 1
        writing.actor = actor
        if let undo = writing.undo { return .guarded(undo) }
        return .direct
    }

    /// Notes that the contents which were just put into the stash had not been seen by the program
    /// that overwrites them.
    private func noteUnseen(_ base: NamedBase?, _ trace: Trace, isSecured: Bool) {
        guard let base, isSecured, trace.size > 0 else { return }
        events.append(.unseen(inode: trace.inode, base))
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
        writing.undo = nil
        writing.isSecured = false
        writing.isLate = false
        guard found, !traits.contains(.local) else { return }
        let trace = Trace(status)
        if let baseline = writing.baseline, !trace.differs(from: baseline) {
            kept.endUse(trace)
            if isSecured { events.append(.untouched(inode: trace.inode)) }
        } else {
            if !writing.isSynced(trace) { unrecorded.add(trace, since: writing.era) }
            events.append(.saved(inode: trace.inode, isLate: isLate, by: writing.actor))
        }
    }

    /// Called before a program's fsync(2): makes the old contents durable before the new ones.
    package func syncOldContents(_ writing: inout Writing) throws(Errno) {
        try writing.undo?.sync()
        for name in writing.unsynced { try stash.sync(name) }
        writing.removeUnsynced()
    }

    /// Called after fsync(2): the present contents are promised to be on the disk, as if they were
    /// recorded.
    package func didSync(_ writing: inout Writing, file: Int32) {
        let trace = trace(file)
        writing.synced = trace
        unrecorded.remove(inode: trace.inode)
    }

    /// Called after syncfs(2).
    package func didSyncAll() { unrecorded.beginEra() }

    /// Called when a coordinated write ends while the file is still open, which counts as a save.
    /// For a large file, the next close is the save.
    package func endTurn(
        _ writing: inout Writing, file: Int32, status: stat, traits: Traits
    ) throws(Errno) {
        let trace = Trace(status)
        guard writing.writers > 0, trace.isFile, trace.size > 0,
            trace.size <= settings.copiedSizeMax, !traits.contains(.local),
            writing.baseline.map({ trace.differs(from: $0) }) ?? true
        else { return }
        let name = stash.newName(.copied, trace, spot: nil, actor: writing.actor)
        try stash.copy(of: file, trace, into: name)
        writing.addUnsynced(name)
        events.append(.saved(inode: trace.inode, isLate: true, by: writing.actor))
        events.append(.secured(inode: trace.inode, stash: name, by: writing.actor))
        writing.isSecured = true
        writing.baseline = trace
    }

    /// Records a package at the end of a coordinated write. Returns when it is recorded, or after
    /// `packageTurnSeconds`; it is then recorded later.
    package func recordPackage(at path: [Name]) {
        _ = recorder.catchUp(with: .path(path), timeoutSeconds: settings.packageTurnSeconds)
    }

    /// Called before truncate(2), or before ftruncate(2) by a handle that is open for writing
    /// (`isWriter`). Returns false if it must be called again with `mayBlock`, on a thread that may
    /// wait.
    package func willTruncate(
        _ writing: inout Writing, file: Int32, status: stat, to size: Int64, traits: Traits,
        isWriter: Bool = false, seen: NamedBase? = nil, unique: UInt64, mayBlock: Bool,
        by actor: Actor
    ) throws(Errno) -> Bool {
        let trace = Trace(status)
        guard trace.isFile else { return true }
        if writing.writers > 0 {
            let others = writing.writers - (isWriter ? 1 : 0)
            if others > 0 {
                guard mayBlock || !writing.isSynced(trace) else { return false }
                let boundary = try noteBoundary(
                    &writing, file: file, trace: trace, traits: traits, earlier: others,
                    unique: unique, isWhole: size == 0, mayBlock: mayBlock, isLastTry: true)
                if boundary == .slow { return false }
                if size == 0 { settleAll(&writing, inode: trace.inode) }
            }
            if let undo = writing.undo,
                try !saveAll(of: file, in: undo, from: size, mayBlock: mayBlock)
            {
                return false
            }
            noteUnseen(seen, trace, isSecured: true)
            return true
        }
        writing.era = unrecorded.era
        // Growing a file overwrites nothing, but the previous version must not grow with it.
        let done = try secure(
            &writing, file: file, trace: trace, whole: true, traits: traits,
            isUnseen: seen != nil, mayBlock: mayBlock, by: actor)
        if done { writing.undo = nil }
        if done { noteUnseen(seen, trace, isSecured: writing.isSecured) }
        return done
    }

    /// Called after a truncation, which is a save unless the file is open for writing.
    package func didTruncate(
        _ writing: inout Writing, file: Int32, status: stat, traits: Traits, by actor: Actor
    ) {
        guard writing.writers == 0, !traits.contains(.local) else { return }
        writing.isSecured = false
        unrecorded.add(Trace(status), since: writing.era)
        events.append(.saved(inode: UInt64(status.st_ino), isLate: true, by: actor))
    }

    /// Called when `user.concord.package` of a directory was set or removed.
    package func packageAttributeChanged(inode: UInt64) { events.append(.packaged(inode: inode)) }

    /// Called when mode, attributes or times of a file or directory were changed.
    package func attributesChanged(inode: UInt64) { events.append(.attributes(inode: inode)) }

    /// Puts the present contents, the last save, into the stash. Returns false if that would take
    /// long and `mayBlock` is false.
    private func secure(
        _ writing: inout Writing, file: Int32, trace: Trace, whole: Bool, appends: Bool = false,
        traits: Traits, isUnseen: Bool = false, mayBlock: Bool, by actor: Actor
    ) throws(Errno) -> Bool {
        writing.isSecured = false
        guard trace.size > 0, !traits.contains(.local), isUnseen || !kept.use(trace) else {
            return true
        }
        // Contents that large never become a version.
        guard trace.size <= PackStore.Limits.contentBytes else { return true }
        // A placeholder's version is at the hub, so it can be emptied.
        if AbsentMark(of: file) != nil { return true }
        // The copy must be synced, which takes long.
        if !mayBlock, !unrecorded.contains(trace) { return false }
        let isSmall = trace.size <= (appends ? Undo.blockSize : settings.copiedSizeMax)
        let name = stash.newName(
            isSmall || whole ? .copied : .undo, trace, spot: nil, actor: actor)
        if isSmall || whole && mayBlock {
            guard try copy(file, trace, into: name, mayBlock: mayBlock) else { return false }
        } else if stash.clones(file, trace, into: name) {
            // A clone is as good as a copy and costs nothing.
        } else if whole {
            return false
        } else {
            let copy = try Descriptor(
                opening: name, in: stash.directory, flags: O_RDWR | O_CREAT | O_EXCL, mode: 0o600)
            Protection(of: file).apply(to: copy.raw)
            writing.undo = try Undo(name: name, in: stash, copy: copy, size: trace.size)
        }
        writing.isSecured = true
        events.append(.secured(inode: trace.inode, stash: name, by: actor))
        // This must come after the event: a recording that has not seen the event has begun its era
        // before.
        let isPromised = !unrecorded.contains(trace)
        if let undo = writing.undo {
            if isPromised { undo.syncEach() }
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

    private func copy(_ file: Int32, _ trace: Trace, into name: String, mayBlock: Bool)
        throws(Errno) -> Bool
    {
        try putAside(trace.size, mayBlock: mayBlock) { () throws(Errno) in
            try stash.copy(of: file, trace, into: name)
        }
    }

    private func saveAll(of file: Int32, in undo: Undo, from offset: Int64, mayBlock: Bool)
        throws(Errno) -> Bool
    {
        let descriptor = Descriptor(
            owning: try check(quietly(O_RDONLY) { cl_reopen(file, $0) }))
        return try putAside(undo.size, mayBlock: mayBlock) { () throws(Errno) in
            try undo.willTruncate(descriptor.raw, to: offset)
        }
    }

    /// Handles an open for writing while another writer has the file open and has changed it. That
    /// writer may have closed it already without our having been told. Then the contents are a save
    /// that the new writer is about to overwrite, so a copy is kept until this is known. Large
    /// contents are copied only for a writer that destroys the whole (`isWhole`).
    private func noteBoundary(
        _ writing: inout Writing, file: Int32, trace: Trace, traits: Traits, earlier: Int,
        unique: UInt64, isWhole: Bool, mayBlock: Bool, isLastTry: Bool
    ) throws(Errno) -> BoundaryResult {
        guard trace.size > 0, trace.size <= PackStore.Limits.contentBytes,
            !traits.contains(.local), writing.baseline.map({ trace.differs(from: $0) }) ?? true
        else { return .noted }
        if trace.size > settings.copiedSizeMax {
            guard mayBlock else { return .slow }
            // The close is served only while this file is not locked, so it is waited for outside.
            guard isLastTry else { return .early }
            guard isWhole else { return .noted }
        }
        let name = stash.newName(.copied, trace, spot: nil, actor: writing.actor)
        guard try copy(file, trace, into: name, mayBlock: mayBlock) else { return .slow }
        if writing.isSynced(trace) { try stash.sync(name) } else { writing.addUnsynced(name) }
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
