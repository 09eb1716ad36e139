import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// The result of evicting documents.
package struct EvictionReport: Sendable {
    package var items = 0
    package var bytes: Int64 = 0
    /// Documents that were not evicted, with the reason; at most a hundred.
    package var kept: [(path: [Name], reason: VolumeError)] = []
}

/// Removes bytes that the hub has from this device, in place. The file is marked first, so after a
/// crash it is either complete or a placeholder. Watching programs are not notified.
package struct Eviction: Sendable {
    let items: ItemLookup
    let hydration: Hydration
    let openFiles: CallbackSlot<@Sendable (UInt64) -> Bool>
    /// Tells why the contents of a document stay on this device: the end of a sentence that begins
    /// with its path. It may ask programs, and take seconds.
    package let obstacle = CallbackSlot<@Sendable ([Name]) -> String?>()
    /// Tells who has an explicit claim under which the contents of a document must stay: the end of
    /// a sentence that begins with its path. It asks no program.
    package let claim = CallbackSlot<@Sendable ([Name]) -> String?>()
    private var journal: Journal { items.journal }
    private var recorder: Recorder { items.recorder }
    private var settings: Settings { items.recorder.settings }

    /// Evicts a document, or all below a directory that can be evicted, with `forced` also those
    /// that are pinned or shown by programs. `progress` is called now and then; returning false
    /// ends the eviction. Below a directory, only paths that `isMeant` selects are evicted or named
    /// in the report.
    ///
    /// - Throws: For a single document: `.busy` (a program has it open or claims it, or it is not
    ///   recorded),
    ///   `.refused` (it is pinned or shown, or the hub does not have it), `.notFound`, `.invalid`.
    @discardableResult
    package func evict(
        at path: [Name], forced: Bool = false,
        progress: (ContentsProgress) -> Bool = { _ in true },
        isMeant: ([Name]) -> Bool = { _ in true }
    ) throws(VolumeError) -> EvictionReport {
        try items.catchUp(with: path, timeoutSeconds: 5)
        let item = try journal.read { try items.known(path, $0) }
        var report = EvictionReport()
        guard item.kind == .directory else {
            report.bytes = try evict(item.key, forced: forced, patience: 1)
            report.items = report.bytes > 0 ? 1 : 0
            return report
        }
        var shown = ContentsProgress()
        var cursor: Int64 = 0
        var partial = try partialCandidates().map(\.key)
        while true {
            var page = try journal.read { try $0.hub.evictableItems(after: cursor, limit: 256) }
            guard let last = page.last ?? partial.popLast() else { return report }
            if page.isEmpty { page = [last] } else { cursor = last }
            for key in page {
                guard let names = try journal.read({ try $0.path(of: key) }),
                    names.starts(with: path), isMeant(names)
                else { continue }
                do throws(VolumeError) {
                    let bytes = try evict(key, forced: forced, patience: 0)
                    report.bytes += bytes
                    report.items += bytes > 0 ? 1 : 0
                } catch {
                    if report.kept.count < 100 { report.kept.append((names, error)) }
                }
                (shown.items, shown.bytes) = (report.items, report.bytes)
                guard progress(shown) else {
                    throw VolumeError(.cancelled, "The eviction was cancelled.")
                }
            }
        }
    }

    /// Evicts a document and returns how many bytes were removed. For `patience` seconds it waits
    /// for the close of a program to be reported.
    private func evict(_ key: Int64, forced: Bool, patience: Double) throws(VolumeError) -> Int64 {
        let deadline = cl_clock_monotonic_ns() + Timestamp.span(seconds: patience)
        var isLookedAtAgain = false
        var mustAsk = !forced
        while true {
            do throws(VolumeError) {
                if mustAsk, let ask = obstacle.current {
                    // No program is asked about a document that stays anyway.
                    let (_, path, _) = try evictable(key, forced: false)
                    let obstacle = ask(path)
                    if let obstacle { throw VolumeError(.refused, "\(path.shown) \(obstacle)") }
                }
                mustAsk = false
                return try evictNow(key, forced: forced)
            } catch {
                guard error.code == .busy else { throw error }
                if !isLookedAtAgain, try recordAgain(key) {
                    isLookedAtAgain = true
                    continue
                }
                guard cl_clock_monotonic_ns() < deadline else { throw error }
                usleep(20_000)
            }
        }
    }

    /// Records a document again if only its attributes or links may have changed since it was
    /// recorded. It is then found to be unchanged. Returns false if nothing has changed.
    private func recordAgain(_ key: Int64) throws(VolumeError) -> Bool {
        let found = try journal.read { reader in
            try reader.item(key).flatMap { item in try reader.path(of: key).map { (item, $0) } }
        }
        guard let (item, path) = found, item.kind == .file, item.deleted == nil, item.changed != 0
        else { return false }
        let file = try items.found(path)
        let now = FileSnapshot(of: file.raw)
        guard now.inode == item.inode, now.changed != item.changed else { return false }
        try journal.write { t in
            guard var known = try t.item(key), known.changed == item.changed else { return }
            known.changed = 0
            try t.update(known)
        }
        return recorder.catchUp(with: .item(key), timeoutSeconds: 5)
    }

    private func evictNow(_ key: Int64, forced: Bool) throws(VolumeError) -> Int64 {
        let (item, path, version) = try evictable(key, forced: forced)
        let shown = path.shown
        let file = try opened(path, shown)
        var freed: Int64 = 0
        let isAlone = try hydration.evicting(item.inode) { () throws(VolumeError) in
            if let reason = claim.current?(path) {
                throw VolumeError(.busy, "\(shown) \(reason)")
            }
            freed = try giveUp(file.raw, item, version, shown)
        }
        guard isAlone else { throw VolumeError(.busy, "\(shown) is in use.") }
        if freed > 0 { hydration.moved.current?([path]) }
        return freed
    }

    private func opened(_ path: [Name], _ shown: String) throws(VolumeError) -> PlaceholderFile.File
    {
        do throws(Errno) {
            let file = try openBeneath(
                path, from: items.tree, flags: O_RDONLY | O_NOATIME | O_NONBLOCK)
            return PlaceholderFile.File(owning: file.release())
        } catch {
            throw VolumeError(.busy, "\(shown) cannot be opened now: \(error).")
        }
    }

    private func evictable(_ key: Int64, forced: Bool) throws(VolumeError)
        -> (Item, [Name], Identifier)
    {
        try journal.read { reader in
            guard let item = try reader.item(key), item.deleted == nil,
                let path = try reader.path(of: key)
            else { throw VolumeError(.notFound, "The document does not exist any more.") }
            let shown = path.shown
            guard item.kind == .file else {
                throw VolumeError(
                    .invalid, "\(shown) is a \(item.kind); only files can be evicted.")
            }
            if SettingsFile.isOne(path) {
                throw VolumeError(
                    .refused,
                    "\(shown) stays on each device, because it says how the volume's documents are "
                        + "treated.")
            }
            if !forced, try reader.isPinned(key) {
                throw VolumeError(.refused, "\(shown) is pinned to this device.")
            }
            guard item.changed != 0, let current = item.current,
                let version = try reader.version(id: current)?.version
            else { throw VolumeError(.busy, "\(shown) is open for writing or not recorded yet.") }
            guard version.durability == .hub || PlantedFault.evictsUnconfirmed.isPlanted else {
                throw VolumeError(
                    .refused, "\(shown) \(try version.reasonToKeep(reader))")
            }
            return (item, path, current)
        }
    }

    /// Removes the bytes of a file that no program can begin to use meanwhile. Checks first that no
    /// program uses it already, and that it still is what the hub has.
    private func giveUp(_ file: Int32, _ item: Item, _ version: Identifier, _ shown: String)
        throws(VolumeError) -> Int64
    {
        let isOpen = openFiles.current
        var status = stat()
        let result = cl_fstat(file, &status)
        let snapshot = FileSnapshot(status)
        let held = Int64(status.st_blocks) * 512
        let mark = PlaceholderMark(of: file, size: snapshot.size)
        let marked: Identifier? =
            if let mark {
                try journal.read { try mark.version(inode: item.inode, $0) }
            } else { nil }
        guard result == 0, snapshot.inode == item.inode, UInt64(snapshot.size) == item.size,
            marked.map({ $0 == version }) ?? (snapshot.changed == item.changed)
        else { throw VolumeError(.busy, "\(shown) was changed a moment ago.") }
        // The placeholder has no bytes on this device.
        if mark != nil, held == 0 { return 0 }
        guard status.st_nlink == 1 else {
            throw VolumeError(
                .refused, "\(shown) has other names (hard links), so it stays on this device.")
        }
        guard isOpen?(item.inode) != true, cl_probe_users(file) != -EAGAIN else {
            throw VolumeError(.busy, "A program has \(shown) open.")
        }
        let modified = PlaceholderMark.modified(ofFilling: file) ?? snapshot.modified
        // A placeholder's time is restored from the journal, which must be able to represent it.
        let kept = Timestamp(nanoseconds: snapshot.modified).timespec
        guard kept.tv_sec == status.st_mtim.tv_sec else {
            throw VolumeError(
                .refused,
                "\(shown) has a date beyond \(Timestamp(status.st_mtim).fileName), which could not "
                    + "be restored, so it stays on this device.")
        }
        // In one transaction, so that the hub's confirmation is not revoked meanwhile.
        try journal.write { t in
            guard
                try t.version(id: version)?.version.durability == .hub
                    || PlantedFault.evictsUnconfirmed.isPlanted
            else {
                throw VolumeError(
                    .refused, "\(shown) stays on this device: its hub has changed a moment ago.")
            }
            let now: FileSnapshot
            do throws(Errno) {
                let mark = PlaceholderMark(item: item.id, version: version)
                let writable = try withOwnerAccess(to: file) { () throws(Errno) in
                    Descriptor(owning: try check(cl_reopen(file, O_RDWR | O_NOATIME)))
                }
                now = try mark.replaceBytes(
                    of: writable.raw, size: snapshot.size, modified: modified)
            } catch {
                throw VolumeError(.system, "\(shown) cannot be evicted: \(error).")
            }
            let told = hydration.told(item.inode, snapshot.changed) ?? snapshot.changed
            hydration.tell(item.inode, ChangeTime(actual: now.changed, told: told))
            try t.setAbsent(item.key, version: version)
            guard var known = try t.item(item.key), known.inode == item.inode,
                known.current == version, known.changed == item.changed
            else { return }
            known.changed = now.changed
            try t.update(known)
        }
        hydration.forgetPartial(item.id)
        hydration.journalChanged.current?()
        return mark == nil ? snapshot.size : held
    }

    // MARK: Limits

    /// Evicts as much as exceeds the limits of the settings, and returns the removed bytes.
    @discardableResult
    package func evictExcess() throws(VolumeError) -> Int64 {
        guard settings.cacheBytesMax != nil || settings.freeBytesMin != nil else { return 0 }
        let partial = try partialCandidates()
        let held =
            try journal.read { try $0.hub.evictableBytes() } + partial.reduce(0) { $0 + $1.bytes }
        let free = DiskSpace(of: items.tree)?.free ?? .max
        let excess = Eviction.excess(
            held: held, limit: settings.cacheBytesMax, free: free, floor: settings.freeBytesMin)
        guard excess > 0 else { return 0 }
        let now = cl_clock_realtime_ns()
        var freed: Int64 = 0
        let chosen = Eviction.choice(
            among: partial + (try candidates()), excess: .max, recent: now)
        for candidate in chosen where freed < excess {
            freed += (try? evict(candidate.key, forced: false, patience: 0)) ?? 0
        }
        return freed
    }

    private func candidates() throws(VolumeError) -> [EvictionCandidate] {
        var found: [EvictionCandidate] = []
        var cursor: Int64 = 0
        while true {
            let page = try journal.read { reader in
                try reader.hub.evictableItems(after: cursor, limit: 512).map {
                    ($0, try reader.isPinned($0) ? nil : try reader.path(of: $0))
                }
            }
            guard let last = page.last else { return found }
            cursor = last.0
            for (key, path) in page {
                if let path, let candidate = candidate(key, at: path) { found.append(candidate) }
            }
        }
    }

    private func candidate(_ key: Int64, at path: [Name]) -> EvictionCandidate? {
        guard let file = try? openBeneath(path, from: items.tree, flags: O_PATH),
            let status = try? file.status()
        else { return nil }
        return EvictionCandidate(
            key: key, bytes: Int64(status.st_blocks) * 512,
            lastUse: max(
                Timestamp(status.st_atim).nanoseconds, Timestamp(status.st_mtim).nanoseconds,
                hydration.lastUse(of: UInt64(status.st_ino))))
    }

    /// Placeholders that are partly filled.
    private func partialCandidates() throws(VolumeError) -> [EvictionCandidate] {
        let items = hydration.partial
        guard !items.isEmpty else { return [] }
        return try journal.read { reader in
            try items.compactMap { id in
                guard let item = try reader.item(id: id), item.deleted == nil,
                    try !reader.isPinned(item.key), let path = try reader.path(of: item.key)
                else { return nil }
                return self.candidate(item.key, at: path)
            }
        }
    }
}

extension Version {
    /// The end of a sentence that begins with the path: why this may be the only copy of the bytes.
    fileprivate func reasonToKeep(_ reader: Reader) throws(VolumeError) -> String {
        guard try reader.hub.belongsToHub() else {
            return "stays on this device, because this volume is signed in to no hub from which "
                + "its contents could be downloaded again (fsctl signin)."
        }
        guard !wasAtHub else {
            return "stays on this device, because the hub that this volume is signed in to has not "
                + "confirmed its contents; only another hub has, or this one before it was "
                + "restored. `fsctl wait --durable hub` waits for that."
        }
        return "is not at the hub yet; `fsctl wait --durable hub` waits for that."
    }
}
