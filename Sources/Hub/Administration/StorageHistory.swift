import HubProtocol
import Model

/// How much the hub has stored on each of the last days: facts of the ledger, one a day.
package struct StorageHistory {
    private let transaction: any LedgerTransaction

    package init(_ transaction: any LedgerTransaction) { self.transaction = transaction }

    package struct Day: Hashable, Sendable {
        /// Days since 1970.
        package let number: Int64
        package let bytes: UInt64
    }

    private static let prefix = "stored-"
    private static let days: Int64 = 365

    /// The days of which something is known, the first one first.
    package func all() throws -> [Day] {
        try transaction.rows(
            "SELECT name, value FROM facts WHERE name LIKE 'stored-%'", []
        ).compactMap { row in
            guard let number = Int64(try row.text(0).dropFirst(StorageHistory.prefix.count)) else {
                return nil
            }
            return Day(number: number, bytes: try row.count(1))
        }.sorted { $0.number < $1.number }
    }

    /// Notes what is stored today, and forgets what is older than a year.
    func note(_ bytes: UInt64, at time: Int64) throws {
        let today = time / Timestamp.span(seconds: 86_400)
        try transaction.setFact("\(StorageHistory.prefix)\(today)", Int64(clamping: bytes))
        for day in try all() where day.number <= today - StorageHistory.days {
            try transaction.removeFact("\(StorageHistory.prefix)\(day.number)")
        }
    }
}

/// When the hub was last maintained, in nanoseconds since 1970; nil for what was never done.
package struct MaintenanceTimes: Sendable {
    package let collected: Int64?
    package let backedUp: Int64?

    package init(_ transaction: any LedgerTransaction) throws {
        collected = try transaction.fact(Fact.collected)
        backedUp = try transaction.fact(Fact.backedUp)
    }
}

extension Fact {
    /// When the last collection ended.
    static let collected = "collected"
    /// When the last backup by `concord hub backup` was complete.
    static let backedUp = "backed-up"
}
