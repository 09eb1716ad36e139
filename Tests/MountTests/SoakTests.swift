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

    @Test(
        "100,000 saves by 20 plain programs: reading before each, or only once",
        arguments: [true, false])
    func stale(reads: Bool) throws {
        var random = SeededRandom(named: "StaleSaves")
        // All conflict versions are kept, so programs that do not read save less to one document.
        let perVolume = reads ? 5000 : 400
        var left =
            ProcessInfo.processInfo.environment["CONCORD_STALE_SAVES"]
            .flatMap { Int($0) } ?? 100_000
        while left > 0 {
            let rounds = (min(left, perVolume) + 19) / 20
            try StaleLoad(rounds: rounds, reads: reads, seed: random.next()).run()
            left -= 20 * rounds
        }
    }

    @Test("one of three interleaved sessions on 1,000 documents is undone")
    func sessions() throws { try SessionTests().undo(count: 1000) }

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
