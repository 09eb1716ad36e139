import Foundation
import Support
import Testing

@testable import Coordination

/// Runs random schedules of leases. `CONCORD_SEED` repeats a run, and `COORDINATION_SCHEDULES` sets
/// the number of schedules, of which leases get a thousandth, because theirs are longer.
@Suite("Schedules of leases") struct LeaseSimulationTests {
    @Test(.timeLimit(.minutes(20))) func nobodyBreaksTheRules() {
        var random = SeededRandom(named: "Leases")
        for _ in 0..<max(1, SimulationTests.count / 1_000) {
            let seed = random.next()
            var schedule = LeaseSchedule(seed: seed)
            guard let fault = schedule.run() else { continue }
            Issue.record("schedule \(seed): \(fault)")
            return
        }
    }

    @Test(arguments: LeaseBug.allCases) func aPlantedBugIsFound(_ bug: LeaseBug) {
        var random = SeededRandom(seed: 5)
        for count in 1...500 {
            var schedule = LeaseSchedule(seed: random.next(), bug: bug)
            guard let fault = schedule.run() else { continue }
            return print("\(bug): found after \(count) schedules: \(fault)")
        }
        Issue.record("\(bug) is not found")
    }
}
