import Foundation
import Support
import Testing

@testable import Coordination

/// Runs random schedules and checks each step. `CONCORD_SEED` repeats a run, and
/// `COORDINATION_SCHEDULES` sets the number of schedules.
@Suite struct SimulationTests {
    static let count =
        ProcessInfo.processInfo.environment["COORDINATION_SCHEDULES"].flatMap(Int.init) ?? 500_000

    @Test(.timeLimit(.minutes(20))) func nobodyBreaksTheRules() async {
        var random = SeededRandom(named: "Coordination")
        let half = (Self.count + 1) / 2
        let (first, second) = (random.fork(), random.fork())
        async let other = Self.firstFailure(first, half)
        let mine = await Self.firstFailure(second, half)
        for seed in [mine, await other].compactMap({ $0 }) {
            var schedule = Schedule(seed: seed, Coordination(), logs: true)
            let fault = schedule.run() ?? "nothing, this time"
            Issue.record("schedule \(seed): \(fault)\n\(schedule.log!.joined(separator: "\n"))")
        }
    }

    /// Returns the seed of the first schedule that failed.
    @concurrent private static func firstFailure(_ random: SeededRandom, _ count: Int) async
        -> UInt64?
    {
        var random = random
        for _ in 0..<count {
            let seed = random.next()
            var schedule = Schedule(seed: seed, Coordination())
            if schedule.run() != nil { return seed }
        }
        return nil
    }

    @Test(arguments: PlantedBug.allCases) func aPlantedBugIsFound(_ bug: PlantedBug) {
        var random = SeededRandom(seed: 5)
        for count in 1...Self.patience {
            var schedule = Schedule(seed: random.next(), Tampered(bug))
            guard let fault = schedule.run() else { continue }
            return print("\(bug): found after \(count) schedules: \(fault)")
        }
        Issue.record("\(bug) is not found")
    }

    /// The number of schedules within which a planted bug must be found: a hundredth of all.
    static let patience = 5_000
}
