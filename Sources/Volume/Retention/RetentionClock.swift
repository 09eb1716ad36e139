import CLinux
import Glibc
import Model

/// The clock by which old versions are removed.
///
/// A wall clock can be set to any time, by a person or because a battery is empty, and removed
/// versions do not come back. So this clock follows another one, but at most four times as fast as
/// time passes on this machine: a clock that is a year ahead makes nothing old at once, and a
/// device that is off for most of a day keeps up. It also remembers which versions existed when, so
/// a version that was saved while the wall clock was far behind is not taken for old.
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
    /// Ordered by time. The first one stands for everything that existed when this clock began.
    private(set) var marks: [ArrivalTag]

    init(time: Int64, boot: String, uptime: Int64, lastRow: Int64) {
        (self.time, self.boot, self.uptime) = (time, boot, uptime)
        marks = [ArrivalTag(row: lastRow, time: time)]
    }

    /// Advances towards the time of another clock. Returns the earlier of the two, by which
    /// versions age.
    mutating func follow(_ target: Int64, boot: String, uptime: Int64) -> Int64 {
        // After another start of the machine, at least its uptime has passed.
        let lived = boot == self.boot ? max(0, uptime - self.uptime) : uptime
        let step = min(lived, .max / 8) * RetentionClock.fastest
        let known = Timestamp(nanoseconds: time)
        time = min(max(target, (known - step).nanoseconds), (known + step).nanoseconds)
        (self.boot, self.uptime) = (boot, uptime)
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
        return "\(time) \(boot) \(uptime) \(rows)"
    }

    init?(text: String) {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 4, let time = Int64(words[0]), let uptime = Int64(words[2]) else {
            return nil
        }
        let marks = words[3].split(separator: ",").compactMap { word -> ArrivalTag? in
            let parts = word.split(separator: ":").compactMap { Int64($0) }
            return parts.count == 2 ? ArrivalTag(row: parts[0], time: parts[1]) : nil
        }
        guard !marks.isEmpty else { return nil }
        (self.time, boot, self.uptime) = (time, String(words[1]), uptime)
        self.marks = marks
    }
}

/// The clocks of this machine.
package struct MachineClocks: Sendable {
    /// Nanoseconds since 1970.
    package var wall: @Sendable () -> Int64 = { cl_clock_realtime_ns() }
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
