import Hub
import Model

/// A transaction on one connection.
///
/// It makes no savepoint for `nested` at first, because each costs two round trips, and many in one
/// transaction make PostgreSQL slow. If the body of a `nested` call throws, its changes cannot be
/// rolled back alone; the whole transaction is then rolled back and run again with savepoints.
final class PostgresTransaction: LedgerTransaction {
    private let session: PostgresSession
    private let hasSavepoints: Bool
    /// Whether the transaction must be run again with savepoints.
    private(set) var needsSavepoints = false
    /// The first error of a statement that was not rolled back to a savepoint. PostgreSQL executes
    /// nothing more in such a transaction.
    private(set) var fault: PostgresFault?

    /// Ends a body whose transaction is run again.
    private struct Repetition: Error {}

    init(_ session: PostgresSession, hasSavepoints: Bool) {
        self.session = session
        self.hasSavepoints = hasSavepoints
    }

    var run: Identifier { session.run }

    let dialect = SQLDialect.postgres

    func rows(_ sql: String, _ arguments: [SQLValue]) throws -> [LedgerRow] {
        try result(sql, arguments).rows
    }

    func execute(_ sql: String, _ arguments: [SQLValue]) throws -> Int {
        try result(sql, arguments).changed
    }

    private func result(_ sql: String, _ arguments: [SQLValue]) throws -> PostgresResult {
        if needsSavepoints { throw Repetition() }
        if let fault { throw fault }
        return try noting { () throws(PostgresFault) in
            try session.connection.query(sql, arguments)
        }
    }

    private func noting<Value>(_ body: () throws(PostgresFault) -> Value) throws(PostgresFault)
        -> Value
    {
        do { return try body() } catch {
            fault = error
            throw error
        }
    }

    func nested<Value>(_ body: () throws -> Value) throws -> Value {
        guard hasSavepoints else {
            do { return try body() } catch {
                if fault?.isTransient != true { needsSavepoints = true }
                throw Repetition()
            }
        }
        try command("SAVEPOINT nested")
        do {
            let value = try body()
            try command("RELEASE SAVEPOINT nested")
            return value
        } catch {
            if fault?.isTransient != true {
                fault = nil
                try command("ROLLBACK TO SAVEPOINT nested; RELEASE SAVEPOINT nested")
            }
            throw error
        }
    }

    private func command(_ sql: String) throws {
        if let fault { throw fault }
        _ = try noting { () throws(PostgresFault) in try session.connection.run(sql) }
    }
}
