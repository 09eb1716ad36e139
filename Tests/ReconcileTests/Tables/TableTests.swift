import Journal
import Model
import Support
import Synchronization
import Testing

@testable import Hub
@testable import Reconcile

/// Runs the schedules of the exchange with the SQL of the journals and of the ledger beside the
/// tables in memory. Both must always give the same answers.
@Suite struct TableTests {
    private static let count = 100
    /// In these schedules an operation is on its way under the old id of a unified item.
    private static let rare: [UInt64] = [10_350_706_450_980_698_876, 18_340_633_546_751_281_689]

    /// What a journal does when a device signs in again is in `Sync` (`Transaction.rejoin`), which
    /// these tests do not have. Nor do they have the recorder (`VersionRecorder`), which makes a
    /// conflict version of what was replaced unseen.
    private static let hardships = Set(Hardship.allCases).subtracting([
        .signsOut, .changesHub, .copiesStore, .replacesUnseen,
    ])

    private static func schedule(_ seed: UInt64) -> SyncPlannerSchedule {
        SyncPlannerSchedule(
            devices: 3, takesTurns: seed.isMultiple(of: 5), bugs: [], mistakes: [],
            hardships: seed.isMultiple(of: 2) ? [] : hardships)
    }

    @Test(.timeLimit(.minutes(10))) func theTablesAreWhatTheSchedulesAssume() async throws {
        var random = SeededRandom(named: "Tables", usual: 1313)
        let works = try Works()
        for count in 0..<Self.count {
            let seed = count < Self.rare.count ? Self.rare[count] : random.next()
            if let fault = try await works.run(seed) {
                Issue.record("seed \(seed): \(fault)")
                return
            }
        }
    }

    @Test(arguments: JournalTwin.Plant.allCases)
    func aFaultOfTheTablesIsFound(_ plant: JournalTwin.Plant) async throws {
        try await find("\(plant)") { try await $0.run($1, plant: plant) }
    }

    private func find(_ plant: String, _ run: (Works, UInt64) async throws -> String?) async throws
    {
        var random = SeededRandom(seed: 1313)
        let works = try Works()
        for count in 1...Self.count {
            let seed = count <= Self.rare.count ? Self.rare[count - 1] : random.next()
            guard let fault = try await run(works, seed) else { continue }
            // A failure that also happens without the fault does not count.
            if try await works.run(seed) != nil { continue }
            return print("\(plant): found after \(count) schedules: \(fault)")
        }
        Issue.record("\(plant) is not found")
    }

    @Test(arguments: LedgerTwin.Plant.allCases)
    func aFaultOfTheLedgerIsFound(_ plant: LedgerTwin.Plant) async throws {
        try await find("\(plant)") { try await $0.run($1, ledgerPlant: plant) }
    }

    /// Three journals and a ledger. A schedule leaves nothing in them.
    private final class Works: Sendable {
        private struct Done: Error {}

        private let directory: TemporaryDirectory
        private let journals: [Journal]
        private let ledger: SQLiteLedger

        init() throws {
            let directory = try TemporaryDirectory("tables")
            self.directory = directory
            journals = try (0..<3).map {
                try Journal.open(path: "\(directory.path)/journal\($0)", mayCreate: true)
            }
            ledger = try SQLiteLedger(path: "\(directory.path)/ledger", mayCreate: true)
        }

        func run(
            _ seed: UInt64, plant: JournalTwin.Plant? = nil, ledgerPlant: LedgerTwin.Plant? = nil
        ) async throws -> String? {
            let fault = Mutex<String?>(nil)
            do {
                try await ledger.write { [journals] ledger -> Void in
                    let text = try Works.inside(journals, []) { journals -> String? in
                        var schedule = TableTests.schedule(seed)
                        let twins = try journals.enumerated().map {
                            try JournalTwin($1, device: .device($0), plant: plant)
                        }
                        schedule.join(twins, LedgerTwin(ledger, plant: ledgerPlant))
                        var source = EventSource<Turn>(seed: seed)
                        return schedule.run(source.events(SyncPlannerTests.length, devices: 3))
                    }
                    fault.withLock { $0 = text }
                    throw Done()
                }
            } catch is Done {
                // Everything was rolled back.
            }
            return fault.withLock { $0 }
        }

        /// Runs the body within a transaction of each journal, which is rolled back.
        private static func inside(
            _ journals: [Journal], _ open: [Transaction],
            _ body: ([Transaction]) throws -> String?
        ) throws -> String? {
            guard open.count < journals.count else { return try body(open) }
            var result: String?
            var isDone = false
            do {
                try journals[open.count].write { transaction -> Void in
                    result = try inside(journals, open + [transaction], body)
                    isDone = true
                    throw Done()
                }
            } catch {
                if !isDone { throw error }
            }
            return result
        }
    }
}
