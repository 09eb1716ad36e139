import CLinux
import Journal
import Model

/// Thins versions by age, and has the packs swept. Only the recorder's thread uses it.
final class VersionThinning {
    private let writer: JournalWriter
    private let versions: VersionRemoval
    private let time: RetentionTime
    private let retention: Retention
    private let closing: ClosingTime
    /// When versions are thinned next, in monotonic nanoseconds.
    private(set) var due: Int64 = 0

    init(
        writer: JournalWriter, versions: VersionRemoval, time: RetentionTime,
        settings: Settings, closing: ClosingTime
    ) {
        self.writer = writer
        self.versions = versions
        self.time = time
        retention = settings.retention
        self.closing = closing
    }

    /// Thins versions once an hour, and then also calls `hourly`. Sweeps the packs if something was
    /// removed or if `sweeps` is set. Returns false if it is not time yet.
    func thin(sweeps: Bool, hourly: () throws -> Void) throws -> Bool {
        let now = cl_clock_monotonic_ns()
        guard sweeps || now >= due else { return false }
        var removed = 0
        if now >= due {
            due = now + Timestamp.span(seconds: 3600)
            removed = try thinVersions()
            try hourly()
        }
        if sweeps || removed > 0 { try versions.sweeper.sweep() }
        return true
    }

    /// One run removes at most this many versions, or a tenth of all.
    private static let thinnedMin = 256

    /// Thins all documents and returns the number of removed versions.
    func thinVersions() throws(VolumeError) -> Int {
        let time = try self.time.advance()
        let (all, total) = try writer.journal.read { reader in
            var keys: [(key: Int64, deleted: Int64?)] = []
            try reader.forEachItem {
                if $0.latest > 1 || $0.deleted != nil { keys.append(($0.key, $0.deleted)) }
            }
            return (keys, try reader.versionCount())
        }
        let most = max(VersionThinning.thinnedMin, total / 10)
        var removed = 0
        // Children are handled before their directory.
        for (key, deleted) in all.reversed() where writer.state.pending[key] == nil {
            guard removed < most, !closing.isOverdue else { break }
            let isExpired = deleted.map {
                time.span(since: Timestamp(nanoseconds: $0))
                    > Timestamp.span(seconds: retention.deleted)
            }
            removed += try thin(
                key, at: time, isExpired: isExpired ?? false, atMost: most - removed)
        }
        let span = Timestamp.span(seconds: retention.deleted)
        try writer.journal.write { t in
            try t.removeSettlements(before: (time - span).nanoseconds)
            try t.removeNameChanges(before: (time - span).nanoseconds)
        }
        return removed
    }

    private func thin(_ key: Int64, at time: Timestamp, isExpired: Bool, atMost most: Int)
        throws(VolumeError) -> Int
    {
        let (versions, rows) = try writer.journal.read { reader in
            (try reader.versions(of: key), try reader.versionRows(of: key))
        }
        let aged = versions.map { version in
            var version = version
            let earliest = rows[version.id].flatMap { self.time.earliest(ofRow: $0) }
            version.saved = max(version.saved, earliest ?? version.saved)
            return version
        }
        // A deletion is never older than the last save.
        let isYoung = aged.contains {
            time.span(since: Timestamp(nanoseconds: $0.saved))
                <= Timestamp.span(seconds: retention.deleted)
        }
        func excess(_ isExpired: Bool) -> Set<Identifier> {
            Set(retention.excess(of: aged, at: time.nanoseconds, isExpired: isExpired))
        }
        let isExpired = isExpired && !isYoung
        guard isExpired || !excess(false).isEmpty else { return 0 }
        return try writer.journal.write { t in
            guard let item = try t.item(key) else { return 0 }
            let check = try RemovalCheck(item, versions, t)
            // A deletion that the hub does not know is not final.
            let isExpired = isExpired && check.mayRemoveRow
            let old = excess(isExpired)
            let all = versions.filter { version in
                guard old.contains(version.id) else { return false }
                let obstacle = check.obstacle(to: version)
                return obstacle == nil || isExpired && obstacle == .lastOfDeleted
            }
            let excess = Array(all.prefix(most))
            try self.versions.remove(excess, of: item, hasRest: false, t)
            return excess.count
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
