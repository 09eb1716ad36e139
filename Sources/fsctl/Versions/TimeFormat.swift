import CLinux
import Glibc
import Model

/// Formats times for people, in the local time zone.
package enum TimeFormat {
    /// `today 14:03`, or `2026-11-20 14:03` for another day. Both times are nanoseconds since 1970.
    package static func text(
        _ time: Int64, now: Int64 = cl_clock_realtime_ns(), inUTC: Bool = false
    ) -> String {
        let (then, today) = (parts(time, inUTC), parts(now, inUTC))
        let clock = "\(two(then.tm_hour)):\(two(then.tm_min))"
        if then.tm_year == today.tm_year, then.tm_yday == today.tm_yday { return "today \(clock)" }
        return "\(then.tm_year + 1900)-\(two(then.tm_mon + 1))-\(two(then.tm_mday)) \(clock)"
    }

    /// `14:03:07`
    package static func clock(_ time: Int64, inUTC: Bool = false) -> String {
        let then = parts(time, inUTC)
        return "\(two(then.tm_hour)):\(two(then.tm_min)):\(two(then.tm_sec))"
    }

    /// How long ago `time` was: `7 s`, `12 min`, `3 h`, `2 days`.
    package static func age(_ time: Int64, now: Int64 = cl_clock_realtime_ns()) -> String {
        let span = Timestamp(nanoseconds: now).span(since: Timestamp(nanoseconds: time))
        let seconds = max(0, Timestamp(nanoseconds: span).seconds)
        switch seconds {
        case ..<100: return "\(seconds) s"
        case ..<6000: return "\(seconds / 60) min"
        case ..<172_800: return "\(seconds / 3600) h"
        default: return "\(seconds / 86_400) days"
        }
    }

    private static func parts(_ time: Int64, _ inUTC: Bool) -> tm {
        var seconds = Timestamp(nanoseconds: time).seconds
        var parts = tm()
        if inUTC { gmtime_r(&seconds, &parts) } else { localtime_r(&seconds, &parts) }
        return parts
    }

    private static func two(_ value: Int32) -> String { value < 10 ? "0\(value)" : "\(value)" }
}
