import CLinux
import ChunkStore
import Journal
import Model

// Retention: versions are thinned by age, and chunks without references are removed from the packs.
extension Recorder {
    /// Thins versions once an hour, when there is nothing else to do. Returns false if it is not
    /// time yet.
    func thin() -> Bool {
        let now = cl_clock_monotonic_ns()
        guard state.scan == nil, backlog.isEmpty, !isPaused else { return false }
        let isAsked = takeSweep()
        guard isAsked || now >= nextThinning else { return false }
        do {
            var removed = 0
            if now >= nextThinning {
                nextThinning = now + nanoseconds(3600)
                removed = try thinVersions()
                try retryAttributes()
            }
            if isAsked || removed > 0 { try sweep() }
        } catch {
            tell("thinning", "Old versions cannot be thinned: \(error)")
        }
        return true
    }

    /// One run removes at most this many versions, or a tenth of all.
    private static let thinnedMin = 256

    /// Thins all documents and returns the number of removed versions.
    func thinVersions() throws(VolumeError) -> Int {
        let time = try advanceRetentionClock()
        let (all, total) = try journal.read { reader in
            var keys: [(key: Int64, deleted: Int64?)] = []
            try reader.forEachItem {
                if $0.latest > 1 || $0.deleted != nil { keys.append(($0.key, $0.deleted)) }
            }
            return (keys, try reader.versionCount())
        }
        let most = max(Recorder.thinnedMin, total / 10)
        var removed = 0
        // Children are handled before their directory.
        for (key, deleted) in all.reversed() where state.pending[key] == nil {
            guard removed < most, !isOverdue else { break }
            let isExpired = deleted.map {
                time.span(since: Timestamp(nanoseconds: $0))
                    > Timestamp.span(seconds: settings.retention.deleted)
            }
            removed += try thin(
                key, at: time, isExpired: isExpired ?? false, atMost: most - removed)
        }
        let span = Timestamp.span(seconds: settings.retention.deleted)
        try journal.write { t in
            try t.removeSettlements(before: (time - span).nanoseconds)
            try t.removeNameChanges(before: (time - span).nanoseconds)
        }
        return removed
    }

    /// Advances the retention clock. It follows the hub's clock if that is known, or else this
    /// machine's, within the speed limit of `RetentionClock`.
    private func advanceRetentionClock() throws(VolumeError) -> Timestamp {
        let clocks = settings.clocks
        let (uptime, boot) = (clocks.uptime(), clocks.boot())
        let hub = hubTime.withLock { $0 }
        let target = hub.map { $0.time + (uptime - $0.uptime) }?.nanoseconds ?? clocks.wall()
        let lastRow = try journal.read { try $0.lastVersionRow() }
        var clock: RetentionClock
        if let known = retentionClock {
            clock = known
        } else {
            let newest = try journal.read { try $0.newestSave() }
            clock = RetentionClock(
                time: min(target, newest ?? target), boot: boot, uptime: uptime, lastRow: lastRow)
        }
        let time = clock.follow(target, boot: boot, uptime: uptime)
        clock.mark(lastRow: lastRow)
        let text = clock.text
        try journal.write { t in try t.set(Recorder.retentionKey, to: text) }
        retentionClock = clock
        return Timestamp(nanoseconds: time)
    }

    private static let retentionKey = "retention_clock"

    /// Called when the recorder starts.
    func restoreRetentionClock() {
        let text = (try? journal.read { try $0.value(Recorder.retentionKey) }) ?? nil
        retentionClock = text.flatMap(RetentionClock.init(text:))
    }

    /// The time of a deletion for retention. If the wall clock is far behind, this is the retention
    /// clock's time.
    func deletionTime(_ time: Int64) -> Int64 {
        guard let known = retentionClock?.time, known - 86_400_000_000_000 > time else {
            return time
        }
        return known
    }

    private func thin(_ key: Int64, at time: Timestamp, isExpired: Bool, atMost most: Int)
        throws(VolumeError) -> Int
    {
        let (versions, rows) = try journal.read { reader in
            (try reader.versions(of: key), try reader.versionRows(of: key))
        }
        let aged = versions.map { version in
            var version = version
            let earliest = rows[version.id].flatMap { retentionClock?.earliest(ofRow: $0) }
            version.saved = max(version.saved, earliest ?? version.saved)
            return version
        }
        // A deletion is never older than the last save.
        let isYoung = aged.contains {
            time.span(since: Timestamp(nanoseconds: $0.saved))
                <= Timestamp.span(seconds: settings.retention.deleted)
        }
        let retention = settings.retention
        func excess(_ isExpired: Bool) -> Set<Identifier> {
            Set(retention.excess(of: aged, at: time.nanoseconds, isExpired: isExpired))
        }
        let isExpired = isExpired && !isYoung
        guard isExpired || !excess(false).isEmpty else { return 0 }
        return try journal.write { t in
            guard let item = try t.item(key) else { return 0 }
            let check = try RemovalCheck(item, versions, t)
            // A deletion that the hub does not know is not final.
            let isExpired = isExpired && check.mayRemoveRow
            let old = excess(isExpired)
            let all = versions.filter { version in
                guard old.contains(version.id) else { return false }
                let obstacle = check.obstacle(to: version)
                return obstacle == nil || isExpired && obstacle == .current
            }
            let excess = Array(all.prefix(most))
            try remove(excess, of: item, hasRest: false, t)
            return excess.count
        }
    }

    /// Removes chunks without references, and rewrites packs of which half is unused, or with
    /// `isThorough` a quarter.
    func sweep(isThorough: Bool = false) throws(VolumeError) {
        // Only chunks in the packs are considered, because manifests of unchanged documents are
        // many.
        var dead: Set<Digest> = []
        var liveBytes: [UInt32: UInt64] = [:]
        var liveCount: [UInt32: Int] = [:]
        try journal.read { reader in
            try reader.forEachChunk { id, _ in dead.insert(id) }
            try reader.forEachManifest { _, _, bytes in
                guard !dead.isEmpty, let manifest = Manifest(encoded: bytes) else { return }
                for entry in manifest.entries {
                    for chunk in entry.chunks { dead.remove(chunk.id) }
                }
            }
            try reader.forEachChunk { id, place in
                guard !dead.contains(id) else { return }
                liveBytes[place.pack, default: 0] += UInt64(place.storedLength)
                liveCount[place.pack, default: 0] += 1
            }
        }
        if !dead.isEmpty { try journal.write { t in try t.removeChunks(dead) } }
        // Packs without any used chunk come first; they make room for rewriting the others.
        let all = packs.packs().sorted {
            liveBytes[$0.pack, default: 0] < liveBytes[$1.pack, default: 0]
        }
        let part: UInt64 = isThorough ? 3 : 2
        var isMarked = false
        for (pack, bytes) in all
        where liveBytes[pack, default: 0] * 4 < bytes * part && !isOverdue {
            // Without enough space a rewrite would only use up more.
            let live = Int64(liveBytes[pack, default: 0])
            if live > 0, let space = DiskSpace(of: tree), space.free < live + live / 8 { continue }
            if !isMarked {
                try PartMarks(tree: tree, journal: journal, packs: packs).advance()
                isMarked = true
            }
            try compact(pack, liveCount[pack, default: 0])
        }
    }

    private func compact(_ pack: UInt32, _ needed: Int) throws(VolumeError) {
        let moved = try packs.compact(pack) { id, location in
            ((try? journal.read { try $0.place(of: id) }) ?? nil).map(ChunkLocation.init)
                == location
        }
        // Needed chunks that were not found are damaged; the pack stays for `fsctl doctor`.
        guard moved.count >= needed else { return }
        try journal.write { t in try t.movePlaces(moved.map { ($0.0, ChunkPlace($0.1)) }) }
        // Another journal may need chunks that this one does not know.
        if pack <= (try journal.read { try Parts.State($0) }).foreignPack {
            try packs.quarantine(pack: pack)
        } else {
            try packs.remove(pack: pack)
        }
    }
}

extension Retention {
    /// The versions that may be removed at `time` (nanoseconds since 1970). The newest one of each
    /// hour, day or week stays.
    func excess(of versions: [Version], at time: Int64, isExpired: Bool) -> [Identifier] {
        var excess: [Identifier] = []
        var taken: Set<Int64> = []
        for version in versions.sorted(by: { $0.saved > $1.saved }) {
            let isKept = version.label != nil || version.kind == .conflict
            if isKept || version.kind == .current && !isExpired { continue }
            let savedAt = Timestamp(nanoseconds: version.saved)
            let span = Timestamp(nanoseconds: time).span(since: savedAt)
            let age = Int64(Timestamp(nanoseconds: span).seconds)
            let saved = Int64(savedAt.seconds)
            let slot: Int64
            if isExpired {
                excess.append(version.id)
                continue
            } else if age < all {
                continue
            } else if age < hourly {
                slot = saved / 3600
            } else if age < daily {
                slot = saved / 86_400 + 1_000_000_000_000
            } else {
                slot = saved / 604_800 + 2_000_000_000_000
            }
            if !taken.insert(slot).inserted { excess.append(version.id) }
        }
        return excess
    }
}
