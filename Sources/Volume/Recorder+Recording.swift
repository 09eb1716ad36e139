import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// What one document's recording commits.
struct Recording {
    var item: Item
    var versions: [(version: Version, manifest: [UInt8])] = []
    /// Versions that are no longer current.
    var outdated: [Identifier] = []
    var finished: Work
    var keptTrace: Trace?
}

// Recording: contents that lie in the stash and in the tree become versions, oldest first; then those bytes of older
// ones that are nowhere else go to the chunk store; then one transaction says so; then the stash files go.
extension Recorder {
    func record(_ keys: [Int64]) {
        do {
            if keys.count > 8 { _ = cl_syncfs(tree) }
            var recordings: [Recording] = []
            var places: [Digest: ChunkPlace] = [:]
            for key in keys {
                if let recording = try record(key, syncs: keys.count <= 8, &places) {
                    recordings.append(recording)
                }
            }
            guard !recordings.isEmpty else { return }
            if !places.isEmpty { try packs.sync() }
            try commit(recordings, places)
            for recording in recordings { finish(recording) }
            untell("recording")
        } catch {
            // Nothing was taken away: it is tried again when there is space.
            tell("recording", "Versions cannot be recorded now: \(error) Tried again in 10 seconds.")
            pausedUntil = cl_clock_monotonic_ns() + nanoseconds(10)
        }
    }

    private func commit(_ recordings: [Recording], _ places: [Digest: ChunkPlace])
        throws(VolumeError)
    {
        try journal.write { t in
            for (digest, place) in places { try t.setPlace(digest, place) }
            for recording in recordings {
                for id in recording.outdated { try t.setKind(id, .history) }
                for (version, manifest) in recording.versions {
                    try t.insert(version, of: recording.item.key, manifest: manifest)
                }
                guard try t.item(recording.item.key) != nil else { continue }
                try t.update(recording.item)
            }
        }
    }

    private func finish(_ recording: Recording) {
        let key = recording.item.key
        let done = recording.finished
        for entry in done.stashes { drop(entry.file) }
        for inode in done.sources where heirs[inode] == key { heirs[inode] = nil }
        works[key] = nil
        if let trace = recording.keptTrace { kept.set(trace) }
    }

    /// Cuts one document. Nil when there is nothing to commit, or not yet.
    private func record(_ key: Int64, syncs: Bool, _ places: inout [Digest: ChunkPlace])
        throws(VolumeError) -> Recording?
    {
        guard let work = works[key] else { return nil }
        guard let item = try journal.read({ try $0.item(key) }) else {
            for entry in work.stashes { drop(entry.file) }
            works[key] = nil
            return nil
        }
        do throws(VolumeError) {
            if item.kind == .package {
                return try recordPackage(item, work, syncs: syncs, &places)
            }
            guard item.kind == .file else {
                works[key] = nil
                return nil
            }
            return try recordFile(item, work, syncs: syncs, &places)
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
        var live: LiveFile?
        if item.deleted == nil {
            switch try openLive(item, work, syncs: syncs) {
            case .found(let file): live = file
            case .busy:
                let age = cl_clock_monotonic_ns() - work.since
                // The bytes moved aside wait for what replaces them, to be compared; but not for ever.
                guard !work.stashes.isEmpty, age > nanoseconds(30),
                    !work.stashes.contains(where: { $0.kind == .undo })
                else {
                    postpone(item.key)
                    return nil
                }
            case .gone:
                postpone(item.key)
                if work.attempts > 6 {
                    works[item.key] = nil
                    startScan()
                }
                return nil
            }
        }
        var old: [OldContent] = []
        for entry in work.stashes {
            if let content = try openStashed(entry, work, liveFile: live?.descriptor.raw ?? -1) {
                old.append(content)
            }
        }
        var recording = Recording(item: item, finished: work)
        try chain(&recording, old, live, work)
        try keepBytes(of: recording, old, live, &places)
        return recording
    }

    /// Adds a version for each content that differs from the one before.
    private func chain(
        _ recording: inout Recording, _ old: [OldContent], _ live: LiveFile?, _ work: Work
    ) throws(VolumeError) {
        let known = try journal.read { try $0.versions(of: recording.item.key) }
        var current = known.first { $0.id == recording.item.current }
        for content in old {
            let digest = content.cut.digest
            if digest == current?.content { continue }
            if work.isRecovered, known.contains(where: { $0.content == digest }) { continue }
            let isConflict = work.superseded.contains(content.entry.file)
            let save = Work.Save(actor: content.entry.actor, time: content.entry.saved)
            let version = append(
                content.cut, to: &recording, trace: content.trace, save: save,
                kind: isConflict ? .conflict : .current, after: current)
            if !isConflict { current = version }
        }
        guard let live else {
            recording.item.current = current?.id
            return
        }
        if live.cut.digest != current?.content {
            let save = work.save ?? Work.Save(
                actor: Actor(process: 0, uid: live.owner, program: ""), time: live.trace.modified)
            current = append(
                live.cut, to: &recording, trace: live.trace, save: save, kind: .current,
                after: current)
        }
        recording.item.current = current?.id
        recording.item.size = UInt64(live.trace.size)
        recording.item.modified = live.trace.modified
        recording.item.changed = live.trace.changed
        if work.stashes.contains(where: { $0.kind == .undo }) { recording.item.inPlace += 1 }
    }

    func append(
        _ cut: CutContent, to recording: inout Recording, trace: Trace, save: Work.Save,
        kind: Version.Kind, after current: Version?
    ) -> Version {
        recording.item.latest += 1
        let version = Version(
            number: recording.item.latest, parents: current.map { [$0.id] } ?? [], kind: kind,
            device: device.id, deviceName: device.name, person: person(save.actor.uid),
            program: save.actor.program, name: recording.item.name, size: cut.manifest.size,
            modified: trace.modified, saved: save.time, content: cut.digest)
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

    /// Stores the chunks that only displaced contents have: of those in the stash, and of what was current, wherever
    /// its bytes went.
    private func keepBytes(
        of recording: Recording, _ old: [OldContent], _ live: LiveFile?,
        _ places: inout [Digest: ChunkPlace]
    ) throws(VolumeError) {
        let item = recording.item
        var excess = live?.cut.manifest.chunkIDs ?? []
        if let live, item.inPlace >= 2, live.trace.size > settings.copiedSizeMax {
            // Written in place again and again: kept cut ahead of time, so that it may be written without waiting.
            try store(live.cut.manifest.chunkIDs, from: live.content, live.trace.size, &places)
            excess = []
        }
        for content in old {
            try store(
                content.cut.manifest.chunkIDs.subtracting(excess), from: content.source,
                content.trace.size, &places)
        }
        guard let before = try journal.read({ try formerManifest(item, $0) }) else { return }
        let lost = try missing(before.chunkIDs.subtracting(excess), places)
        guard !lost.isEmpty else { return }
        try storeElsewhere(lost, of: recording, &places)
    }

    /// The manifest that was current when this recording began, when it no longer is.
    private func formerManifest(_ item: Item, _ t: Reader) throws -> Manifest? {
        guard let stored = try t.item(item.key), let id = stored.current,
            let bytes = try t.manifest(of: id)
        else { return nil }
        return Manifest(encoded: bytes)
    }

    /// Those of the chunks that are not in the chunk store.
    func missing(_ ids: Set<Digest>, _ places: [Digest: ChunkPlace]) throws(VolumeError) -> Set<Digest> {
        guard !ids.isEmpty else { return [] }
        return try journal.read { reader in
            try ids.filter { try places[$0] == nil && reader.place(of: $0) == nil }
        }
    }

    func store(
        _ ids: Set<Digest>, from source: some ContentSource, _ size: Int64,
        _ places: inout [Digest: ChunkPlace]
    ) throws(VolumeError) {
        var wanted = try missing(ids, places)
        guard !wanted.isEmpty else { return }
        _ = try cutContent(of: source, size: UInt64(size)) { (chunk, bytes) throws(VolumeError) in
            guard wanted.remove(chunk.id) != nil else { return }
            places[chunk.id] = ChunkPlace(try packs.append(chunk.id, bytes))
        }
    }

    /// The old contents moved to another name (a backup, another hard link): they are read there.
    private func storeElsewhere(
        _ lost: Set<Digest>, of recording: Recording, _ places: inout [Digest: ChunkPlace]
    ) throws(VolumeError) {
        for inode in recording.finished.sources {
            guard let file = try openInode(inode) else { continue }
            try store(lost, from: FileContent(descriptor: file.raw), status(file.raw).size, &places)
        }
        let rest = try missing(lost, places)
        if !rest.isEmpty, !recording.finished.sources.isEmpty || !recording.versions.isEmpty {
            tell(
                "bytes of \(recording.item.key)",
                "An older version of \(recording.item.name) has lost bytes that were nowhere else "
                    + "(\(rest.count) chunks): `fsctl doctor` names it.")
        }
    }

    /// A file of the tree by its inode, if an item has it.
    private func openInode(_ inode: UInt64) throws(VolumeError) -> Descriptor? {
        let paths = try journal.read { reader in
            try reader.items(inode: inode).compactMap { try reader.path(of: $0.key) }
        }
        for path in paths {
            guard let file = try? openBeneath(path, from: tree, flags: O_RDONLY | O_NOATIME),
                status(file.raw).inode == inode
            else { continue }
            return file
        }
        return nil
    }

    func status(_ descriptor: Int32) -> Trace {
        var status = stat()
        _ = cl_fstat(descriptor, &status)
        return Trace(status)
    }

    func person(_ uid: UInt32) -> String {
        if let known = people[uid] { return known }
        let name = getpwuid(uid).map { String(cString: $0.pointee.pw_name) } ?? "uid \(uid)"
        people[uid] = name
        return name
    }
}

extension ChunkPlace {
    init(_ location: ChunkLocation) {
        self.init(
            pack: location.pack, offset: location.offset, storedLength: location.storedLength,
            length: location.length)
    }
}

extension ChunkLocation {
    init(_ place: ChunkPlace) {
        self.init(
            pack: place.pack, offset: place.offset, storedLength: place.storedLength,
            length: place.length)
    }
}
