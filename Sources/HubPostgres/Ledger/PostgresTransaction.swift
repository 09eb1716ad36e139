import Hub
import Model

/// A transaction on one connection.
///
/// It makes no savepoint for `nested` at first, because each costs two round trips, and many in one
/// transaction make PostgreSQL slow. If the body of a `nested` call throws, its changes cannot be
/// rolled back alone; the whole transaction is then rolled back and run again with savepoints.
///
/// A round trip takes longer than most statements. So statements whose results are expected are
/// sent without waiting, and reads that are announced (`expect`) are made together.
final class PostgresTransaction: LedgerTransaction {
    private let session: PostgresSession
    private let hasSavepoints: Bool
    private let isReading: Bool
    /// Whether the transaction must be run again with savepoints.
    private(set) var needsSavepoints = false
    /// The first error of a statement that was not rolled back to a savepoint. PostgreSQL executes
    /// nothing more in such a transaction.
    private(set) var fault: PostgresFault?

    /// The statements that were sent without waiting for their results: how many rows each must
    /// change, if that is known.
    private var sent: [Int?] = []
    /// What is known of the transaction's state: what was read ahead, and what it has changed
    /// since.
    private var known: [LedgerStatement: [LedgerRow]] = [:]

    /// Ends a body whose transaction is run again.
    private struct Repetition: Error {}

    init(_ session: PostgresSession, hasSavepoints: Bool) {
        self.session = session
        self.hasSavepoints = hasSavepoints
        isReading = false
    }

    /// Begins a transaction that only reads, which is told to the server with its first statement.
    init(reading session: PostgresSession) throws {
        self.session = session
        hasSavepoints = true
        isReading = true
        try send("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", [])
        sent = [nil]
    }

    var run: Identifier { session.run }

    let dialect = SQLDialect.postgres

    func rows(_ sql: String, _ arguments: [SQLValue]) throws -> [LedgerRow] {
        if !known.isEmpty, let rows = known[LedgerStatement(sql, arguments)] { return rows }
        return try result(sql, arguments).rows
    }

    func execute(_ sql: String, _ arguments: [SQLValue]) throws -> Int {
        known = [:]
        return try result(sql, arguments).changed
    }

    private func result(_ sql: String, _ arguments: [SQLValue]) throws -> PostgresResult {
        try check()
        guard !sent.isEmpty else {
            return try noting { () throws(PostgresFault) in
                try session.connection.query(sql, arguments)
            }
        }
        try send(sql, arguments)
        return try takeResults(after: sent).first ?? PostgresResult()
    }

    private func check() throws {
        if needsSavepoints { throw Repetition() }
        if let fault { throw fault }
    }

    private func noting<Value>(_ body: () throws(PostgresFault) -> Value) throws(PostgresFault)
        -> Value
    {
        do { return try body() } catch {
            fault = error
            throw error
        }
    }

    // MARK: Round trips

    func known(_ read: LedgerStatement) -> [LedgerRow]? { known[read] }

    func expect(_ reads: [LedgerStatement]) throws {
        try check()
        // With savepoints, what was changed may be rolled back.
        guard isReading || !hasSavepoints else { return }
        var new: [LedgerStatement] = []
        for read in Set(reads) where known[read] == nil {
            try send(read.sql, read.arguments)
            new.append(read)
        }
        guard !new.isEmpty else { return }
        for (read, result) in zip(new, try takeResults(after: sent)) { known[read] = result.rows }
    }

    func executeLater(
        _ statement: LedgerStatement, changes count: Int?,
        then reads: [LedgerStatement: [LedgerRow]]
    ) throws -> Bool {
        try check()
        guard !hasSavepoints else {
            let changed = try result(statement.sql, statement.arguments).changed
            return count.map { $0 == changed } ?? true
        }
        try send(statement.sql, statement.arguments)
        sent.append(count)
        known.merge(reads) { $1 }
        return true
    }

    private func send(_ sql: String, _ arguments: [SQLValue]) throws {
        do throws(PostgresFault) { try session.connection.send(sql, arguments) } catch {
            throw failure(error, isOfOther: !sent.isEmpty)
        }
    }

    /// Waits for the statements that were sent.
    func finish() throws {
        try check()
        if !sent.isEmpty { _ = try takeResults(after: sent) }
    }

    /// Returns the results of what was sent after these statements, if they did what they should.
    /// If not, the transaction is run again with each statement by itself, which shows what to do.
    private func takeResults(after changes: [Int?]) throws -> ArraySlice<PostgresResult> {
        sent = []
        let results: [PostgresResult]
        do throws(PostgresFault) { results = try session.connection.finish() } catch {
            throw failure(error, isOfOther: !changes.isEmpty)
        }
        for (result, count) in zip(results, changes)
        where count.map({ $0 != result.changed }) ?? false {
            needsSavepoints = true
            throw Repetition()
        }
        return results.dropFirst(changes.count)
    }

    /// - Parameter isOfOther: Whether it may be the fault of a statement that was executed later.
    private func failure(_ error: PostgresFault, isOfOther: Bool) -> any Error {
        if isOfOther, !error.isTransient, !isReading {
            needsSavepoints = true
            return Repetition()
        }
        fault = error
        return error
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
        try finish()
        _ = try noting { () throws(PostgresFault) in try session.connection.run(sql) }
    }
}
