import Glibc
import Testing

@testable import Volume

/// Parsing of times as people write them.
struct PastTimeTests {
    /// 2026-11-21 14:03:07 in this machine's time zone.
    private var now: Int64 {
        var parts = tm()
        (parts.tm_year, parts.tm_mon, parts.tm_mday) = (126, 10, 21)
        (parts.tm_hour, parts.tm_min, parts.tm_sec, parts.tm_isdst) = (14, 3, 7, -1)
        return Int64(mktime(&parts)) * 1_000_000_000
    }

    private let second: Int64 = 1_000_000_000

    @Test func moments() {
        let now = now
        for text in [
            "2026-11-21 14:03:07", "2026-11-21T14:03:07", "2026-11-21 14.03.07", "now", "0s",
        ] {
            #expect(PastTime.parse(text, now: now) == now, "\(text)")
        }
        for text in ["14:03", "2026-11-21 14:03", "7s", "7s ago"] {
            #expect(PastTime.parse(text, now: now) == now - 7 * second, "\(text)")
        }
        let midnight = now - (14 * 3600 + 3 * 60 + 7) * second
        #expect(PastTime.parse("2026-11-21", now: now) == midnight)
        #expect(PastTime.parse("yesterday", now: now) == midnight - 1)
        // A clock time later than now means yesterday.
        #expect(PastTime.parse("15:00", now: now) == midnight + (15 - 24) * 3600 * second)
        #expect(PastTime.parse("3h", now: now) == now - 3 * 3600 * second)
        #expect(PastTime.parse("2 d ago", now: now) == now - 2 * 86_400 * second)
        #expect(PastTime.parse("1w", now: now) == now - 7 * 86_400 * second)
    }

    @Test func momentsToCome() {
        let midnight = now - (14 * 3600 + 3 * 60 + 7) * second
        let day = 86_400 * second
        #expect(PastTime.parseFuture("3h", now: now) == now + 3 * 3600 * second)
        #expect(PastTime.parseFuture("30d", now: now) == now + 30 * day)
        #expect(PastTime.parseFuture("15:00", now: now) == midnight + 15 * 3600 * second)
        // A clock time earlier than now means tomorrow.
        #expect(PastTime.parseFuture("14:03", now: now) == now - 7 * second + day)
        #expect(PastTime.parseFuture("2026-11-22", now: now) == midnight + 2 * day - second)
        let evening = midnight + day + 18 * 3600 * second
        #expect(PastTime.parseFuture("2026-11-22 18:00", now: now) == evening)
        for text in ["", "now", "yesterday", "3h ago", "soon", "2026-11-31", "-3h"] {
            #expect(PastTime.parseFuture(text, now: now) == nil, "\(text)")
        }
    }

    @Test(arguments: [
        "", " ", "soon", "25:00", "14:60", "14", "2026-13-01", "2026-11-31", "2026-11", "-3h", "3y",
        "2026-11-21 14:03 UTC", "99999999999999999999s", "1:2:3:4", "2026-11-21 tea",
    ])
    func nonsense(_ text: String) {
        #expect(PastTime.parse(text, now: now) == nil)
    }
}
