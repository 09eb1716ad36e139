import CLinux
import ChunkStore
import Glibc
import Journal
import Logging
import Model
import SystemCalls

/// The changes that the recording of one document commits.
struct Recording {
    var item: Item
    var versions: [(version: Version, manifest: [UInt8])] = []
    /// New protections of versions that the journal has already.
    var protections: [Identifier: Protection] = [:]
    /// Versions that are no longer current.
    var outdated: [Identifier] = []
    /// Conflict versions that are merged only when a person asks for it.
    var apart: [Identifier] = []
    /// Versions whose bytes were overwritten while the volume was not mounted.
    var lost: [Version] = []
    /// The pending document as it was when recording began.
    var work: PendingDocument
    /// Prior contents that programs are still writing, which are recorded later.
    var rest: [PriorContent] = []
    var isLiveDeferred = false
    /// Set if the tree has a placeholder of the current version.
    var absent: LivePlaceholder?
    var keptTrace: FileSnapshot?
    /// A message for people once this is committed. It would be premature before, because a change
    /// in the meantime may be the cause.
    var problem: String?
}

extension Recording {
    /// The current version always has the document's protection. So contents that were made private
    /// before they were replaced stay private.
    mutating func protect(_ current: Version?, as protection: Protection) {
        guard let current else { return }
        if let index = versions.firstIndex(where: { $0.version.id == current.id }) {
            versions[index].version.protection = protection
        } else if protections[current.id] ?? current.protection != protection {
            protections[current.id] = protection
        }
    }
}

// Recording: contents in the stash and in the tree become versions, oldest first. Then the bytes of
// older versions that exist nowhere else go to the chunk store, then one transaction commits the
// versions, and then the stash files are removed.
extension Recorder {
    /// Records documents. Returns how many of them, from the first on, were handled; 0 if it must
    /// wait.
    @discardableResult
    func record(_ keys: [Int64]) -> Int {
        guard !isRecordingPaused else { return 0 }
        var count = 0
        do {
            // When the volume is closing there is no time to sync everything that the disk has to
            // write.
            let syncsEach = keys.count <= 8 || isClosing
            if !syncsEach { try syncTree() }
            var recordings: [Recording] = []
            var places: [Digest: ChunkPlace] = [:]
            let started = cl_clock_monotonic_ns()
            try journal.read { reader in
                snapshot = reader
                defer { (snapshot, lastCut) = (nil, nil) }
                for key in keys where !isOverdue {
                    count += 1
                    let recording = try record(key, syncs: syncsEach, &places)
                    // A recording that was given up may look as if contents were missing.
                    if let recording, !isOverdue { recordings.append(recording) }
                    // The documents so far are committed before large ones follow; the remaining
                    // ones stay due.
                    if cl_clock_monotonic_ns() - started > 500_000_000 { break }
                }
            }
            guard !recordings.isEmpty else { return count }
            if !places.isEmpty { try packs.sync() }
            // From now on, copies of these contents are synced before a program overwrites them.
            unrecorded.beginEra()
            // Processes events that came while the contents were read, because the order of the
            // versions depends on them.
            if events.waiting.count > 0 {
                backlog += events.takeAll()
                applyBacklog()
                guard !isPaused, state.scan == nil else { return 0 }
            }
            let current = recordings.filter {
                state.pending[$0.item.key]?.revision == $0.work.revision
            }
            try commit(current, places)
            for recording in current { told(recording) }
            removeUnneededStashFiles()
            untell("recording")
        } catch {
            // Nothing was removed; recording is tried again when there is space.
            packsHoldWaste = true
            tell("recording", "Versions cannot be recorded now: \(error) This will be tried again.")
            pause(\.recordingPausedUntil, seconds: settings.retrySeconds)
        }
        return count
    }

    /// Reads the journal as it was when the batch began. One snapshot serves the whole batch,
    /// because opening one costs more than the reading.
    func look<T>(_ body: (Reader) throws -> T) throws(VolumeError) -> T {
        guard let snapshot else { return try journal.read(body) }
        do {
            return try body(snapshot)
        } catch let error as VolumeError {
            throw error
        } catch {
            throw VolumeError(.system, "\(error)")
        }
    }

    /// Syncs the whole tree, because contents must be on the disk before they are recorded.
    func syncTree() throws(VolumeError) {
        do throws(Errno) {
            // syncfs(2) does not accept an O_PATH descriptor such as `tree`.
            let directory = try Descriptor(opening: ".", in: tree, flags: O_RDONLY | O_DIRECTORY)
            try check(cl_syncfs(directory.raw))
        } catch {
            throw VolumeError(.system, "The working tree cannot be synced to the disk: \(error).")
        }
    }

    private func commit(_ recordings: [Recording], _ places: [Digest: ChunkPlace])
        throws(VolumeError)
    {
        guard !recordings.isEmpty || !places.isEmpty else { return }
        try transact { t in
            for (digest, place) in places { try t.setPlace(digest, place) }
            for recording in recordings {
                try commit(recording, t)
                finish(recording)
            }
        }
    }

    private func commit(_ recording: Recording, _ t: Transaction) throws {
        let recorded = recording.item
        // It may have been renamed since.
        guard var item = try t.item(recorded.key) else { return }
        (item.size, item.modified, item.changed) =
            (recorded.size, recorded.modified, recorded.changed)
        (item.latest, item.current, item.inPlace) =
            (recorded.latest, recorded.current, recorded.inPlace)
        (item.mode, item.attributes) = (recorded.mode, recorded.attributes)
        if item.parent != recorded.parent { try owners.note(&item, t) }
        for id in recording.outdated { try t.setKind(id, .history) }
        for (id, protection) in recording.protections {
            try t.setProtection(of: id, protection)
        }
        // A version in the outbox is sent from its row, and the hub has its bytes, so the row is
        // kept.
        if !recording.lost.isEmpty, try !t.isInOutbox(item.id) {
            for version in recording.lost { try t.remove(version: version.id) }
        }
        for (version, manifest) in recording.versions {
            try t.insert(version, of: item.key, manifest: manifest)
        }
        if !recording.apart.isEmpty { try ManualMergeVersions.add(recording.apart, t) }
        if item.deleted != nil, item.current == nil, recording.rest.isEmpty,
            recording.versions.isEmpty, try t.versions(of: item.key).isEmpty,
            try !isParent(item, t), try mayRemoveRow(item, t)
        {
            // There is nothing to keep.
            try t.removeRow(item.key)
            return
        }
        try t.update(item)
        try commitAbsence(recording, t)
    }

    /// Whether the hub need not be told of a deleted item any more.
    private func mayRemoveRow(_ item: Item, _ t: Reader) throws -> Bool {
        if try !t.isKnownToHub(item) { return true }
        return try RemovalCheck(item, [], t).mayRemoveRow
    }

    private func finish(_ recording: Recording) {
        let key = recording.item.key
        if recording.rest.isEmpty, !recording.isLiveDeferred {
            state.pending[key] = nil
            state.movedParts[key] = nil
        } else {
            state.pending[key]?.priorContents = recording.rest
            if !recording.isLiveDeferred { state.pending[key]?.save = nil }
            postpone(key)
        }
    }

    /// Reports a recording that was committed.
    private func told(_ recording: Recording) {
        let key = recording.item.key
        if !recording.lost.isEmpty { tell(lost: recording.lost, of: recording.item) }
        if let problem = recording.problem { tell("bytes of \(key)", problem) }
        if let snapshot = recording.keptTrace { kept.set(snapshot) }
        let conflicts = recording.versions.filter { $0.version.kind == .conflict }
        if !conflicts.isEmpty, let path = try? look({ try $0.path(of: key) }) {
            heard(.gained, conflicts.map(\.version.id), path)
        }
    }

    /// Reports lost versions in the log, and in the status until the volume is opened again.
    private func tell(lost versions: [Version], of item: Item) {
        let path = (try? look { try $0.path(of: item.key) }) ?? [item.name]
        let numbers = versions.map { String($0.number) }.joined(separator: ", ")
        let message =
            "Version \(numbers) of \(path.shown) was replaced in the store's tree while the volume "
            + "was not mounted. Those contents are lost and were removed from its versions. "
            + "Changes through the mount are never lost that way."
        log.warning("\(message)")
        signal.change {
            // The log has all of them.
            if report.losses.count < 100 { report.losses["versions of \(item.key)"] = message }
        }
    }

    /// Cuts one document. Returns nil if there is nothing to commit, now or at all.
    private func record(_ key: Int64, syncs: Bool, _ places: inout [Digest: ChunkPlace])
        throws(VolumeError) -> Recording?
    {
        guard let work = state.pending[key] else { return nil }
        guard let item = try look({ try $0.item(key) }) else {
            state.pending[key] = nil
            return nil
        }
        do throws(VolumeError) {
            switch item.kind {
            case .package: return try recordPackage(item, work, syncs: syncs, &places)
            case .file: return try recordFile(item, work, syncs: syncs, &places)
            case .directory: return try recordPriorPackage(item, work, &places)
            case .symlink, .special:
                state.pending[key] = nil
                return nil
            }
        } catch {
            if error.code == .full { throw error }
            if error.code != .busy { tell("document \(key)", error.message) }
            postpone(key)
            return nil
        }
    }

    private func recordFile(
        _ item: Item, _ work: PendingDocument, syncs: Bool, _ places: inout [Digest: ChunkPlace]
    ) throws(VolumeError) -> Recording? {
        var recording = Recording(item: item, work: work)
        var live: LiveFile?
        var log: Name?
        if item.deleted == nil {
            switch try openLive(item, work, syncs: syncs) {
            case .found(let file):
                endFetching(of: item.key)
                // What a program has open would be stored in the packs too, because it may change
                // unseen. Nothing gives way for that.
                if file.isHeld, room.shortage(for: file.snapshot.size) > 0 {
                    guard defersLiveContents(item, work, &recording) else { return nil }
                } else {
                    live = file
                }
            case .logged(let found):
                tell(item, of: found)
                log = found
                guard defersLiveContents(item, work, &recording) else { return nil }
            case .gone: return notFound(item, work)
            case .absent(let found): try noteAbsent(found, in: &recording)
            case .destroyed(let snapshot):
                guard try LostContents(recorder: self).noteDestroyed(snapshot, in: &recording)
                else { return nil }
            case .lostEnd(let found):
                guard
                    try LostContents(recorder: self).noteLostEnd(
                        found.descriptor.raw, found.snapshot, in: &recording)
                else { return nil }
            case .busy:
                guard defersLiveContents(item, work, &recording) else { return nil }
            }
        }
        tell(item, of: log)
        guard fits(work, item.key) else {
            postpone(item.key)
            return nil
        }
        guard let priorContents = try openPriorContents(&recording, live) else {
            postpone(item.key)
            return nil
        }
        try addVersions(&recording, priorContents, live)
        try keepBytes(&recording, priorContents, live, &places)
        if let live, live.isHeld, status(live.descriptor.raw).differs(from: live.snapshot) {
            postpone(item.key)
            return nil
        }
        untell("document \(item.key)")
        if item.deleted != nil { endFetching(of: item.key) }
        return recording
    }

    /// Decides about a document that cannot be read now. Its prior contents wait to be compared
    /// with what replaces them, but not for ever. Returns false while they wait.
    private func defersLiveContents(
        _ item: Item, _ work: PendingDocument, _ recording: inout Recording
    ) -> Bool {
        let age = cl_clock_monotonic_ns() - work.since
        guard !work.priorContents.isEmpty, age > nanoseconds(settings.busySeconds) else {
            postpone(item.key)
            return false
        }
        recording.isLiveDeferred = true
        return true
    }

    private func tell(_ item: Item, of log: Name?) {
        guard let log else { return untell("log of \(item.key)") }
        tell(
            "log of \(item.key)",
            "\(item.name) is neither recorded nor replaced by other devices' changes, because its "
                + "database log \(log) holds changes that are not in it. To end this, open and "
                + "close it with the program that made it.")
    }

    /// The name shows something else: an event about that is still to come, or the tree was changed
    /// without the mount.
    private func notFound(_ item: Item, _ work: PendingDocument) -> Recording? {
        postpone(item.key)
        if work.attempts > 4, state.scan == nil {
            // Its prior contents stay; the scan finds out what became of the document.
            startScan()
        }
        return nil
    }

    /// Adds a version for each content that differs from the one before.
    private func addVersions(
        _ recording: inout Recording, _ priorContents: [CutPriorContent], _ live: LiveFile?
    ) throws(VolumeError) {
        let key = recording.item.key
        let isDeleted = recording.item.deleted != nil
        var current = try version(recording.item.current, of: recording.item)
        for cut in priorContents where !cut.prior.isBase {
            let prior = cut.prior
            let digest = cut.cut.digest
            let protection = Protection(of: cut.descriptor.raw)
            if prior.isUnseen, !isDeleted, digest != live?.cut.digest,
                try keepUnseen(cut, protection, current, &recording)
            {
                continue
            }
            if digest == current?.content {
                recording.protect(current, as: protection)
                continue
            }
            if prior.isRecovered || prior.isLate,
                try look({ try $0.hasVersion(of: key, content: digest) })
            {
                continue
            }
            let isConflict = (prior.isSuperseded || prior.isLate) && !isDeleted
            let base = try version(prior.base, of: recording.item) ?? current
            let save =
                prior.save ?? prior.entry.map {
                    PendingDocument.Save(actor: $0.actor, time: $0.saved)
                }
                ?? PendingDocument.Save(actor: nobody, time: cut.snapshot.modified)
            let version = append(
                cut.cut, to: &recording, snapshot: cut.snapshot, protection, save: save,
                kind: isConflict ? .conflict : .current, after: isConflict ? base : current)
            if !isConflict { current = version }
        }
        for index in recording.rest.indices where !recording.rest[index].isLate {
            if !recording.rest[index].isUnseen { recording.rest[index].base = current?.id }
            recording.rest[index].isLate = true
        }
        if let live { current = addVersions(&recording, live, after: current) }
        recording.item.current = current?.id
    }

    /// Makes a conflict version of contents that were replaced by a program that had not seen them.
    /// If they are the current version already, a second version with the same contents is made,
    /// because the hub may have been told of the first. Returns false if they had been seen.
    private func keepUnseen(
        _ cut: CutPriorContent, _ protection: Protection, _ current: Version?,
        _ recording: inout Recording
    ) throws(VolumeError) -> Bool {
        var base = try version(cut.prior.base, of: recording.item)
        guard cut.cut.digest != base?.content else { return false }
        guard let current, current.content == cut.cut.digest else {
            let save =
                cut.prior.save ?? cut.prior.entry.map {
                    PendingDocument.Save(actor: $0.actor, time: $0.saved)
                }
                ?? PendingDocument.Save(actor: nobody, time: cut.snapshot.modified)
            let version = append(
                cut.cut, to: &recording, snapshot: cut.snapshot, protection, save: save,
                kind: .conflict, after: base ?? current)
            if cut.prior.mergesOnlyManually { recording.apart.append(version.id) }
            return true
        }
        if base == nil { base = try version(current.parents.first, of: recording.item) }
        recording.item.latest += 1
        var copy = current
        (copy.id, copy.number) = (.random(), recording.item.latest)
        (copy.kind, copy.durability, copy.label) = (.conflict, .disk, nil)
        copy.parents = base.map { [$0.id] } ?? []
        copy.protection = protection
        recording.versions.append((copy, cut.cut.manifest.encoded))
        if cut.prior.mergesOnlyManually { recording.apart.append(copy.id) }
        return true
    }

    /// Reads one version without reading the whole history, which is long where a program saves
    /// every second.
    func version(_ id: Identifier?, of item: Item) throws(VolumeError) -> Version? {
        guard let id, let found = try look({ try $0.version(id: id) }), found.item == item.key
        else { return nil }
        return found.version
    }

    private func addVersions(
        _ recording: inout Recording, _ live: LiveFile, after current: Version?
    )
        -> Version?
    {
        recording.item.size = UInt64(live.snapshot.size)
        recording.item.modified = live.snapshot.modified
        recording.item.changed = max(1, live.snapshot.changed)
        recording.item.note(AttributeList(of: live.descriptor.raw), live.snapshot)
        if let path = try? look({ try $0.path(of: recording.item.key) }) {
            owners.note(live.descriptor.raw, at: path, on: &recording.item)
        }
        if recording.work.priorContents.contains(where: hasOverwritten) {
            recording.item.inPlace += 1
        }
        let protection = Protection(of: live.descriptor.raw)
        if live.cut.digest == current?.content {
            recording.protect(current, as: protection)
            return current
        }
        // A new empty file gets no version: usually a program is about to fill it.
        if current == nil, live.snapshot.size == 0 { return nil }
        let save =
            recording.work.save ?? recording.work.author
            ?? PendingDocument.Save(
                actor: Actor(process: 0, uid: live.owner, program: ""), time: live.snapshot.modified
            )
        return append(
            live.cut, to: &recording, snapshot: live.snapshot, protection, save: save,
            kind: .current,
            after: current)
    }

    func append(
        _ cut: CutContent, to recording: inout Recording, snapshot: FileSnapshot,
        _ protection: Protection,
        save: PendingDocument.Save, kind: Version.Kind, after current: Version?
    ) -> Version {
        recording.item.latest += 1
        let version = Version(
            number: recording.item.latest, parents: current.map { [$0.id] } ?? [], kind: kind,
            device: device.id, deviceName: device.name, person: person(save.actor.uid),
            program: save.actor.program, session: save.actor.session,
            name: recording.item.name, size: cut.manifest.size,
            modified: snapshot.modified, saved: save.time, content: cut.digest,
            protection: protection)
        if kind == .current, let current {
            if let index = recording.versions.firstIndex(where: { $0.version.id == current.id }) {
                recording.versions[index].version.kind = .history
            } else {
                recording.outdated.append(current.id)
            }
        }
        recording.versions.append((version, cut.manifest.encoded))
        return version
    }

    /// Records the document later: after a moment, then after twice that, at most after a minute.
    func postpone(_ key: Int64) {
        guard var work = state.pending[key] else { return }
        work.attempts += 1
        let seconds = min(60, settings.postponeSeconds * Double(1 << min(work.attempts - 1, 10)))
        work.due = cl_clock_monotonic_ns() + nanoseconds(seconds)
        state.pending[key] = work
    }

    private var nobody: Actor { Actor(process: 0, uid: 0, program: "") }

    func person(_ uid: UInt32) -> String {
        if let account = device.account { return account }
        if let known = people[uid] { return known }
        let name = Volume.person(uid)
        people[uid] = name
        return name
    }
}
