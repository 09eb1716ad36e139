import CLinux
import ChunkStore
import Glibc
import Model
import SystemCalls

// Opening for writing, truncating and closing: where a save begins and ends.
extension Volume {
    /// A program opens a file for writing (`truncates`: with O_TRUNC, which the caller does
    /// afterwards), or has just made it (`isNew`). Puts in safety what it may overwrite: all of it
    /// also when it may write by a mapping of which nobody hears (`maps`). One that `appends`
    /// overwrites nothing as a rule, so that nothing is copied ahead of it. `file` is O_PATH;
    /// `unique` the kernel's number of the request; `others` how many handles of any kind are open
    /// on the inode already. `seen`: what its process had seen instead of what it empties.
    package func openForWriting(
        _ writing: inout Writing, file: Int32, status: stat, truncates: Bool,
        seen: NamedBase? = nil, maps: Bool = false,
        appends: Bool = false, isNew: Bool, traits: Traits, others: Int, unique: UInt64,
        mayBlock: Bool, by actor: Actor
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
            try noteBoundary(
                &writing, file: file, trace: trace, traits: traits, earlier: writing.writers,
                unique: unique)
            if truncates { settleAll(&writing, inode: trace.inode) }
            if truncates || maps, let undo = writing.undo {
                guard mayBlock else { return .slow }
                try saveAll(of: file, in: undo, from: 0)
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

    /// What is about to be overwritten as a whole lies in the stash as the newest former content.
    private func noteUnseen(_ base: NamedBase?, _ trace: Trace, isSecured: Bool) {
        guard let base, isSecured, trace.size > 0 else { return }
        events.append(.unseen(inode: trace.inode, base))
    }

    /// One handle opened for writing was released. `unique` is the kernel's number of the release,
    /// `displaced` that of the request which has replaced or removed the file since (0: none): the
    /// release may be heard after a request that followed it.
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
            if isSecured { events.append(.untouched(inode: trace.inode)) }
        } else {
            if !writing.isSynced(trace) { unrecorded.add(trace, since: writing.era) }
            events.append(.saved(inode: trace.inode, isLate: isLate, by: writing.actor))
        }
    }

    /// Before a program's fsync(2) makes new contents durable: the old ones come first.
    package func syncOldContents(_ writing: inout Writing) throws(Errno) {
        try writing.undo?.sync()
        for name in writing.unsynced { try stash.sync(name) }
        writing.removeUnsynced()
    }

    /// After it: what the file holds now is promised to be on the disk, as if it were recorded.
    package func didSync(_ writing: inout Writing, file: Int32) {
        let trace = trace(file)
        writing.synced = trace
        unrecorded.remove(inode: trace.inode)
    }

    /// After syncfs(2).
    package func didSyncAll() { unrecorded.beginEra() }

    /// A coordinated turn to write it ends while it is open still: that is a save too. Of a large
    /// file, the next close is.
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

    /// The same of a package, which is a document as a whole: what it holds now is a version.
    /// Returns when it is recorded; where that takes too long, it is recorded later, as it is then.
    package func recordPackage(at path: [Name]) {
        _ = recorder.catchUp(with: .path(path), timeoutSeconds: settings.packageTurnSeconds)
    }

    /// Before truncate(2), or ftruncate(2) by a handle that writes (`isWriter`), to `size`. True
    /// when done; false: call again with `mayBlock` from a thread that may take its time.
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
                try noteBoundary(
                    &writing, file: file, trace: trace, traits: traits, earlier: others,
                    unique: unique)
                if size == 0 { settleAll(&writing, inode: trace.inode) }
            }
            if let undo = writing.undo { try saveAll(of: file, in: undo, from: size) }
            noteUnseen(seen, trace, isSecured: true)
            return true
        }
        writing.era = unrecorded.era
        // Growing overwrites nothing, but what is to be the version before it must not grow with
        // it.
        let done = try secure(
            &writing, file: file, trace: trace, whole: true, traits: traits,
            isUnseen: seen != nil, mayBlock: mayBlock, by: actor)
        if done { writing.undo = nil }
        if done { noteUnseen(seen, trace, isSecured: writing.isSecured) }
        return done
    }

    /// After it: a save, unless the file is open for writing.
    package func didTruncate(
        _ writing: inout Writing, file: Int32, status: stat, traits: Traits, by actor: Actor
    ) {
        guard writing.writers == 0, !traits.contains(.local) else { return }
        writing.isSecured = false
        unrecorded.add(Trace(status), since: writing.era)
        events.append(.saved(inode: UInt64(status.st_ino), isLate: true, by: actor))
    }

    /// `user.concord.package` of a directory was set or removed.
    package func packageAttributeChanged(inode: UInt64) { events.append(.packaged(inode: inode)) }

    /// Mode, attributes or times of a file or directory were changed.
    package func attributesChanged(inode: UInt64) { events.append(.attributes(inode: inode)) }

    /// Puts the contents as they are now, the last save, in safety. False: that would take long and
    /// `mayBlock` is false.
    private func secure(
        _ writing: inout Writing, file: Int32, trace: Trace, whole: Bool, appends: Bool = false,
        traits: Traits, isUnseen: Bool = false, mayBlock: Bool, by actor: Actor
    ) throws(Errno) -> Bool {
        writing.isSecured = false
        guard trace.size > 0, !traits.contains(.local), isUnseen || !isKept(trace) else {
            return true
        }
        // It is no version and does not become one.
        guard trace.size <= PackStore.Limits.contentBytes else { return true }
        // A placeholder that is emptied: its version is on the hub.
        if AbsentMark(of: file) != nil { return true }
        // It will have to be synced.
        if !mayBlock, !unrecorded.contains(trace) { return false }
        let isSmall = trace.size <= (appends ? Undo.blockSize : settings.copiedSizeMax)
        let name = stash.newName(
            isSmall || whole ? .copied : .undo, trace, spot: nil, actor: actor)
        if isSmall || whole && mayBlock {
            guard try copy(file, trace, into: name, mayBlock: mayBlock) else { return false }
        } else if stash.clones(file, trace, into: name) {
            // Cloned: as good as a copy, and free.
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
        // Only now: a recording that has not seen this event has begun its era before.
        let isPromised = !unrecorded.contains(trace)
        if let undo = writing.undo {
            if isPromised { undo.syncEach() }
            // What it says is the old size, which nothing else does.
            if isPromised, appends { try stash.sync(name) }
        } else if isPromised {
            try stash.sync(name)
        } else {
            writing.addUnsynced(name)
        }
        return true
    }

    /// On a full disk older contents give way to it; false: that would take long.
    private func copy(_ file: Int32, _ trace: Trace, into name: String, mayBlock: Bool)
        throws(Errno) -> Bool
    {
        guard mayBlock else {
            do throws(Errno) { try stash.copy(of: file, trace, into: name) } catch {
                guard error == .noSpace else { throw error }
                return false
            }
            return true
        }
        try withRoom(for: trace.size, mayBlock: true) { () throws(Errno) in
            try stash.copy(of: file, trace, into: name)
        }
        return true
    }

    private func saveAll(of file: Int32, in undo: Undo, from offset: Int64) throws(Errno) {
        let descriptor = Descriptor(
            owning: try check(quietly(O_RDONLY) { cl_reopen(file, $0) }))
        try undo.willTruncate(descriptor.raw, to: offset)
    }

    /// Another writer has the file open and has changed it. Perhaps it has closed it and we have
    /// not heard yet: then the contents are a save that the new writer is about to destroy, so a
    /// copy is taken until it is known.
    private func noteBoundary(
        _ writing: inout Writing, file: Int32, trace: Trace, traits: Traits, earlier: Int,
        unique: UInt64
    ) throws(Errno) {
        guard trace.size > 0, trace.size <= settings.copiedSizeMax,
            !traits.contains(.local), writing.baseline.map({ trace.differs(from: $0) }) ?? true
        else { return }
        let name = stash.newName(.copied, trace, spot: nil, actor: writing.actor)
        try stash.copy(of: file, trace, into: name)
        if writing.isSynced(trace) { try stash.sync(name) } else { writing.addUnsynced(name) }
        writing.boundaries.append(
            Writing.Boundary(
                unique: unique, stash: name, actor: writing.actor, earlier: earlier))
    }

    /// Who empties what others have written replaces it as a whole: that was a save, although
    /// somebody has it open still (a child that has just been forked does).
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
        // Their writers were at it all the time.
        for boundary in writing.boundaries { stash.remove(boundary.stash) }
        writing.boundaries = []
    }

    /// Up to the last one whose earlier writers have all closed.
    private func settleFinished(_ writing: inout Writing, inode: UInt64) {
        guard let last = writing.boundaries.lastIndex(where: { $0.earlier == 0 }) else { return }
        for boundary in writing.boundaries[...last] { settle(boundary, inode: inode) }
        writing.boundaries.removeSubrange(...last)
        writing.isSecured = true
    }

    /// Those before a save that still had writers were none.
    private func settle(_ boundary: Writing.Boundary, inode: UInt64) {
        guard boundary.earlier == 0 else { return stash.remove(boundary.stash) }
        events.append(.saved(inode: inode, isLate: false, by: boundary.actor))
        events.append(.secured(inode: inode, stash: boundary.stash, by: boundary.actor))
    }
}
