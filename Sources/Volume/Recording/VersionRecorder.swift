import CLinux
import ChunkStore
import Glibc
import Journal
import Logging
import Model
import SystemCalls

/// Recording: contents in the stash and in the tree become versions, oldest first. Then the bytes
/// of older versions that exist nowhere else go to the chunk store, then one transaction commits
/// the versions, and then the stash files are removed.
///
/// Only the recorder's thread uses it.
struct VersionRecorder {
    let writer: JournalWriter
    let settings: Settings
    let packs: PackStore
    let room: Room
    let space: SpaceMaker
    let owners: TreeOwners
    let kept: KeptContents
    let unrecorded: UnrecordedContents
    let contents: ContentReader
    let chunks: ChunkKeeper
    let packages: PackageRecorder
    let lost: LostContents
    let placeholders: PlaceholderFetching
    let versions: VersionMaker
    let pauses: WorkPauses
    let closing: ClosingTime
    let reports: RecorderReports
    let log: Logger
    let notShown: CallbackSlot<@Sendable (Int64) -> Void>
    let versionsHeard: CallbackSlot<@Sendable (VersionChange, [Identifier], [Name]) -> Void>

    /// Records documents. Returns how many of them, from the first on, were handled; 0 if it must
    /// wait.
    @discardableResult
    func record(_ keys: [Int64], processNews: () -> Bool) -> Int {
        guard !pauses.isRecordingPaused else { return 0 }
        var count = 0
        do {
            let syncsEach = keys.count <= 8
            var recordings: [Recording] = []
            var places: [Digest: ChunkLocation] = [:]
            let started = cl_clock_monotonic_ns()
            try writer.readBatch { () throws(VolumeError) in
                defer { contents.endBatch() }
                for key in keys where !closing.isOverdue {
                    count += 1
                    let recording = try record(key, syncs: syncsEach, &places)
                    // A recording that was given up may look as if contents were missing.
                    if let recording, !closing.isOverdue { recordings.append(recording) }
                    // The documents so far are committed before large ones follow; the remaining
                    // ones stay due.
                    if cl_clock_monotonic_ns() - started > 500_000_000 { break }
                }
            }
            guard !recordings.isEmpty else { return count }
            try contents.commitWritten()
            if !places.isEmpty { try packs.sync() }
            // From now on, copies of these contents are synced before a program overwrites them.
            unrecorded.beginEra()
            // Processes events that came while the contents were read, because the order of the
            // versions depends on them.
            guard processNews() else { return 0 }
            let current = recordings.filter {
                writer.state.pending[$0.item.key]?.revision == $0.work.revision
            }
            try commit(current, places)
            for recording in current { told(recording) }
            writer.removeUnneededStashFiles()
            reports.untell("recording")
        } catch {
            // Nothing was removed; recording is tried again when there is space.
            space.packsMayHoldWaste()
            reports.tell(
                "recording", "Versions cannot be recorded now: \(error) This will be tried again.")
            pauses.pause(.recording, seconds: settings.retrySeconds)
        }
        return count
    }

    private func commit(_ recordings: [Recording], _ places: [Digest: ChunkLocation])
        throws(VolumeError)
    {
        guard !recordings.isEmpty || !places.isEmpty else { return }
        try writer.transact { t in
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
        for id in recording.conflicts { try t.setKind(id, .conflict) }
        for (id, protection) in recording.protections {
            try t.setProtection(of: id, protection)
        }
        // A version in the outbox is sent from its row, and the hub has its bytes, so the row is
        // kept.
        if !recording.lost.isEmpty, try !t.hub.isInOutbox(item.id) {
            for version in recording.lost { try t.remove(version: version.id) }
        }
        for (version, manifest) in recording.versions {
            try t.insert(version, of: item.key, manifest: manifest)
        }
        if !recording.apart.isEmpty { try ManualMergeVersions.add(recording.apart, t) }
        try RecordingObstacle.set(recording.obstacle, for: item.key, t)
        if item.deleted != nil, item.current == nil, recording.rest.isEmpty,
            recording.versions.isEmpty, try t.versions(of: item.key).isEmpty,
            try !t.isParent(item), try mayRemoveRow(item, t)
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
            writer.state.pending[key] = nil
            writer.state.movedParts[key] = nil
            writer.state.unfinished.endRecording(of: key)
        } else {
            writer.state.pending[key]?.priorContents = recording.rest
            if !recording.isLiveDeferred { writer.state.pending[key]?.save = nil }
            writer.state.pending.postpone(
                key, because: recording.isLiveDeferred ? .isWritten : .isPartlyRecorded)
        }
    }

    /// Reports a recording that was committed.
    private func told(_ recording: Recording) {
        let key = recording.item.key
        if !recording.lost.isEmpty { tell(lost: recording.lost, of: recording.item) }
        if let problem = recording.problem { reports.tell("bytes of \(key)", problem) }
        if let obstacle = recording.obstacle {
            reports.tell(
                VersionRecorder.obstacleProblem + "\(key)", of: key,
                at: writer.shown(recording.item), obstacle)
        } else {
            reports.untell(VersionRecorder.obstacleProblem + "\(key)")
        }
        if let snapshot = recording.keptTrace { kept.set(snapshot) }
        let new = recording.versions.filter { $0.version.kind == .conflict }.map(\.version.id)
        let conflicts = new + recording.conflicts
        if !conflicts.isEmpty, let path = try? writer.look({ try $0.path(of: key) }) {
            versionsHeard.current?(.gained, conflicts, path)
        }
    }

    /// Reports lost versions in the log, and in the status until the volume is opened again.
    private func tell(lost versions: [Version], of item: Item) {
        let path = (try? writer.look { try $0.path(of: item.key) }) ?? [item.name]
        let numbers = versions.map { String($0.number) }.joined(separator: ", ")
        let message =
            "Version \(numbers) of \(path.shown) was replaced in the store's tree while the volume "
            + "was not mounted. Those contents are lost and were removed from its versions. "
            + "Changes through the mount are never lost that way."
        log.warning("\(message)")
        reports.change {
            // The log has all of them.
            if $0.losses.count < 100 { $0.losses["versions of \(item.key)"] = message }
        }
    }

    /// Cuts one document. Returns nil if there is nothing to commit, now or at all.
    private func record(_ key: Int64, syncs: Bool, _ places: inout [Digest: ChunkLocation])
        throws(VolumeError) -> Recording?
    {
        guard let work = writer.state.pending[key] else { return nil }
        guard let item = try writer.look({ try $0.item(key) }) else {
            writer.state.pending[key] = nil
            return nil
        }
        do throws(VolumeError) {
            switch item.kind {
            case .package: return try packages.recordPackage(item, work, &places)
            case .file: return try recordFile(item, work, syncs: syncs, &places)
            case .directory: return try packages.recordPriorPackage(item, work, &places)
            case .symlink, .special:
                writer.state.pending[key] = nil
                return nil
            }
        } catch {
            if error.code == .full { throw error }
            if error.code != .busy { reports.tell("document \(key)", error.message) }
            writer.state.pending.postpone(key, because: error.code == .busy ? .isWritten : .failed)
            return nil
        }
    }

    private func recordFile(
        _ item: Item, _ work: PendingDocument, syncs: Bool, _ places: inout [Digest: ChunkLocation]
    ) throws(VolumeError) -> Recording? {
        var recording = Recording(item: item, work: work)
        var live: LiveFile?
        var log: Name?
        if item.deleted == nil {
            switch try contents.openLive(item, work, syncs: syncs) {
            case .found(let file):
                placeholders.endFetching(of: item.key)
                // What a program has open would be stored in the packs too, because it may change
                // unseen. Nothing gives way for that.
                if file.isHeld, room.shortage(for: file.snapshot.size) > 0 {
                    guard defersLiveContents(item, work, &recording, because: .isWritten) else {
                        return nil
                    }
                } else {
                    live = file
                }
            case .logged(let found):
                tell(item, of: found)
                log = found
                guard defersLiveContents(item, work, &recording, because: .hasDatabaseLog) else {
                    return nil
                }
            case .gone: return notFound(item, work)
            case .absent(let found): try noteAbsent(found, in: &recording)
            case .destroyed(let snapshot):
                guard try lost.noteDestroyed(snapshot, in: &recording)
                else { return nil }
            case .lostEnd(let found):
                guard
                    try lost.noteLostEnd(
                        found.descriptor.raw, found.snapshot, in: &recording)
                else { return nil }
            case .busy:
                guard defersLiveContents(item, work, &recording, because: .isWritten) else {
                    return nil
                }
            }
        }
        tell(item, of: log)
        guard space.fits(work, item.key) else {
            writer.state.pending.postpone(item.key, because: .lacksSpace)
            return nil
        }
        guard let priorContents = try contents.openPriorContents(&recording, live) else {
            writer.state.pending.postpone(item.key, because: .isReplaced)
            return nil
        }
        try addVersions(&recording, priorContents, live)
        try chunks.keepBytes(&recording, priorContents, live, &places)
        if let live, live.isHeld, FileSnapshot(of: live.descriptor.raw).differs(from: live.snapshot)
        {
            writer.state.pending.postpone(item.key, because: .isWritten)
            return nil
        }
        reports.untell("document \(item.key)")
        if item.deleted != nil { placeholders.endFetching(of: item.key) }
        return recording
    }

    /// Decides about a document that cannot be read now. Its prior contents wait to be compared
    /// with what replaces them, but not for ever. Returns false while they wait.
    private func defersLiveContents(
        _ item: Item, _ work: PendingDocument, _ recording: inout Recording,
        because reason: WaitReason
    ) -> Bool {
        let age = cl_clock_monotonic_ns() - work.since
        let hasWaited = work.isAwaited || age > Timestamp.span(seconds: settings.busySeconds)
        guard !work.priorContents.isEmpty, hasWaited else {
            writer.state.pending.postpone(item.key, because: reason)
            return false
        }
        recording.isLiveDeferred = true
        return true
    }

    /// The subject of a problem with a document's database log, followed by the document's key.
    static let logProblem = "log of "
    /// The same of a problem with the contents that the document has now.
    static let obstacleProblem = "version of "

    private func tell(_ item: Item, of log: Name?) {
        let subject = VersionRecorder.logProblem + "\(item.key)"
        guard let log else { return reports.untell(subject) }
        reports.tell(
            subject, of: item.key, at: writer.shown(item),
            "is neither recorded nor replaced by other devices' changes, because its database log "
                + "\(log) holds changes that are not in it. To end this, open and close it with "
                + "the program that made it.")
    }

    /// The name shows something else: an event about that is still to come, or the tree was changed
    /// without the mount.
    private func notFound(_ item: Item, _ work: PendingDocument) -> Recording? {
        writer.state.pending.postpone(item.key, because: .isNotFound)
        if work.attempts > 4, writer.state.scan == nil {
            // Its prior contents stay; the scan finds out what became of the document.
            writer.startScan()
        }
        return nil
    }

    /// Adds a version for each content that differs from the one before.
    private func addVersions(
        _ recording: inout Recording, _ priorContents: [CutPriorContent], _ live: LiveFile?
    ) throws(VolumeError) {
        let key = recording.item.key
        let isDeleted = recording.item.deleted != nil
        var current = try writer.version(recording.item.current, of: recording.item)
        for cut in priorContents where !cut.prior.isBase {
            let prior = cut.prior
            let digest = cut.cut.digest
            let protection = Protection(of: cut.descriptor.raw)
            if prior.isUnseen, !isDeleted, digest != live?.cut.digest,
                try keepUnseen(cut, protection, current, live, &recording)
            {
                continue
            }
            if digest == current?.content {
                recording.protect(current, as: protection)
                continue
            }
            if prior.isRecovered || prior.isLate,
                try writer.look({ try $0.hasVersion(of: key, content: digest) })
            {
                continue
            }
            let isConflict = (prior.isSuperseded || prior.isLate) && !isDeleted
            let base = try writer.version(prior.base, of: recording.item) ?? current
            let version = versions.append(
                cut.cut, to: &recording, snapshot: cut.snapshot, protection, save: save(of: cut),
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
    /// If the current version has these contents, it becomes the conflict version when the next
    /// current version is made. In two cases a copy of it becomes the conflict version instead: if
    /// the document's new contents cannot be recorded yet, and if only a person may merge the two.
    /// Another device may have made the current version, and would merge it by itself, because only
    /// this device knows that it must not. Returns false if the contents had been seen.
    private func keepUnseen(
        _ cut: CutPriorContent, _ protection: Protection, _ current: Version?, _ live: LiveFile?,
        _ recording: inout Recording
    ) throws(VolumeError) -> Bool {
        var base = try writer.version(cut.prior.base, of: recording.item)
        guard cut.cut.digest != base?.content else { return false }
        let conflict: Identifier
        if let current, current.content == cut.cut.digest {
            if base == nil {
                base = try writer.version(current.parents.first, of: recording.item)
            }
            if let live, !live.isUnfinished, !cut.prior.mergesOnlyManually {
                conflict = current.id
                recording.unseen = (conflict, base)
                recording.protect(current, as: protection)
            } else {
                conflict = versions.append(
                    conflict: current, cut.cut, to: &recording, protection, after: base)
            }
        } else {
            conflict =
                versions.append(
                    cut.cut, to: &recording, snapshot: cut.snapshot, protection,
                    save: save(of: cut), kind: .conflict, after: base ?? current
                ).id
        }
        if cut.prior.mergesOnlyManually { recording.apart.append(conflict) }
        return true
    }

    private func save(of cut: CutPriorContent) -> PendingDocument.Save {
        cut.prior.save ?? cut.prior.entry.map {
            PendingDocument.Save(actor: $0.actor, time: $0.saved)
        }
            ?? PendingDocument.Save(actor: nobody, time: cut.snapshot.modified)
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
        if let path = try? writer.look({ try $0.path(of: recording.item.key) }) {
            owners.note(live.descriptor.raw, at: path, on: &recording.item)
        }
        if recording.work.priorContents.contains(where: contents.hasOverwritten) {
            recording.item.inPlace += 1
        }
        if live.isUnfinished {
            recording.obstacle = LostContents.unfinished
            return current
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
        return versions.append(
            live.cut, to: &recording, snapshot: live.snapshot, protection, save: save,
            kind: .current,
            after: current)
    }

    private var nobody: Actor { Actor(process: 0, uid: 0, program: "") }

    // MARK: Placeholders. They are neither cut nor moved aside, and filling them is no change.

    /// Notes that the document is a placeholder of its current version. If the mark names another
    /// document, because the inode was linked or moved, this document has no version of its own
    /// until the bytes have been fetched. If it names another version, a change from the hub was in
    /// the tree before a crash and not in the journal: the document shows its last version again,
    /// and the change arrives once more. A mark that cannot be read is treated in the same way.
    func noteAbsent(_ found: LivePlaceholder, in recording: inout Recording) throws(VolumeError) {
        guard found.mark.item == recording.item.id, found.mark.version == recording.item.current
        else {
            recording.isLiveDeferred = true
            if found.mark.item != recording.item.id, !found.mark.isUnknown {
                if PlantedFault.movesPlaceholders.isPlanted { return }
                placeholders.fetch(found.descriptor.raw, of: recording.item)
            } else if recording.work.priorContents.isEmpty,
                try lost.canShowLastVersion(recording.item)
            {
                notShown.current?(recording.item.key)
            }
            return
        }
        recording.absent = found
        recording.item.size = UInt64(max(0, found.snapshot.size))
        recording.item.modified = found.snapshot.modified
        recording.item.changed = max(1, found.snapshot.changed)
    }

    func commitAbsence(_ recording: Recording, _ t: Transaction) throws {
        let key = recording.item.key
        if let absent = recording.absent {
            // If the file becomes complete from here on, that is noted after this transaction.
            guard absent.isStill else { return }
            try t.setAbsent(key, version: absent.mark.version)
        } else if !recording.isLiveDeferred {
            try t.removeAbsent(key)
        }
    }
}
