import Testing

@testable import Sync

/// Which deletions are a mass deletion.
@Suite struct DeletionBrakeTests {
    private static let second: Int64 = 1_000_000_000
    private static let hour = 3600 * second

    /// Deletes `count` documents in each of `parts` parts, 20 s apart, and returns how many were
    /// sent before the rest was held.
    private func passed(_ parts: Int, of count: Int, age: Int64, items: Int) -> Int {
        var brake = DeletionBrake(SyncSettings())
        var key: Int64 = 0
        for part in 0..<parts {
            let now = Int64(part) * 20 * Self.second
            let isOld = brake.isLongStanding(saved: 0, deleted: age)
            let verdict = brake.judge(
                waiting: count, longStanding: isOld ? count : 0, of: items, at: now)
            if verdict != .none { return Int(key) }
            for _ in 0..<count {
                key += 1
                if isOld { brake.told(key, at: now) }
            }
        }
        return Int(key)
    }

    @Test("a slow removal is held, however small its parts are") func parts() {
        #expect(passed(100, of: 100, age: 24 * Self.hour, items: 100_000) == 1000)
        #expect(passed(20, of: 900, age: 24 * Self.hour, items: 100_000) == 900)
    }

    @Test("repeated creation and removal is not held") func builds() {
        #expect(passed(100, of: 900, age: Self.hour / 2, items: 100_000) == 90_000)
    }

    @Test("many at once are held, whatever their age") func atOnce() {
        #expect(passed(1, of: 1001, age: Self.second, items: 100_000) == 0)
        #expect(passed(1, of: 60, age: Self.second, items: 200) == 0)
        #expect(passed(1, of: 40, age: Self.second, items: 50) == 40)
    }

    @Test("after an hour, and after a confirmation, the count starts again") func counting() {
        var brake = DeletionBrake(SyncSettings())
        func judge(longStanding: Int) -> DeletionBrake.Verdict {
            brake.judge(waiting: 9, longStanding: longStanding, of: 100_000, at: 2 * Self.hour)
        }
        for key in 1...1000 { brake.told(Int64(key), at: 0) }
        #expect(judge(longStanding: 1) == .none)
        for key in 1...1000 { brake.told(Int64(key), at: 2 * Self.hour) }
        // Deletions of documents that were saved recently are not held.
        #expect(judge(longStanding: 1) == .longStanding)
        #expect(judge(longStanding: 0) == .none)
        brake.release()
        #expect(judge(longStanding: 1) == .none)
    }
}
