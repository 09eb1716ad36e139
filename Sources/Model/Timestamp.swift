/// A moment in nanoseconds since 1970. The range is 1677 to 2262. File systems and calendars can
/// name moments outside it; these become the nearest end of the range. No arithmetic here
/// overflows.
package struct Timestamp: Hashable, Comparable, Sendable {
    package var nanoseconds: Int64

    /// - Parameter nanoseconds: Nanoseconds since 1970; negative before 1970.
    package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    /// Takes the parts of a `struct timespec`: before 1970 the seconds are negative and the
    /// nanoseconds are not.
    package init(seconds: Int, nanoseconds: Int = 0) {
        let whole = Int128(seconds) * Int128(Timestamp.second) + Int128(nanoseconds)
        let isFar = whole != Int128(Int64(clamping: whole))
        precondition(!isFar || !PlantedFault.trapsAtFarDates.isPlanted)
        self.nanoseconds = Int64(clamping: whole)
    }

    /// Seconds since 1970, rounded down.
    package var seconds: Int {
        let (whole, rest) = nanoseconds.quotientAndRemainder(dividingBy: Timestamp.second)
        return Int(rest < 0 ? whole - 1 : whole)
    }

    /// The nanoseconds within the second that `seconds` gives: never negative.
    package var nanosecondsOfSecond: Int {
        let rest = Int(nanoseconds % Timestamp.second)
        return rest < 0 ? rest + Int(Timestamp.second) : rest
    }

    package static func < (one: Timestamp, other: Timestamp) -> Bool {
        one.nanoseconds < other.nanoseconds
    }

    package static func + (time: Timestamp, span: Int64) -> Timestamp {
        Timestamp(nanoseconds: Int64(clamping: Int128(time.nanoseconds) + Int128(span)))
    }

    package static func - (time: Timestamp, span: Int64) -> Timestamp {
        Timestamp(nanoseconds: Int64(clamping: Int128(time.nanoseconds) - Int128(span)))
    }

    /// The time from `other` to this moment, in nanoseconds. It is negative when `other` is later.
    package func span(since other: Timestamp) -> Int64 {
        Int64(clamping: Int128(nanoseconds) - Int128(other.nanoseconds))
    }
}

// MARK: Spans of time

extension Timestamp {
    private static let second: Int64 = 1_000_000_000

    /// The longest span, 146 years. Added to the time of any clock it does not overflow.
    private static let longest: Int64 = 1 << 62

    /// Converts seconds to nanoseconds.
    package static func span(seconds: some BinaryInteger) -> Int64 {
        let span = Int128(Int64(clamping: seconds)) * Int128(second)
        return min(max(Int64(clamping: span), -longest), longest)
    }

    package static func span(seconds: Double) -> Int64 {
        let span = seconds * Double(second)
        if span.isNaN { return 0 }
        return Int64(min(max(span, -Double(longest)), Double(longest)))
    }
}

// MARK: The calendar

extension Timestamp {
    /// The moment in UTC as `2026-11-21 08.15.30`. It sorts by time, and it has no colons, which
    /// other systems do not allow in file names.
    package var fileName: String {
        let (days, rest) = (Timestamp.floor(seconds, 86_400), Timestamp.modulo(seconds, 86_400))
        let (year, month, day) = Timestamp.date(days: days)
        let clock = "\(two(rest / 3600)).\(two(rest / 60 % 60)).\(two(rest % 60))"
        return "\(year)-\(two(month))-\(two(day)) \(clock)"
    }

    /// Converts days since 1970-01-01 to a date of the proleptic Gregorian calendar. It counts from
    /// 0000-03-01 in eras of 400 years (Howard Hinnant, "chrono-Compatible Low-Level Date
    /// Algorithms").
    private static func date(days: Int) -> (year: Int, month: Int, day: Int) {
        let shifted = days + 719_468
        let era = floor(shifted, 146_097)
        let dayOfEra = modulo(shifted, 146_097)
        let yearOfEra =
            (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
    }

    private static func floor(_ value: Int, _ divisor: Int) -> Int {
        (value - modulo(value, divisor)) / divisor
    }

    private static func modulo(_ value: Int, _ divisor: Int) -> Int {
        let rest = value % divisor
        return rest < 0 ? rest + divisor : rest
    }

    private func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
