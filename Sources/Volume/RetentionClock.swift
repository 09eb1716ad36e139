import CLinux
import Glibc
import Model

/// The time by which old versions are removed.
///
/// A wall clock can be set to any time, by a person or by a battery that has run out, and what is
/// removed does not come back. So this clock follows another one, but goes at most four times as
/// fast as time passes on this machine: a clock that is a year ahead makes nothing old at once, and
/// a device that is off for most of a day keeps up. And it remembers which versions there were
/// when: a version that was saved while the wall clock was far behind is as young as it is.
struct RetentionClock: Hashable, Sendable {
    /// The versions up to a row of the journal were there at a time.
    struct Mark: Hashable, Sendable {
        var row: Int64
        /// By this clock.
        var time: Int64
    }

    private static let fastest: Int64 = 4
    private static let hour = Timestamp.span(seconds: 3600)

    /// Nanoseconds since 1970.
    private(set) var time: Int64
    /// When `time` was told: which start of the machine, and nanoseconds since then.
    private var boot: String
    private var uptime: Int64
    /// By time; the first one stands for all that was there when this clock began.
    private(set) var marks: [Mark]

    init(time: Int64, boot: String, uptime: Int64, lastRow: Int64) {
        (self.time, self.boot, self.uptime) = (time, boot, uptime)
        marks = [Mark(row: lastRow, time: time)]
    }

    /// Goes on towards the time of another clock, and gives the time by which versions are old: the
    /// earlier one of the two.
    mutating func follow(_ target: Int64, boot: String, uptime: Int64) -> Int64 {
        // Since another start, at least as much time has passed as since this one.
        let lived = boot == self.boot ? max(0, uptime - self.uptime) : uptime
        let step = min(lived, .max / 8) * RetentionClock.fastest
        let known = Timestamp(nanoseconds: time)
        time = min(max(target, (known - step).nanoseconds), (known + step).nanoseconds)
        (self.boot, self.uptime) = (boot, uptime)
        return min(time, target)
    }

    /// Remembers which versions are there now: for two days each hour, then each day.
    mutating func mark(lastRow: Int64) {
        // After this clock went back, later marks say nothing.
        while let last = marks.last, marks.count > 1, last.time > time { marks.removeLast() }
        if let last = marks.last, marks.count > 1, time - last.time < RetentionClock.hour {
            return
        }
        marks.append(Mark(row: lastRow, time: time))
        var kept: [Mark] = []
        for mark in marks {
            let isOld = time - mark.time > 48 * RetentionClock.hour
            let isNear = kept.count > 1 && mark.time - kept.last!.time < 24 * RetentionClock.hour
            if !isOld || !isNear { kept.append(mark) }
        }
        // Beyond half a year nothing depends on a day.
        if kept.count > 256 { kept.removeSubrange(1..<(kept.count - 255)) }
        marks = kept
    }

    /// The time before which a version cannot have been saved; nil for one that was there when this
    /// clock began.
    func earliest(ofRow row: Int64) -> Int64? { marks.last { $0.row < row }?.time }
}

// MARK: As the journal keeps it

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
        let marks = words[3].split(separator: ",").compactMap { word -> Mark? in
            let parts = word.split(separator: ":").compactMap { Int64($0) }
            return parts.count == 2 ? Mark(row: parts[0], time: parts[1]) : nil
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
    /// Nanoseconds since the machine started, also those that it slept.
    package var uptime: @Sendable () -> Int64 = {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Timestamp(time).nanoseconds
    }
    /// What tells one start of the machine from another.
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
