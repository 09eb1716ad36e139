import Model
import Testing

/// Times at the ends of the range: nothing overflows.
struct TimestampTests {
    private let first = Timestamp(nanoseconds: .min)
    private let last = Timestamp(nanoseconds: .max)

    @Test(
        "seconds and nanoseconds are converted and converted back",
        arguments: [
            (0, 0, 0), (1, 5, 1_000_000_005), (-1, 500_000_000, -500_000_000),
            (-1, 0, -1_000_000_000), (9_223_372_036, 854_775_807, .max),
            (-9_223_372_037, 145_224_192, .min),
        ] as [(Int, Int, Int64)])
    func parts(seconds: Int, nanoseconds: Int, whole: Int64) {
        let time = Timestamp(seconds: seconds, nanoseconds: nanoseconds)
        #expect(time.nanoseconds == whole)
        #expect(time.seconds == seconds && time.nanosecondsOfSecond == nanoseconds)
    }

    @Test("a moment outside the range becomes the nearest end")
    func ends() {
        for seconds in [9_223_372_037, 10_413_792_000, 253_370_764_800, .max] {
            #expect(Timestamp(seconds: seconds, nanoseconds: 999_999_999) == last)
        }
        for seconds in [-9_223_372_038, -62_135_596_800, .min] {
            #expect(Timestamp(seconds: seconds) == first)
        }
        #expect(last + 1 == last && first - 1 == first)
        #expect(last - .min == last && first + .min == first)
        #expect((last - .max).nanoseconds == 0 && (first + .max).nanoseconds == -1)
        #expect(last.span(since: first) == .max && first.span(since: last) == .min)
        #expect(first < last)
    }

    @Test("a span of any length can be added to the time of a clock")
    func spans() {
        let now: Int64 = 4_000_000_000_000_000_000  // The year 2096.
        let whole: [Int64] = [.max, .max / 1_000_000_000, 9_000_000_000, .min, -9_000_000_000]
        let broken: [Double] = [.infinity, 1e300, 9.3e9, -1e300]
        let spans =
            whole.map { Timestamp.span(seconds: $0) } + broken.map { Timestamp.span(seconds: $0) }
        for span in spans { #expect(!now.addingReportingOverflow(span).overflow) }
        #expect(Timestamp.span(seconds: -Double.infinity) < 0)
        #expect(Timestamp.span(seconds: Double.nan) == 0)
        #expect(Timestamp.span(seconds: 0.25) == 250_000_000)
        #expect(Timestamp.span(seconds: Int64(-3)) == -3_000_000_000)
    }

    @Test(
        "the calendar covers the whole range",
        arguments: [
            (0, "1970-01-01 00.00.00"), (-1, "1969-12-31 23.59.59"),
            (1_795_385_107_000_000_000, "2026-11-22 22.05.07"),
            (.max, "2262-04-11 23.47.16"), (.min, "1677-09-21 00.12.43"),
        ] as [(Int64, String)])
    func calendar(nanoseconds: Int64, name: String) {
        #expect(Timestamp(nanoseconds: nanoseconds).fileName == name)
    }
}
