import Model
import Support
import Testing

@testable import Hub

/// A ledger may read ahead and execute statements later. Whoever uses it must not notice.
struct LedgerRoundTripTests {
    private func withLedger(
        _ kind: LedgerKind, _ body: (any Ledger) async throws -> Void
    ) async throws {
        let scratch = try TemporaryDirectory("ledger")
        let ledger = try kind.open(scratch.path)
        try await body(ledger)
        try ledger.close()
    }

    private static func reading(_ name: String) -> LedgerStatement {
        LedgerStatement("SELECT value FROM facts WHERE name = $1", [.text(name)])
    }

    private static func setting(_ name: String, _ value: Int64) -> LedgerStatement {
        LedgerStatement(
            "UPDATE facts SET value = $1 WHERE name = $2", [.integer(value), .text(name)])
    }

    @Test("what is read ahead is as it would be without", arguments: LedgerKind.all)
    func readAhead(_ kind: LedgerKind) async throws {
        try await withLedger(kind) { ledger in
            let values: [Int64?] = try await ledger.write { transaction in
                try transaction.setFact("a", 1)
                let (a, b) = (Self.reading("a"), Self.reading("b"))
                try transaction.expect([a, b, a])
                var values = [try transaction.rows(a), try transaction.rows(b)]
                let row = LedgerRow([.integer(2)])
                #expect(
                    try transaction.executeLater(
                        Self.setting("a", 2), changes: 1, then: [a: [row]]))
                values.append(try transaction.rows(a))
                // Another statement sees it, too.
                values.append(
                    try transaction.rows("SELECT value + 0 FROM facts WHERE name = 'a'", []))
                try transaction.setFact("a", 3)
                try transaction.setFact("b", 4)
                values += [try transaction.rows(a), try transaction.rows(b)]
                return try values.map { try $0.first?.integer(0) }
            }
            #expect(values == [1, nil, 2, 2, 3, 4])
            let fact = try await ledger.read { try $0.fact("a") }
            #expect(fact == 3)
        }
    }

    @Test("a statement that does not change what it should is noticed", arguments: LedgerKind.all)
    func otherCount(_ kind: LedgerKind) async throws {
        try await withLedger(kind) { ledger in
            let isDone: Bool = try await ledger.write { transaction in
                try transaction.setFact("a", 1)
                let isDone = try transaction.executeLater(
                    Self.setting("missing", 2), changes: 1, then: [:])
                if !isDone { try transaction.setFact("a", 2) }
                return isDone
            }
            #expect(!isDone)
            let fact = try await ledger.read { try $0.fact("a") }
            #expect(fact == 2)
        }
    }

    @Test("a statement that fails later fails where it was executed", arguments: LedgerKind.all)
    func failsLater(_ kind: LedgerKind) async throws {
        try await withLedger(kind) { ledger in
            try await ledger.write { transaction in
                try transaction.setFact("a", 1)
                do {
                    try transaction.nested {
                        try transaction.setFact("b", 1)
                        // The row exists.
                        try transaction.executeLater(
                            "INSERT INTO facts (name, value) VALUES ($1, $2)",
                            [.text("a"), .integer(2)])
                    }
                } catch {
                    try transaction.setFact("c", 1)
                }
                try transaction.executeLater(
                    "INSERT INTO facts (name, value) VALUES ($1, $2)", [.text("d"), .integer(1)])
            }
            let facts = try await ledger.read { transaction in
                try ["a", "b", "c", "d"].map { try transaction.fact($0) }
            }
            #expect(facts == [1, nil, 1, 1])
        }
    }

    private struct Stop: Error {}

    @Test("what throws leaves nothing of what was to be executed", arguments: LedgerKind.all)
    func nothingLeft(_ kind: LedgerKind) async throws {
        try await withLedger(kind) { ledger in
            await #expect(throws: Stop.self) {
                try await ledger.write { transaction in
                    try transaction.executeLater(
                        "INSERT INTO facts (name, value) VALUES ($1, $2)",
                        [.text("a"), .integer(1)])
                    throw Stop()
                }
            }
            let fact = try await ledger.read { try $0.fact("a") }
            #expect(fact == nil)
            // The connection can be used.
            try await ledger.write { try $0.setFact("a", 5) }
        }
    }
}
