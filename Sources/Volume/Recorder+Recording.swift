import CLinux
import ChunkStore
import Glibc
import Journal
import Logging
import Model
import SystemCalls

/// What one document's recording commits.
struct Recording {
    var item: Item
    var versions: [(version: Version, manifest: [UInt8])] = []
    /// How versions were protected that the journal has.
    var protections: [Identifier: Protection] = [:]
    /// Versions that are no longer current.
    var outdated: [Identifier] = []
    /// Conflict versions that only a person merges.
    var apart: [Identifier] = []
    /// Versions whose bytes were overwritten while nobody watched.
    var lost: [Version] = []
    /// The work as it was when it was begun.
    var work: Work
    /// Contents that programs still write: for later.
    var rest: [Former] = []
    var isLiveLeft = false
    /// What the tree has is a placeholder of the current version.
    var absent: AbsentLive?
    var keptTrace: Trace?
    /// What a person should know once this is committed: before, a change of the meantime may be
    /// behind it.
    var problem: String?
}

extension Recording {
    /// The current version is protected as the document is for as long as it is current: what was
    /// made private before it was replaced stays so.
    mutating func protect(_ current: Version?, as protection: Protection) {
        guard let current else { return }
        if let index = versions.firstIndex(where: { $0.version.id == current.id }) {
            versions[index].version.protection = protection
        } else if protections[current.id] ?? current.protection != protection {
            protections[current.id] = protection
        }
    }
}

// Recording: contents that lie in the stash and in the tree become versions, oldest first; then
// those bytes of older ones that are nowhere else go to the chunk store; then one transaction says
// so; then the stash files go.
extension Recorder {
    /// How many of the documents, from the first on, were looked at: 0 when it must wait.
    @discardableResult
    func record(_ keys: [Int64]) -> Int {
        guard !isRecordingPaused else { return 0 }
        var count = 0
        do {
            // All that a disk has to write takes longer than there is time at the end.
            let syncsEach = keys.count <= 8 || isParting
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
                    // What was given up may look like what is not there.
                    if let recording, !isOverdue { recordings.append(recording) }
                    // Large documents are not waited for by those before them; the others are
                    // due still.
                    if cl_clock_monotonic_ns() - started > 500_000_000 { break }
                }
            }
            guard !recordings.isEmpty else { return count }
            if !places.isEmpty { try packs.sync() }
            // From now on a program that overwrites them syncs them first.
            unrecorded.beginEra()
            // What happened while the contents were read: their order among the versions depends on
            // it.
            if events.waiting.count > 0 {
                backlog += events.takeAll()
                applyBacklog()
                guard !isPaused, memory.scan == nil else { return 0 }
            }
            let current = recordings.filter {
                memory.works[$0.item.key]?.revision == $0.work.revision
            }
            try commit(current, places)
            for recording in current { told(recording) }
            removeDoomed()
            untell("recording")
        } catch {
            // Nothing was taken away: it is tried again when there is space.
            packsHoldWaste = true
            tell("recording", "Versions cannot be recorded now: \(error) It is tried again.")
            pause(\.recordingPausedUntil, seconds: settings.retrySeconds)
        }
        return count
    }

    /// Reads the journal, as it was when the batch began: a snapshot for every look would cost more
    /// than the look.
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

    /// Brings all of the tree to the disk; what is recorded is there first.
    func syncTree() throws(VolumeError) {
        do throws(Errno) {
            // Not on an O_PATH descriptor, as the tree's is.
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
        for id in recording.outdated { try t.setKind(id, .history) }
        for (id, protection) in recording.protections {
            try t.setProtection(of: id, protection)
        }
        // The hub has the bytes of what waits in the outbox, which is sent by the version's row.
        if !recording.lost.isEmpty, try !t.isInOutbox(item.id) {
            for version in recording.lost { try t.remove(version: version.id) }
        }
        for (version, manifest) in recording.versions {
            try t.insert(version, of: item.key, manifest: manifest)
        }
        if !recording.apart.isEmpty { try ApartVersions.add(recording.apart, t) }
        if item.deleted != nil, item.current == nil, recording.rest.isEmpty,
            recording.versions.isEmpty, try t.versions(of: item.key).isEmpty,
            try !isParent(item, t), try mayLoseRow(item, t)
        {
            // Nothing was worth keeping.
            try t.removeRow(item.key)
            return
        }
        try t.update(item)
        try commitAbsence(recording, t)
    }

    /// Whether nobody has to be told of a deleted item any more.
    private func mayLoseRow(_ item: Item, _ t: Reader) throws -> Bool {
        if try !t.isKnownToHub(item) { return true }
        return try RemovalCheck(item, [], t).mayLoseRow
    }

    private func finish(_ recording: Recording) {
        let key = recording.item.key
        if recording.rest.isEmpty, !recording.isLiveLeft {
            memory.works[key] = nil
        } else {
            memory.works[key]?.formers = recording.rest
            if !recording.isLiveLeft { memory.works[key]?.save = nil }
            postpone(key)
        }
    }

    /// What follows from a recording that is in the journal.
    private func told(_ recording: Recording) {
        let key = recording.item.key
        if !recording.lost.isEmpty { tell(lost: recording.lost, of: recording.item) }
        if let problem = recording.problem { tell("bytes of \(key)", problem) }
        if let trace = recording.keptTrace { kept.set(trace) }
        let conflicts = recording.versions.filter { $0.version.kind == .conflict }
        if !conflicts.isEmpty, let path = try? look({ try $0.path(of: key) }) {
            heard(.gained, conflicts.map(\.version.id), path)
        }
    }

    /// Said in the log, and in the status until the volume is opened again.
    private func tell(lost versions: [Version], of item: Item) {
        let path = (try? look { try $0.path(of: item.key) }) ?? [item.name]
        let numbers = versions.map { String($0.number) }.joined(separator: ", ")
        let message =
            "Version \(numbers) of \(path.shown) was replaced in the store's tree while the volume "
            + "was not mounted: those contents are nowhere any more, and no longer among its "
            + "versions. Through the mount nothing is lost that way."
        log.warning("\(message)")
        signal.change {
            // The log has them all.
            if report.losses.count < 100 { report.losses["versions of \(item.key)"] = message }
        }
    }

    /// Cuts one document. Nil when there is nothing to commit, or not yet.
    private func record(_ key: Int64, syncs: Bool, _ places: inout [Digest: ChunkPlace])
        throws(VolumeError) -> Recording?
    {
        guard let work = memory.works[key] else { return nil }
        guard let item = try look({ try $0.item(key) }) else {
            memory.works[key] = nil
            return nil
        }
        do throws(VolumeError) {
            switch item.kind {
            case .package: return try recordPackage(item, work, syncs: syncs, &places)
            case .file: return try recordFile(item, work, syncs: syncs, &places)
            case .directory: return try recordFormerPackage(item, work, &places)
            case .symlink, .special:
                memory.works[key] = nil
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
        _ item: Item, _ work: Work, syncs: Bool, _ places: inout [Digest: ChunkPlace]
    ) throws(VolumeError) -> Recording? {
        var recording = Recording(item: item, work: work)
        var live: LiveFile?
        var log: Name?
        if item.deleted == nil {
            switch try openLive(item, work, syncs: syncs) {
            case .found(let file):
                live = file
                endFetching(of: item.key)
            case .logged(let found):
                tell(item, of: found)
                log = found
                guard leavesLive(item, work, &recording) else { return nil }
            case .gone: return notFound(item, work)
            case .absent(let found): noteAbsent(found, in: &recording)
            case .destroyed(let trace):
                guard try noteDestroyed(trace, in: &recording) else { return nil }
            case .busy:
                guard leavesLive(item, work, &recording) else { return nil }
            }
        }
        tell(item, of: log)
        guard fits(work, item.key) else {
            postpone(item.key)
            return nil
        }
        guard let formers = try openFormers(&recording, live) else {
            postpone(item.key)
            return nil
        }
        try chain(&recording, formers, live)
        try keepBytes(&recording, formers, live, &places)
        if let live, live.isHeld, status(live.descriptor.raw).differs(from: live.trace) {
            postpone(item.key)
            return nil
        }
        untell("document \(item.key)")
        if item.deleted != nil { endFetching(of: item.key) }
        return recording
    }

    /// The bytes moved aside wait for what replaces them, to be compared; but not for ever. False:
    /// they wait still.
    private func leavesLive(_ item: Item, _ work: Work, _ recording: inout Recording) -> Bool {
        let age = cl_clock_monotonic_ns() - work.since
        guard !work.formers.isEmpty, age > nanoseconds(settings.busySeconds) else {
            postpone(item.key)
            return false
        }
        recording.isLiveLeft = true
        return true
    }

    private func tell(_ item: Item, of log: Name?) {
        guard let log else { return untell("log of \(item.key)") }
        tell(
            "log of \(item.key)",
            "\(item.name) is neither recorded nor replaced by other devices' changes: its database "
                + "log \(log) holds changes that are not in it. Opening and closing it with the "
                + "program that made it ends that.")
    }

    /// The name shows something else: an event about that is on its way, or the tree was changed
    /// behind our back.
    private func notFound(_ item: Item, _ work: Work) -> Recording? {
        postpone(item.key)
        if work.attempts > 4, memory.scan == nil {
            // Its formers stay: the scan finds out what became of it.
            startScan()
        }
        return nil
    }

    /// Adds a version for each content that differs from the one before.
    private func chain(
        _ recording: inout Recording, _ formers: [CutFormer], _ live: LiveFile?
    ) throws(VolumeError) {
        let key = recording.item.key
        let isDeleted = recording.item.deleted != nil
        var current = try version(recording.item.current, of: recording.item)
        for cut in formers where !cut.former.isBase {
            let former = cut.former
            let digest = cut.cut.digest
            let protection = Protection(of: cut.descriptor.raw)
            if former.isUnseen, !isDeleted, digest != live?.cut.digest,
                try keepUnseen(cut, protection, current, &recording)
            {
                continue
            }
            if digest == current?.content {
                recording.protect(current, as: protection)
                continue
            }
            if former.isRecovered || former.isLate,
                try look({ try $0.hasVersion(of: key, content: digest) })
            {
                continue
            }
            let isConflict = (former.isSuperseded || former.isLate) && !isDeleted
            let base = try version(former.base, of: recording.item) ?? current
            let save =
                former.save ?? former.entry.map { Work.Save(actor: $0.actor, time: $0.saved) }
                ?? Work.Save(actor: nobody, time: cut.trace.modified)
            let version = append(
                cut.cut, to: &recording, trace: cut.trace, protection, save: save,
                kind: isConflict ? .conflict : .current, after: isConflict ? base : current)
            if !isConflict { current = version }
        }
        for index in recording.rest.indices where !recording.rest[index].isLate {
            if !recording.rest[index].isUnseen { recording.rest[index].base = current?.id }
            recording.rest[index].isLate = true
        }
        if let live { current = chain(&recording, live, after: current) }
        recording.item.current = current?.id
    }

    /// Contents that were replaced by who had not seen them become a conflict version. Where they
    /// are a version already, as which they were current, they become another one: that one is
    /// part of what the hub may have been told. False: they had been seen.
    private func keepUnseen(
        _ cut: CutFormer, _ protection: Protection, _ current: Version?,
        _ recording: inout Recording
    ) throws(VolumeError) -> Bool {
        var base = try version(cut.former.base, of: recording.item)
        guard cut.cut.digest != base?.content else { return false }
        guard let current, current.content == cut.cut.digest else {
            let save =
                cut.former.save ?? cut.former.entry.map {
                    Work.Save(actor: $0.actor, time: $0.saved)
                }
                ?? Work.Save(actor: nobody, time: cut.trace.modified)
            let version = append(
                cut.cut, to: &recording, trace: cut.trace, protection, save: save,
                kind: .conflict, after: base ?? current)
            if cut.former.isApart { recording.apart.append(version.id) }
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
        if cut.former.isApart { recording.apart.append(copy.id) }
        return true
    }

    /// Not out of its whole history, which is long where a program saves every second.
    func version(_ id: Identifier?, of item: Item) throws(VolumeError) -> Version? {
        guard let id, let found = try look({ try $0.version(id: id) }), found.item == item.key
        else { return nil }
        return found.version
    }

    private func chain(_ recording: inout Recording, _ live: LiveFile, after current: Version?)
        -> Version?
    {
        recording.item.size = UInt64(live.trace.size)
        recording.item.modified = live.trace.modified
        recording.item.changed = max(1, live.trace.changed)
        note(
            attributes: attributes(of: live.descriptor.raw), live.trace, on: &recording.item)
        if recording.work.formers.contains(where: hasOverwritten) {
            recording.item.inPlace += 1
        }
        let protection = Protection(of: live.descriptor.raw)
        if live.cut.digest == current?.content {
            recording.protect(current, as: protection)
            return current
        }
        // A new file without a byte is not worth a version: it is nothing, or about to become
        // something.
        if current == nil, live.trace.size == 0 { return nil }
        let save =
            recording.work.save ?? recording.work.author
            ?? Work.Save(
                actor: Actor(process: 0, uid: live.owner, program: ""), time: live.trace.modified)
        return append(
            live.cut, to: &recording, trace: live.trace, protection, save: save, kind: .current,
            after: current)
    }

    func append(
        _ cut: CutContent, to recording: inout Recording, trace: Trace, _ protection: Protection,
        save: Work.Save, kind: Version.Kind, after current: Version?
    ) -> Version {
        recording.item.latest += 1
        let version = Version(
            number: recording.item.latest, parents: current.map { [$0.id] } ?? [], kind: kind,
            device: device.id, deviceName: device.name, person: person(save.actor.uid),
            program: save.actor.program, name: recording.item.name, size: cut.manifest.size,
            modified: trace.modified, saved: save.time, content: cut.digest, protection: protection)
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

    /// Looks again later: after a moment, then after twice that, at most after a minute.
    func postpone(_ key: Int64) {
        guard var work = memory.works[key] else { return }
        work.attempts += 1
        let seconds = min(60, settings.postponeSeconds * Double(1 << min(work.attempts - 1, 10)))
        work.due = cl_clock_monotonic_ns() + nanoseconds(seconds)
        memory.works[key] = work
    }

    private var nobody: Actor { Actor(process: 0, uid: 0, program: "") }

    func person(_ uid: UInt32) -> String {
        if let known = people[uid] { return known }
        let name = Volume.person(uid)
        people[uid] = name
        return name
    }
}
