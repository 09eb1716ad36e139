import Foundation
import Support
import Testing

private let soakMinutes = ProcessInfo.processInfo.environment["CONCORD_SOAK_MINUTES"]
    .flatMap { Double($0) }

/// Tests that take an hour; they run only in `make soak`.
@Suite("Soak", .enabled(if: soakMinutes != nil, "make soak"), .serialized)
struct SoakTests {
    @Test("random operations for CONCORD_SOAK_MINUTES, a new seed every 20,000 steps")
    func random() throws {
        let end = Date(timeIntervalSinceNow: (soakMinutes ?? 0) * 60)
        while Date() < end {
            try runRandomly(SeededRandom(named: "RandomTree")) { $0 >= 20_000 || Date() >= end }
        }
    }

    @Test("saves by 20 plain programs, with and without reading before each")
    func stale() throws {
        var random = SeededRandom(named: "StaleSaves")
        let end = Date(timeIntervalSinceNow: (soakMinutes ?? 0) * 60 / 4)
        while Date() < end {
            try StaleLoad(rounds: 50, reads: true, seed: random.next()).run()
            try StaleLoad(rounds: 20, reads: false, seed: random.next()).run()
        }
    }

    @Test("200 rounds of kill -9 under load")
    func kill() throws {
        try runKillLoop(SeededRandom(named: "KillLoop"), rounds: 200)
    }

    @Test("200 losses of power under load")
    func power() throws {
        var losses = PowerLosses(random: SeededRandom(named: "PowerLosses"))
        try losses.run(images: 200)
    }
}
