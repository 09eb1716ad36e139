/// A moment in UTC, taken apart by the proleptic Gregorian calendar.
package struct Timestamp: Hashable, Sendable {
    package let year: Int
    package let month: Int
    package let day: Int
    package let hour: Int
    package let minute: Int
    package let second: Int

    /// - Parameter nanoseconds: Since 1970; before it, negative.
    package init(nanoseconds: Int64) {
        let seconds = Int((nanoseconds - (nanoseconds < 0 ? 999_999_999 : 0)) / 1_000_000_000)
        let days = Int((Double(seconds) / 86_400).rounded(.down))
        let rest = seconds - days * 86_400
        (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60)
        // Days since 0000-03-01, in eras of 400 years (Howard Hinnant, "chrono-compatible low-level
        // date algorithms").
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra =
            (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    /// `2026-11-21 08.15.30`: sorts by time, and no colon, which other systems' file names cannot
    /// hold.
    package var fileName: String {
        "\(year)-\(two(month))-\(two(day)) \(two(hour)).\(two(minute)).\(two(second))"
    }

    private func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
