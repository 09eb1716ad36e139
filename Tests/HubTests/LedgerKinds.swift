import Hub
import HubPostgres
import Model
import Support
import Testing

/// A kind of ledger.
struct LedgerKind: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// Opening the same place twice returns the same ledger.
    let open: @Sendable (_ place: String) throws -> any Ledger

    static let sqlite = LedgerKind(testDescription: "SQLite") { place in
        try SQLiteLedger(path: place + "/ledger.sqlite", mayCreate: true)
    }

    static let postgres = LedgerKind(testDescription: "PostgreSQL") { place in
        let url = try PostgresServer.database(for: place)
        return try PostgresLedger(try PostgresAddress(url), mayCreate: true)
    }

    /// The same kind, where each body of a transaction runs twice.
    var repeating: LedgerKind {
        LedgerKind(testDescription: "\(testDescription), each body twice") { place in
            RepeatingLedger(base: try open(place))
        }
    }

    static let all =
        [sqlite, sqlite.repeating]
        + (PostgresServer.obstacle == nil ? [postgres, postgres.repeating] : [])
}

/// A ledger that changes how another one, `base`, runs transactions.
protocol LedgerWrapper: Ledger {
    var base: any Ledger { get }
}

extension LedgerWrapper {
    var parallelWrites: Int { base.parallelWrites }

    func externalChangeCount() async throws -> Int64 { try await base.externalChangeCount() }

    func join(isAlone: Bool) async throws { try await base.join(isAlone: isAlone) }

    func announce(_ head: UInt64, of volume: Identifier) { base.announce(head, of: volume) }

    func announce(leases message: String, of device: Identifier, in volume: Identifier) {
        base.announce(leases: message, of: device, in: volume)
    }

    func announce(processes message: String) { base.announce(processes: message) }

    var announcements: AsyncStream<Announcement> { base.announcements }

    func integrityFaults() async throws -> [String] { try await base.integrityFaults() }

    func close() throws { try base.close() }
}

/// Runs each body of a write transaction twice, and rolls back the first run, as a ledger may that
/// lost its connection.
struct RepeatingLedger: LedgerWrapper {
    let base: any Ledger

    private struct Again: Error {}

    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LedgerTransaction) throws -> Result
    ) async throws -> Result {
        try await base.read { transaction in
            _ = try? body(transaction)
            return try body(transaction)
        }
    }

    func write<Result: Sendable>(
        _ scope: WriteScope, _ body: @escaping @Sendable (any LedgerTransaction) throws -> Result
    ) async throws -> Result {
        do {
            try await base.write(scope) { transaction in
                _ = try body(transaction)
                throw Again()
            }
        } catch {
            // The second run fails in the same way.
        }
        return try await base.write(scope, body)
    }
}
