import Support
import Synchronization
import Testing

@testable import Hub

/// Runs schedules of the steps in which the hub does large operations, on a real ledger.
@Suite struct StepTests {
    private static let count = 60

    @Test(.timeLimit(.minutes(10))) func nothingIsLostBetweenTheSteps() async throws {
        var random = SeededRandom(named: "Steps", usual: 1426)
        let ledger = try Works()
        var counts: [String: Int] = [:]
        for _ in 0..<Self.count {
            let seed = random.next()
            let found = try await ledger.run(seed)
            counts.merge(found.counts, uniquingKeysWith: +)
            if let fault = found.fault {
                Issue.record("seed \(seed): \(fault)")
                return
            }
        }
        // The schedules contain what they are for.
        for kind in [
            "commits", "walks", "uses", "revivals", "thinning", "drops", "ends", "collections",
            "restarts",
        ] { #expect(counts[kind] ?? 0 > 0, "\(kind)") }
    }

    @Test(arguments: StepPlant.allCases) func aFaultIsFound(_ plant: StepPlant) async throws {
        var random = SeededRandom(seed: 1426)
        let ledger = try Works()
        for count in 1...Self.count {
            let seed = random.next()
            guard let fault = try await ledger.run(seed, plant: plant).fault else { continue }
            return print("\(plant): found after \(count) schedules: \(fault)")
        }
        Issue.record("\(plant) is not found")
    }

    /// A ledger in which a schedule leaves nothing.
    private final class Works: Sendable {
        private struct Done: Error {}

        private let directory: TemporaryDirectory
        private let ledger: SQLiteLedger

        init() throws {
            directory = try TemporaryDirectory("steps")
            ledger = try SQLiteLedger(path: "\(directory.path)/ledger", mayCreate: true)
        }

        func run(
            _ seed: UInt64, plant: StepPlant? = nil
        ) async throws -> (fault: String?, counts: [String: Int]) {
            let found = Mutex<(fault: String?, counts: [String: Int])>((nil, [:]))
            do {
                try await ledger.write { transaction -> Void in
                    var schedule = try StepSchedule(seed: seed, plant: plant, transaction)
                    var fault: String?
                    do { try schedule.run() } catch { fault = "\(error)" }
                    found.withLock { $0 = (fault ?? schedule.fault, schedule.counts) }
                    throw Done()
                }
            } catch is Done {
                // Everything was rolled back.
            }
            return found.withLock { $0 }
        }
    }
}
