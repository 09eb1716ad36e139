import Glibc
import Hub
import Model
import Synchronization

/// A ledger in a PostgreSQL database, which several processes may use at the same time.
package final class PostgresLedger: Ledger {
    private let address: PostgresAddress
    /// Writers wait for each other's locks, so they have threads of their own.
    private let readers = PostgresWorkers(limit: 6)
    private let writers = PostgresWorkers(limit: PostgresLedger.writers)
    private static let writers = 6
    private let announcer: PostgresAnnouncer
    /// Until when the server counts as unreachable, and why, after an attempt that took long.
    /// Without this, requests would wait for it one after the other.
    private let outage = Mutex<(fault: PostgresFault, end: ContinuousClock.Instant)?>(nil)
    /// The number of own transactions that `ledger.changes` counts.
    private let ownChanges = Atomic<Int64>(0)

    /// Opens the ledger, or creates it in the database if there is none and `mayCreate` is true.
    ///
    /// - Throws: `.notFound`, `.newer`, `.denied`, `.offline`, `.invalid` (the server may lose what
    ///   was committed).
    package init(_ address: PostgresAddress, mayCreate: Bool) throws(VolumeError) {
        self.address = address
        announcer = PostgresAnnouncer(address)
        do {
            try LedgerTables.migrate(
                try PostgresSession(address).connection, of: address, mayCreate: mayCreate)
        } catch {
            throw address.error(error)
        }
    }

    deinit { announcer.close() }

    package var parallelWrites: Int { Self.writers }

    // MARK: Other hubs

    package func join(isAlone: Bool) throws {
        do { try announcer.start(isAlone: isAlone) } catch { throw address.error(error) }
    }

    package func announce(_ head: UInt64, of volume: Identifier) {
        announcer.announce(head, of: volume)
    }

    package func announce(leases message: String, of device: Identifier, in volume: Identifier) {
        announcer.announce(leases: message, of: device, in: volume)
    }

    package func announce(processes message: String) { announcer.announce(processes: message) }

    package var announcements: AsyncStream<Announcement> { announcer.announcements }

    // MARK: Transactions

    package func read<Value: Sendable>(
        _ body: @escaping @Sendable (any LedgerTransaction) throws -> Value
    ) async throws -> Value {
        try await readers.run { [self] session in
            try repeated(&session) { session in
                let transaction = try PostgresTransaction(reading: session)
                let value = try body(transaction)
                if let fault = transaction.fault { throw fault }
                try session.connection.end("COMMIT")
                return value
            }
        }
    }

    package func write<Value: Sendable>(
        _ scope: WriteScope, _ body: @escaping @Sendable (any LedgerTransaction) throws -> Value
    ) async throws -> Value {
        try await writers.run { [self] session in
            try repeated(&session) { session in
                if let value = try attempt(scope, &session, hasSavepoints: false, body) {
                    return value
                }
                guard let value = try attempt(scope, &session, hasSavepoints: true, body) else {
                    throw VolumeError(.system, "A transaction of the ledger did not end.")
                }
                return value
            }
        }
    }

    /// - Returns: Nil if the body must run again with savepoints.
    private func attempt<Value>(
        _ scope: WriteScope, _ session: inout PostgresSession, hasSavepoints: Bool,
        _ body: (any LedgerTransaction) throws -> Value
    ) throws -> Value? {
        session.lastTransaction += 1
        let note = LedgerTables.note(session.lastTransaction, of: session.id)
        try session.connection.run(
            "BEGIN ISOLATION LEVEL READ COMMITTED; \(LedgerTables.locks(scope)) \(note)")
        let transaction = PostgresTransaction(session, hasSavepoints: hasSavepoints)
        let outcome = Result {
            let value = try body(transaction)
            try transaction.finish()
            return value
        }
        guard !transaction.needsSavepoints else {
            try session.connection.run("ROLLBACK")
            return nil
        }
        if let fault = transaction.fault { throw fault }
        let value = try outcome.get()
        let isCounted = scope == .everything
        if isCounted { try session.connection.run("UPDATE ledger SET changes = changes + 1") }
        try commit(&session)
        if isCounted { ownChanges.wrappingAdd(1, ordering: .relaxed) }
        return value
    }

    /// Commits. If the connection breaks before the answer, looks whether the transaction's number
    /// is in the database.
    private func commit(_ session: inout PostgresSession) throws {
        do {
            let tag = try session.connection.run("COMMIT").tag
            guard tag == "COMMIT" else {
                throw PostgresFault(sqlState: "25P02", message: "the transaction was rolled back")
            }
        } catch let fault as PostgresFault where fault.endsConnection {
            let (broken, start) = (session, ContinuousClock.now)
            while ContinuousClock.now - start < Self.patience {
                usleep(100_000)
                guard let new = try? PostgresSession(address) else { continue }
                session = new
                guard let number = try? new.lastNumber(of: broken) else { continue }
                if number == broken.lastTransaction { return }
                throw fault
            }
            throw VolumeError(
                .offline,
                "The connection to the ledger's database \(address.name) broke (\(fault)), and it "
                    + "is not known whether the last change was kept.")
        }
    }

    /// How long the server is asked for the outcome of a transaction.
    private static let patience = Duration.seconds(10)
    /// How often a transaction is tried.
    private static let attempts = 5

    /// Runs `body` until it succeeds or fails for a reason that lasts.
    private func repeated<Value>(
        _ session: inout PostgresSession?,
        _ body: (inout PostgresSession) throws -> Value
    ) throws -> Value {
        for attempt in 1... {
            do {
                if let objection = announcer.objection { throw objection }
                var current = try session ?? connect()
                session = nil
                defer { session = current }
                return try body(&current)
            } catch {
                let fault = error as? PostgresFault
                // A connection that cannot be made is not tried again: others wait, too.
                let hadSession = session != nil
                if fault?.endsConnection == true {
                    session = nil
                } else if (try? session?.connection.run("ROLLBACK")) == nil {
                    session = nil
                }
                guard fault?.isTransient == true, hadSession, attempt < Self.attempts else {
                    throw fault.map { $0.error(of: address.name) } ?? error
                }
                if fault?.endsConnection == false { usleep(UInt32.random(in: 1_000...20_000)) }
            }
        }
        fatalError("the loop does not end")
    }

    private func connect() throws -> PostgresSession {
        let start = ContinuousClock.now
        if let known = outage.withLock({ $0 }), start < known.end { throw known.fault }
        do { return try PostgresSession(address) } catch let fault as PostgresFault {
            let now = ContinuousClock.now
            if now - start > .seconds(1) {
                outage.withLock { $0 = (fault, now.advanced(by: .seconds(3))) }
            }
            throw fault
        }
    }

    // MARK: The rest of the contract

    package func externalChangeCount() async throws -> Int64 {
        let all = try await read { transaction in
            try transaction.row("SELECT changes FROM ledger", [])?.integer(0) ?? 0
        }
        return all - ownChanges.load(ordering: .relaxed)
    }

    /// PostgreSQL checks its pages itself if the cluster has checksums.
    package func integrityFaults() -> [String] { [] }

    package func close() throws {
        announcer.close()
        readers.close()
        writers.close()
    }
}

extension PostgresSession {
    /// Returns the number of the last write transaction of another session that was committed.
    fileprivate func lastNumber(of other: PostgresSession) throws -> Int64? {
        let row = try connection.run(LedgerTables.lastNumber(of: other.id)).rows.first
        return try row.flatMap { Int64(try $0.text(0)) }
    }
}

extension PostgresAddress {
    /// Converts an error of the client; other errors stay as they are.
    func error(_ error: any Error) -> VolumeError {
        if let fault = error as? PostgresFault { return fault.error(of: name) }
        return error as? VolumeError
            ?? VolumeError(.system, "The ledger's database \(name) cannot be used: \(error).")
    }
}

/// Opens a hub's ledger in PostgreSQL.
package struct PostgresSource: LedgerSource {
    private let address: PostgresAddress

    package init(_ address: PostgresAddress) { self.address = address }

    package var name: String { "the database \(address.name)" }

    package func exists() throws(VolumeError) -> Bool {
        do {
            return try LedgerTables.exist(in: try PostgresSession(address).connection)
        } catch {
            throw address.error(error)
        }
    }

    package func open(mayCreate: Bool) throws(VolumeError) -> any Ledger {
        try PostgresLedger(address, mayCreate: mayCreate)
    }
}
