import Foundation
import Support
import Testing

@testable import Coordination

/// Runs random schedules of grants. `CONCORD_SEED` repeats a run, and `COORDINATION_SCHEDULES` sets
/// the number of schedules, of which grants get a thousandth, because theirs are longer.
@Suite("Schedules of grants") struct GrantSimulationTests {
    @Test(.timeLimit(.minutes(20))) func nobodyBreaksTheRules() {
        GrantSchedule.expectNoFault(named: "Grants", in: SimulationTests.count / 1_000)
    }

    @Test(arguments: GrantBug.allCases) func aPlantedBugIsFound(_ bug: GrantBug) {
        GrantSchedule.expectFault(of: bug, seed: 5)
    }
}
