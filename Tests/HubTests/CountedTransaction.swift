import Model
import Synchronization

@testable import Hub

/// Counts the statements of a transaction.
struct CountedTransaction: LedgerTransaction {
    let base: any LedgerTransaction
    let counts = Counts()

    final class Counts: Sendable {
        let statements = Mutex(0)
        let texts = Mutex<[String]>([])
    }

    var run: Identifier { base.run }

    var dialect: SQLDialect { base.dialect }

    private func count(_ sql: String) {
        counts.statements.withLock { $0 += 1 }
        counts.texts.withLock { $0.append(sql) }
    }

    func rows(_ sql: String, _ arguments: [SQLValue]) throws -> [LedgerRow] {
        count(sql)
        return try base.rows(sql, arguments)
    }

    func execute(_ sql: String, _ arguments: [SQLValue]) throws -> Int {
        count(sql)
        return try base.execute(sql, arguments)
    }

    func nested<Result>(_ body: () throws -> Result) throws -> Result { try base.nested(body) }
}
