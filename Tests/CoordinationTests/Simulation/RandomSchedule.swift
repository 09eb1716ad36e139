import Support
import Testing

/// Random events from a seed. `run` returns the rule that was broken, or nil.
protocol RandomSchedule {
    associatedtype Bug

    init(seed: UInt64, bug: Bug?)
    mutating func run() -> String?
}

extension RandomSchedule {
    /// Records an issue if one of `count` schedules breaks a rule.
    static func expectNoFault(named name: String, in count: Int) {
        var random = SeededRandom(named: name)
        for _ in 0..<max(1, count) {
            let seed = random.next()
            var schedule = Self(seed: seed, bug: nil)
            guard let fault = schedule.run() else { continue }
            Issue.record("schedule \(seed): \(fault)")
            return
        }
    }

    /// Records an issue if 500 schedules do not find a planted bug.
    static func expectFault(of bug: Bug, seed: UInt64) {
        var random = SeededRandom(seed: seed)
        for count in 1...500 {
            var schedule = Self(seed: random.next(), bug: bug)
            guard let fault = schedule.run() else { continue }
            return print("\(bug): found after \(count) schedules: \(fault)")
        }
        Issue.record("\(bug) is not found")
    }
}
