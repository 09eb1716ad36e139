import Journal
import Model
import Synchronization

/// The time by which versions age. The recorder's thread uses it; any thread may tell the hub's
/// time.
final class RetentionTime {
    private let journal: Journal
    private let clocks: MachineClocks
    /// Nil before the first thinning of a volume.
    private var clock: RetentionClock?
    /// The hub's time when this machine was started, by the earliest answer since the volume was
    /// opened: a hub whose clock jumps ahead meanwhile makes nothing old.
    private let hubStart = Mutex<Timestamp?>(nil)

    init(journal: Journal, clocks: MachineClocks) {
        self.journal = journal
        self.clocks = clocks
    }

    /// The earliest time at which a version with this row can have been saved, if that is known.
    func earliest(ofRow row: Int64) -> Int64? { clock?.earliest(ofRow: row) }

    func hear(hubTime: Timestamp, uptime: Int64) {
        let start = hubTime - uptime
        hubStart.withLock { $0 = min($0 ?? start, start) }
    }

    /// Advances the retention clock. It follows the hub's clock if that is known, or else this
    /// machine's, within the speed limit of `RetentionClock`.
    func advance() throws(VolumeError) -> Timestamp {
        if PlantedFault.thinsByWallClock.isPlanted { return Timestamp(nanoseconds: clocks.wall()) }
        let (uptime, boot) = (clocks.uptime(), clocks.boot())
        let hub = hubStart.withLock { $0 }.map { ($0 + uptime).nanoseconds }
        let wall = clocks.wall()
        let target = hub ?? wall
        let lastRow = try journal.read { try $0.lastVersionRow() }
        var next: RetentionClock
        if let known = clock {
            next = known
        } else {
            let newest = try journal.read { try $0.newestSave() }
            next = RetentionClock(
                time: min(target, newest ?? target), boot: boot, uptime: uptime, lastRow: lastRow)
        }
        let time = next.follow(hub: hub, wall: wall, boot: boot, uptime: uptime)
        next.mark(lastRow: lastRow)
        let text = next.text
        try journal.write { t in try t.set(RetentionTime.key, to: text) }
        clock = next
        return Timestamp(nanoseconds: time)
    }

    private static let key = "retention_clock"

    /// Reads the clock from the journal.
    func restore() {
        let text = (try? journal.read { try $0.value(RetentionTime.key) }) ?? nil
        clock = text.flatMap(RetentionClock.init(text:))
    }

    /// The time of a deletion for retention, in nanoseconds since 1970. If the wall clock is far
    /// behind, this is the retention clock's time.
    func ofDeletion(at time: Int64) -> Int64 {
        guard let known = clock?.time, known - 86_400_000_000_000 > time else {
            return time
        }
        return known
    }
}
