import Foundation
import Support
import Testing

@testable import Volume

/// Which document has which contents, simulated from seeds (`Index.md`). CONCORD_SCHEDULES says how
/// many schedules are run, CONCORD_SEED which one alone, and CONCORD_BUG plants a fault in it.
@Suite("Simulation of the index") struct IndexSimulationTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let schedules = environment["CONCORD_SCHEDULES"].flatMap { UInt64($0) } ?? 200

    private static let bugs = Set(
        [environment["CONCORD_BUG"].flatMap(IndexBug.init)].compactMap(\.self))

    @Test("each document has its contents, in their order, whatever programs and kills do")
    func everyDocumentHasItsContents() throws {
        let seeds: ClosedRange<UInt64>
        if let seed = IndexSimulationTests.environment["CONCORD_SEED"].flatMap({ UInt64($0) }) {
            seeds = seed...seed
        } else {
            seeds = 1...IndexSimulationTests.schedules
        }
        var failures = 0
        for seed in seeds where failures < 4 {
            let simulation = try IndexSimulation(
                seed: seed, bugs: IndexSimulationTests.bugs,
                scansRace: IndexSimulationTests.environment["CONCORD_QUIET"] == nil)
            simulation.run()
            if let problem = simulation.problem {
                let log = simulation.log.joined(separator: "\n    ")
                Issue.record("CONCORD_SEED=\(seed): \(problem)\n    \(log)")
                failures += 1
            }
        }
    }

    @Test("a planted bug is found", arguments: IndexBug.allCases)
    func aPlantedBugIsFound(_ bug: IndexBug) throws {
        for seed in UInt64(1)...900 {
            let simulation = try IndexSimulation(seed: seed, bugs: [bug])
            simulation.run()
            if let problem = simulation.problem {
                print("\(bug): schedule \(seed): \(problem)")
                return
            }
        }
        Issue.record("\(bug) is not found")
    }
}
