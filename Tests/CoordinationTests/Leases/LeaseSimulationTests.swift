import Foundation
import Support
import Testing

@testable import Coordination

/// Runs random schedules of leases. `CONCORD_SEED` repeats a run, and `COORDINATION_SCHEDULES` sets
/// the number of schedules, of which leases get a thousandth, because theirs are longer.
@Suite("Schedules of leases") struct LeaseSimulationTests {
    @Test(.timeLimit(.minutes(20))) func nobodyBreaksTheRules() {
        LeaseSchedule.expectNoFault(named: "Leases", in: SimulationTests.count / 1_000)
    }

    @Test(arguments: LeaseBug.allCases) func aPlantedBugIsFound(_ bug: LeaseBug) {
        LeaseSchedule.expectFault(of: bug, seed: 5)
    }
}
