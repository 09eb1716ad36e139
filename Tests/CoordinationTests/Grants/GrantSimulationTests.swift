import Foundation
import Support
import Testing

@testable import Coordination

/// Runs random schedules of grants. `CONCORD_SEED` repeats a run, and `COORDINATION_SCHEDULES` sets
/// the number of schedules, of which grants get a thousandth, because theirs are longer.
@Suite("Schedules of grants") struct GrantSimulationTests {
    @Test(.timeLimit(.minutes(20))) func nobodyBreaksTheRules() {
        var random = SeededRandom(named: "Grants")
        for _ in 0..<max(1, SimulationTests.count / 1_000) {
            let seed = random.next()
            var schedule = GrantSchedule(seed: seed)
            guard let fault = schedule.run() else { continue }
            Issue.record("schedule \(seed): \(fault)")
            return
        }
    }

    @Test(arguments: GrantBug.allCases) func aPlantedBugIsFound(_ bug: GrantBug) {
        var random = SeededRandom(seed: 5)
        for count in 1...500 {
            var schedule = GrantSchedule(seed: random.next(), bug: bug)
            guard let fault = schedule.run() else { continue }
            return print("\(bug): found after \(count) schedules: \(fault)")
        }
        Issue.record("\(bug) is not found")
    }
}
