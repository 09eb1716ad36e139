import CLinux
import Glibc

/// Times for people, in their own zone.
package enum Moment {
    /// `today 14:03`, else `2026-11-20 14:03`. Both times are nanoseconds since 1970.
    package static func text(
        _ time: Int64, now: Int64 = cl_clock_realtime_ns(), inUTC: Bool = false
    ) -> String {
        let (then, today) = (parts(time, inUTC), parts(now, inUTC))
        let clock = "\(two(then.tm_hour)):\(two(then.tm_min))"
        if then.tm_year == today.tm_year, then.tm_yday == today.tm_yday { return "today \(clock)" }
        return "\(then.tm_year + 1900)-\(two(then.tm_mon + 1))-\(two(then.tm_mday)) \(clock)"
    }

    private static func parts(_ time: Int64, _ inUTC: Bool) -> tm {
        // Rounded down, before 1970 too.
        var seconds = time_t((Double(time) / 1e9).rounded(.down))
        var parts = tm()
        if inUTC { gmtime_r(&seconds, &parts) } else { localtime_r(&seconds, &parts) }
        return parts
    }

    private static func two(_ value: Int32) -> String { value < 10 ? "0\(value)" : "\(value)" }
}
