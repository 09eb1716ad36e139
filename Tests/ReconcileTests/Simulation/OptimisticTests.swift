import Foundation
import Support
import Testing

@testable import Reconcile

/// Random schedules over the decision table; each operation is checked. `CONCORD_SEED` repeats a
/// run, and `CONCORD_SCHEDULES` sets the number of schedules.
@Suite struct OptimisticTests {
    static let count =
        ProcessInfo.processInfo.environment["CONCORD_SCHEDULES"].flatMap(Int.init) ?? 10_000
    static let length = 80

    private static func events(_ seed: UInt64) -> [Event<Step>] {
        var source = EventSource<Step>(seed: seed)
        return source.events(length, devices: 3)
    }

    private static func fault(_ hub: some Judgement, _ events: [Event<Step>]) -> String? {
        var schedule = OptimisticSchedule(hub, devices: 3)
        return schedule.run(events)
    }

    @Test(.timeLimit(.minutes(30))) func nothingIsLostAndNobodyDiffers() async {
        var random = SeededRandom(named: "Decision")
        let half = (Self.count + 1) / 2
        let (first, second) = (random.fork(), random.fork())
        async let other = Self.search(first, half)
        let mine = await Self.search(second, half)
        var coverage: [String: Int] = mine.coverage
        for (what, count) in await other.coverage { coverage[what, default: 0] += count }
        for seed in [mine.failure, await other.failure].compactMap({ $0 }) { Self.report(seed) }
        let lines = coverage.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
        print("of \(Self.count) schedules: \(lines.joined(separator: ", "))")
        let rare = [
            "alreadyGone", "bounced", "bouncedTwice", "conflict", "cycle", "equal", "merged",
            "newerMove", "newerValue", "oneFile", "oneFolder", "partly", "revived", "unseenChange",
        ]
        if Self.count >= 10_000 {
            for what in rare { #expect(coverage[what] ?? 0 > 0, "\(what) never happens") }
        }
    }

    /// These schedules failed once. Random ones find such a fault once in some tens of thousands.
    @Test(
        arguments: [
            // A device edits what it has made under the id of the item that it expected it to
            // become.
            689_086_814_410_217_482, 6_261_956_095_149_095_175, 11_493_699_028_887_160_895,
            10_051_175_159_516_023_983,
        ] as [UInt64]) func whatWasWrongIsRight(_ seed: UInt64)
    {
        if Self.fault(Soundness(), Self.events(seed)) != nil { Self.report(seed) }
    }

    /// Returns the seed of the first schedule that failed.
    @concurrent private static func search(_ random: SeededRandom, _ count: Int) async
        -> (failure: UInt64?, coverage: [String: Int])
    {
        var random = random
        var coverage: [String: Int] = [:]
        for index in 0..<count {
            let seed = random.next()
            let events = events(seed)
            var schedule = OptimisticSchedule(Soundness(), devices: 3)
            if schedule.run(events) != nil { return (seed, coverage) }
            for (what, count) in schedule.ghost.coverage { coverage[what, default: 0] += count }
            if index % 100 == 0 {
                var again = OptimisticSchedule(Soundness(), devices: 3)
                _ = again.run(events)
                if again.trace != schedule.trace { return (seed, coverage) }
            }
        }
        return (nil, coverage)
    }

    private static func report(_ seed: UInt64) {
        let events = events(seed)
        guard fault(Soundness(), events) != nil else {
            _ = Issue.record("seed \(seed): not the same twice")
            return
        }
        let few = shrunk(events) { fault(Soundness(), $0) != nil }
        let lines = few.map(\.description).joined(separator: "\n")
        Issue.record("seed \(seed): \(fault(Soundness(), few) ?? "")\n\(lines)")
    }

    @Test(arguments: PlantedBug.allCases) func aPlantedBugIsFound(_ bug: PlantedBug) {
        var random = SeededRandom(seed: 7)
        for count in 1...Self.patience {
            guard let fault = Self.fault(Tampered(bug: bug), Self.events(random.next())) else {
                continue
            }
            return print("\(bug): found after \(count) schedules: \(fault)")
        }
        Issue.record("\(bug) is not found")
    }

    /// The number of schedules within which a planted bug must be found: a tenth of all.
    private static let patience = 1_000
}
