import Foundation
import Support
import Testing

@Suite("A shifted clock") struct ShiftedClockTests {
    @Test("a program sees its wall clock ahead or behind, and the time of a suspend")
    func steps() throws {
        let clock = try ShiftedClock()
        func seconds() throws -> Int {
            var command = Command("date", "+%s")
            command.environment = clock.environment
            let text = try command.succeed().trimmingCharacters(in: .whitespacesAndNewlines)
            return try #require(Int(text))
        }
        let year = 365 * 86_400
        let now = try seconds()
        clock.ahead = year
        #expect(try (year..<year + 3_600).contains(seconds() - now))
        clock.ahead = -year
        #expect(try (-year..<3_600 - year).contains(seconds() - now))
        clock.ahead = 0
        clock.suspended = 86_400
        #expect(try (86_400..<90_000).contains(seconds() - now))
    }
}
