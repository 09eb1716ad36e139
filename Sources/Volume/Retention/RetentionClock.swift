import CLinux
import Glibc
import Model

/// The clock by which old versions are removed.
///
/// A wall clock can be set to any time, by a person or because a battery is empty, and removed
/// versions do not come back. So this clock runs by the time that passes on this machine, and by no
/// other clock's jump. Two things make it run faster, up to four times: a hub whose time is later,
/// and the time for which the machine was off, by its wall clock before and after. It also
/// remembers which versions existed when, so a version that was saved while the wall clock was far
/// behind is not taken for old.
struct RetentionClock: Hashable, Sendable {
    /// Records that the versions up to this row of the journal existed at this time.
    struct ArrivalTag: Hashable, Sendable {
        var row: Int64
        /// The time by this clock.
        var time: Int64
    }

    private static let fastest: Int64 = 4
    private static let hour = Timestamp.span(seconds: 3600)

    /// Nanoseconds since 1970.
    private(set) var time: Int64
    /// When `time` was set: the boot id, and the nanoseconds since then.
    private var boot: String
    private var uptime: Int64
    /// The wall clock then; nil in a text of an older build.
    private var wall: Int64?
    /// Nanoseconds for which the machine was off and that are still to be caught up with.
    private var off: Int64 = 0
    /// Ordered by time. The first one stands for everything that existed when this clock began.
    private(set) var marks: [ArrivalTag]

    init(time: Int64, boot: String, uptime: Int64, lastRow: Int64) {
        (self.time, self.boot, self.uptime) = (time, boot, uptime)
        marks = [ArrivalTag(row: lastRow, time: time)]
    }

    /// Advances towards the hub's time, or the wall clock's if no hub has told its time. Returns
    /// the earlier of that time and this clock's, by which versions age.
    mutating func follow(hub: Int64?, wall: Int64, boot: String, uptime: Int64) -> Int64 {
        // After another start of the machine, at least its uptime has passed.
        let hasRestarted = boot != self.boot
        let lived = min(hasRestarted ? uptime : max(0, uptime - self.uptime), .max / 8)
        if hasRestarted, let last = self.wall {
            let away = Timestamp(nanoseconds: wall).span(since: Timestamp(nanoseconds: last))
            off = (Timestamp(nanoseconds: off) + max(0, away - lived)).nanoseconds
        }
        let fast = lived * RetentionClock.fastest
        let slow = lived + min(off, fast - lived)
        let target = hub ?? wall
        let known = Timestamp(nanoseconds: time)
        let latest = (known + (hub == nil ? slow : fast)).nanoseconds
        time = min(max(target, (known - fast).nanoseconds), latest)
        let ahead = Timestamp(nanoseconds: time).span(since: known)
        off = time == target ? 0 : max(0, off - max(0, ahead - lived))
        (self.boot, self.uptime, self.wall) = (boot, uptime, wall)
        return min(time, target)
    }

    /// Remembers which versions exist now: hourly for two days, then daily.
    mutating func mark(lastRow: Int64) {
        // Marks later than the present time are from before this clock went back.
        while let last = marks.last, marks.count > 1, last.time > time { marks.removeLast() }
        if let last = marks.last, marks.count > 1, time - last.time < RetentionClock.hour {
            return
        }
        marks.append(ArrivalTag(row: lastRow, time: time))
        var kept: [ArrivalTag] = []
        for mark in marks {
            let isOld = time - mark.time > 48 * RetentionClock.hour
            let isNear = kept.count > 1 && mark.time - kept.last!.time < 24 * RetentionClock.hour
            if !isOld || !isNear { kept.append(mark) }
        }
        // Older than half a year, a day makes no difference.
        if kept.count > 256 { kept.removeSubrange(1..<(kept.count - 255)) }
        marks = kept
    }

    /// The earliest time at which a version can have been saved; nil if it existed when this clock
    /// began.
    func earliest(ofRow row: Int64) -> Int64? { marks.last { $0.row < row }?.time }
}

// MARK: Encoding for the journal

extension RetentionClock {
    var text: String {
        let rows = marks.map { "\($0.row):\($0.time)" }.joined(separator: ",")
        let since = wall.map { " \($0) \(off)" } ?? ""
        return "\(time) \(boot) \(uptime) \(rows)" + since
    }

    init?(text: String) {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 4 || words.count == 6, let time = Int64(words[0]),
            let uptime = Int64(words[2])
        else { return nil }
        let marks = words[3].split(separator: ",").compactMap { word -> ArrivalTag? in
            let parts = word.split(separator: ":").compactMap { Int64($0) }
            return parts.count == 2 ? ArrivalTag(row: parts[0], time: parts[1]) : nil
        }
        guard !marks.isEmpty else { return nil }
        (self.time, boot, self.uptime) = (time, String(words[1]), uptime)
        self.marks = marks
        guard words.count == 6 else { return }
        guard let wall = Int64(words[4]), let off = Int64(words[5]) else { return nil }
        (self.wall, self.off) = (wall, max(0, off))
    }
}

/// The clocks of this machine.
package struct MachineClocks: Sendable {
    /// Nanoseconds since 1970.
    package var wall: @Sendable () -> Int64 = { cl_clock_realtime_ns() }
    /// The time from the clock of the files, which can be another machine's.
    package var files: @Sendable (Int64) -> Int64 = { $0 }
    /// Nanoseconds since the machine started, including suspend.
    package var uptime: @Sendable () -> Int64 = {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Timestamp(time).nanoseconds
    }
    /// An identifier of the present start of the machine.
    package var boot: @Sendable () -> String = { MachineClocks.currentBoot }

    package init() {}

    private static let currentBoot: String = {
        guard let file = fopen("/proc/sys/kernel/random/boot_id", "re") else { return "unknown" }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 36)
        let count = fread(&bytes, 1, bytes.count, file)
        return String(decoding: bytes[..<count], as: UTF8.self)
    }()
}
