import CLinux
import Glibc
import Model

/// Parses a moment of the past, or one to come, as people write it.
package enum PastTime {
    /// Parses a moment and returns it in nanoseconds since 1970, or nil if it cannot be parsed. All
    /// forms are in this machine's time zone:
    ///
    /// - `2026-11-21 14:03:07` and `2026-11-21 14:03`; also with a `T` instead of the space, and
    ///   with `.` for `:` as in the names of versions;
    /// - `2026-11-21`, which is the first moment of that day;
    /// - `14:03`, which is the last time that the clock showed this;
    /// - `yesterday`, which is the last moment of that day;
    /// - `90s`, `5min`, `3h`, `2d`, `1w`, which are ages.
    package static func parse(_ text: String, now: Int64 = cl_clock_realtime_ns()) -> Int64? {
        let text = text.lowercased()
        if let age = age(text) { return now - age }
        if text == "now" { return now }
        var today = tm()
        var seconds = time_t(now / 1_000_000_000)
        localtime_r(&seconds, &today)
        if text == "yesterday" { return midnight(today) - 1 }
        let words = text.split { $0 == " " || $0 == "t" }
        switch words.count {
        case 1:
            if let date = date(words[0]) { return moment(date, (0, 0, 0)) }
            guard let clock = clock(words[0]) else { return nil }
            let date = (today.tm_year + 1900, today.tm_mon + 1, today.tm_mday)
            guard let time = moment(date, clock) else { return nil }
            return time <= now ? time : time - 86_400_000_000_000
        case 2:
            guard let date = date(words[0]), let clock = clock(words[1]) else { return nil }
            return moment(date, clock)
        default: return nil
        }
    }

    /// Parses a moment to come: `2d` is the time from now on, `14:03` the next time that the clock
    /// shows this, and `2026-11-21` the last moment of that day. A moment with a date may be over.
    package static func parseFuture(_ text: String, now: Int64 = cl_clock_realtime_ns()) -> Int64? {
        let text = text.lowercased()
        if let span = age(text) { return text.hasSuffix("ago") ? nil : now + span }
        if let date = date(text[...]) { return moment(date, (23, 59, 59)) }
        guard !["now", "yesterday"].contains(text), let time = parse(text, now: now) else {
            return nil
        }
        return clock(text[...]) != nil && time <= now ? time + 86_400_000_000_000 : time
    }

    private static func age(_ text: String) -> Int64? {
        let word = text.hasSuffix(" ago") ? text.dropLast(4) : text[...]
        let digits = word.prefix { $0.isNumber }
        let units: [String: Int64] = [
            "s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400, "w": 604_800,
        ]
        let unit = word.dropFirst(digits.count).drop { $0 == " " }
        guard let count = Int64(digits), count < 1_000_000, let one = units[String(unit)] else {
            return nil
        }
        return Timestamp.span(seconds: count * one)
    }

    private static func date(_ text: Substring) -> (Int32, Int32, Int32)? {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        let numbers = parts.compactMap { Int32($0) }
        guard parts.count == 3, numbers.count == 3, (1970...9999).contains(numbers[0]),
            (1...12).contains(numbers[1]), (1...31).contains(numbers[2])
        else { return nil }
        return (numbers[0], numbers[1], numbers[2])
    }

    private static func clock(_ text: Substring) -> (Int32, Int32, Int32)? {
        let parts = text.split(omittingEmptySubsequences: false) { $0 == ":" || $0 == "." }
        let numbers = parts.compactMap { Int32($0) }
        guard (2...3).contains(parts.count), numbers.count == parts.count,
            (0...23).contains(numbers[0]), (0...59).contains(numbers[1]),
            (0...60).contains(numbers.last!)
        else { return nil }
        return (numbers[0], numbers[1], numbers.count == 3 ? numbers[2] : 0)
    }

    private static func midnight(_ day: tm) -> Int64 {
        moment((day.tm_year + 1900, day.tm_mon + 1, day.tm_mday), (0, 0, 0)) ?? 0
    }

    private static func moment(_ date: (Int32, Int32, Int32), _ clock: (Int32, Int32, Int32))
        -> Int64?
    {
        var parts = tm()
        (parts.tm_year, parts.tm_mon, parts.tm_mday) = (date.0 - 1900, date.1 - 1, date.2)
        (parts.tm_hour, parts.tm_min, parts.tm_sec) = clock
        parts.tm_isdst = -1
        let seconds = mktime(&parts)
        // mktime(3) turns the 31st of a month with 30 days into the 1st of the next.
        guard seconds >= 0, parts.tm_mday == date.2 else { return nil }
        return Timestamp(seconds: seconds).nanoseconds
    }
}
