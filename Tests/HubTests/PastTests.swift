import HubProtocol
import Model
import Reconcile
import Support
import Synchronization
import Testing

@testable import Hub

/// What a ledger knows of the past: when the journal was where, where items were, and which version
/// of a document was current. The schedules of `TableTests` compare it with tables in memory.
struct PastTests {
    private static let second: Int64 = 1_000_000_000
    private let volume = VolumeRow.example(.random())

    private func withLedger(
        _ kind: LedgerKind, _ body: (any Ledger) async throws -> Void
    ) async throws {
        let scratch = try TemporaryDirectory("ledger")
        let ledger = try kind.open(scratch.path)
        try await ledger.write { [volume] transaction in
            try transaction.addAccount(volume.account, name: "anna", quota: nil, at: 1)
            try transaction.addVolume(volume, at: 2)
        }
        try await body(ledger)
        try ledger.close()
    }

    @Test(arguments: LedgerKind.all) func timesAreFewAndNeverGoBack(_ kind: LedgerKind) async throws
    {
        try await withLedger(kind) { ledger in
            let (volume, second) = (volume.id, Self.second)
            try await ledger.write { transaction in
                // One change a second for ten minutes.
                for head in 1...600 {
                    try JournalTimes(transaction, volume: volume).note(
                        UInt64(head), at: Int64(head) * second)
                }
                // The clock was set back, and a position is not noted twice.
                for head in [601, 602, 602] {
                    try JournalTimes(transaction, volume: volume).note(UInt64(head), at: 5)
                }
            }
            let (count, found) = try await ledger.read { transaction in
                let times = JournalTimes(transaction, volume: volume)
                let count = try transaction.row("SELECT count(*) FROM journal_times", [])
                return (
                    try count?.integer(0) ?? 0,
                    [
                        try times.last(upTo: 0), try times.last(upTo: 7 * second),
                        try times.last(before: 8), try times.first(from: 8),
                        try times.last(upTo: .max), try times.first(from: 603),
                    ]
                )
            }
            #expect(count < 90)
            let seventh = JournalMoment(position: 7, time: 7 * second)
            #expect(found[0] == nil && found[1] == seventh && found[2] == seventh)
            #expect(found[3] == JournalMoment(position: 8, time: 8 * second))
            let last = try #require(found[4])
            #expect(last.position == 602 && last.time >= 590 * second && found[5] == nil)
            // What is shown for a time is at most ten seconds newer.
            for time in stride(from: Int64(1), through: 600, by: 7) {
                let moment = try await ledger.read {
                    try JournalTimes($0, volume: volume).last(upTo: time * second)
                }
                let position = Int64(clamping: try #require(moment).position)
                #expect(abs(position - time) <= 11, "\(time)")
            }
        }
    }

    private static func document(
        _ id: Identifier, _ name: String, _ sequence: UInt64, _ current: Revision?
    ) -> ItemState {
        let placement = Placement(
            parent: .root, name: name, key: NameKey(Array(name.utf8)), spare: name,
            spareKey: NameKey([1]))
        return ItemState(
            id: id, kind: .file, placement: placement, placedBy: .unknown,
            placedAt: Moment(time: 0, device: .root), placedSequence: sequence, current: current,
            sequence: sequence)
    }

    private static func revision(_ sequence: UInt64) -> Revision {
        Revision(
            id: .random(), parents: [], content: .sha256([UInt8(sequence)]), size: sequence,
            moment: Moment(time: 1, device: .root), sequence: sequence)
    }

    @Test(arguments: LedgerKind.all) func placesAndVersionsAreKnown(_ kind: LedgerKind) async throws
    {
        try await withLedger(kind) { ledger in
            let (volume, id, other) = (volume.id, Identifier.random(), Identifier.random())
            let revisions = [Self.revision(1), Self.revision(2), Self.revision(3)]
            try await ledger.write { transaction in
                var table = LedgerTable(transaction, volume: volume, time: 0)
                func put(_ item: ItemState, at sequence: UInt64) throws {
                    table.sequence = sequence
                    try table.put(item)
                }
                try put(Self.document(id, "a", 1, revisions[0]), at: 1)
                try table.record(revisions[0], of: id)
                table.sequence = 2
                try table.record(revisions[1], of: id)
                // The second version is in conflict.
                try put(Self.document(id, "a", 1, revisions[0]), at: 2)
                table.sequence = 3
                try table.record(revisions[2], of: id)
                try put(Self.document(id, "a", 1, revisions[2]), at: 3)
                try put(Self.document(id, "b", 4, revisions[2]), at: 4)
                var gone = Self.document(id, "b", 4, revisions[2])
                gone.life = .trashed(batch: .unknown, sequence: 5)
                try put(gone, at: 5)
                try put(Self.document(id, "b", 4, revisions[2]), at: 6)
                try put(Self.document(other, "a", 7, nil), at: 7)
            }
            let found = try await ledger.read { transaction in
                let past = PastTable(transaction, volume: volume)
                return try (UInt64(0)...7).map { position in
                    var (names, cursor) = ([String](), PastCursor?.none)
                    repeat {
                        let page = try past.page(
                            of: .root, at: position, after: cursor, limit: 1)
                        names += page.items.map(\.name)
                        cursor = page.next
                    } while cursor != nil
                    return (names.sorted(), try past.current(of: id, at: position)?.size)
                }
            }
            #expect(found.map(\.0) == [[], ["a"], ["a"], ["a"], ["b"], [], ["b"], ["a", "b"]])
            #expect(found.map(\.1) == [nil, 1, 1, 3, 3, 3, 3, 3])
        }
    }

    @Test(arguments: LedgerKind.all) func placesOfOneItemAreBounded(_ kind: LedgerKind) async throws
    {
        try await withLedger(kind) { ledger in
            let (volume, account, id) = (volume.id, volume.account, Identifier.random())
            let most = PastTable.placesPerItem
            let (count, growth, size) = try await ledger.write { transaction in
                var table = LedgerTable(transaction, volume: volume, time: 0)
                for sequence in 1...most + 50 {
                    table.sequence = UInt64(sequence)
                    try table.put(Self.document(id, "name \(sequence)", UInt64(sequence), nil))
                }
                let count = try transaction.row("SELECT count(*) FROM past_places", [])
                return (
                    try count?.integer(0), table.takeGrowth(),
                    try transaction.size(ofAccount: account)
                )
            }
            #expect(count == Int64(most))
            #expect(growth == Int64(size), "what is removed is no longer charged")
        }
    }

    @Test(arguments: LedgerKind.all) func anOlderLedgerLearnsItsTimes(_ kind: LedgerKind)
        async throws
    {
        let scratch = try TemporaryDirectory("ledger")
        let (volume, second) = (volume, Self.second)
        let isSQLite = kind.testDescription.hasPrefix("SQLite")
        let ledger = try kind.open(scratch.path)
        try await ledger.write { transaction in
            try transaction.addAccount(volume.account, name: "anna", quota: nil, at: 1)
            try transaction.addVolume(volume, at: 2)
            try transaction.setHead(of: volume.id, 9)
            for (sequence, time) in [(1, 10), (2, 20), (3, 200), (4, 5000)] {
                try transaction.addRevision(
                    Self.revision(UInt64(sequence)), of: .root,
                    content: RevisionContent(manifest: [], chunks: []), in: volume.id,
                    at: Int64(time) * second)
            }
            try transaction.dropThePast()
            let version = LedgerSchema.steps.count - 6
            try transaction.execute(
                isSQLite
                    ? "PRAGMA user_version = \(version)" : "UPDATE ledger SET version = \(version)",
                [])
        }
        try ledger.close()
        let migrated = try kind.open(scratch.path)
        let (moments, first) = try await migrated.read { transaction in
            let times = JournalTimes(transaction, volume: volume.id)
            return (
                try [10, 20, 200, 6000].map { try times.last(upTo: $0 * second) },
                try PastTable(transaction, volume: volume.id).firstKnown()
            )
        }
        #expect(moments.map { $0?.position } == [nil, 2, 3, 4])
        #expect(first == 9, "nothing is known of places before")
        try migrated.close()
    }

    /// Removing an account removes all rows of its volumes.
    @Test func allTablesOfVolumesAreKnown() throws {
        var tables: Set<Substring> = []
        for step in LedgerSchema.steps {
            for table in step.matches(of: /CREATE TABLE (\w+) \(([^;]*?)\n\)/)
            where table.2.contains(" volume BYTEA") {
                tables.insert(table.1)
            }
        }
        // It became `revivals`.
        tables.remove("revivals_2")
        #expect(tables == Set(LedgerSchema.volumeTables.map { Substring($0) }))
        #expect(tables.count > 10)
    }

    /// A directory or a document with a million rows must not be read for a page.
    @Test func noStatementReadsAWholeTable() async throws {
        try await withLedger(.sqlite) { ledger in
            let (volume, id) = (volume.id, Identifier.random())
            _ = try await ledger.write {
                try $0.execute("UPDATE volumes SET unplaced = 3 WHERE id = $1", [.id(volume)])
            }
            let plans = try await ledger.read { transaction -> [String] in
                let watched = PlannedTransaction(base: transaction)
                let (past, times) = (
                    PastTable(watched, volume: volume), JournalTimes(watched, volume: volume)
                )
                let after = PastCursor.item(key: NameKey([1]), alive: 1, id: id)
                // Before position 3 the places are not known.
                _ = try past.page(of: id, at: 2, after: after, limit: 10)
                _ = try past.page(of: id, at: 5, after: nil, limit: 10)
                _ = try past.page(of: id, at: 5, after: .place(stop: 3, item: id), limit: 10)
                _ = try past.hasMore(than: 10, in: id)
                _ = try past.versions(in: id, upTo: 10)
                _ = try past.current(of: id, at: 5)
                _ = try past.place(of: Self.document(id, "a", 7, nil), at: 5)
                _ = try times.last(upTo: 5)
                _ = try times.last(before: 5)
                _ = try times.first(from: 5)
                return watched.plans.texts.withLock { $0 }
            }
            #expect(plans.count > 10)
            let tables = ["items", "revisions", "past_places", "past_currents", "journal_times"]
            for plan in plans {
                #expect(!plan.contains("TEMP B-TREE"), "\(plan)")
                for table in tables { #expect(!plan.contains("SCAN \(table)"), "\(plan)") }
            }
        }
    }
}

/// Keeps SQLite's plan of each statement that reads.
struct PlannedTransaction: LedgerTransaction {
    let base: any LedgerTransaction
    let plans = Plans()

    final class Plans: Sendable {
        let texts = Mutex<[String]>([])
    }

    var run: Identifier { base.run }

    var dialect: SQLDialect { base.dialect }

    func rows(_ sql: String, _ arguments: [SQLValue]) throws -> [LedgerRow] {
        let plan = try base.rows("EXPLAIN QUERY PLAN " + sql, arguments).map { try $0.text(3) }
        plans.texts.withLock { $0.append(sql + "\n" + plan.joined(separator: "\n")) }
        return try base.rows(sql, arguments)
    }

    func execute(_ sql: String, _ arguments: [SQLValue]) throws -> Int {
        try base.execute(sql, arguments)
    }

    func nested<Result>(_ body: () throws -> Result) throws -> Result { try base.nested(body) }
}

extension LedgerTransaction {
    /// Makes the tables what they were before the past was recorded.
    func dropThePast() throws {
        let tables = [
            "past_places", "past_currents", "journal_times", "moves", "passkeys", "secrets",
            "links", "grants", "folders", "departures", "crossings", "proofs",
        ]
        for table in tables {
            try execute("DROP TABLE \(table)", [])
        }
        try execute("ALTER TABLE items DROP COLUMN here", [])
        try execute("ALTER TABLE volumes DROP COLUMN unplaced", [])
        try execute("ALTER TABLE volumes DROP COLUMN fence", [])
        try execute("ALTER TABLE members DROP COLUMN folder", [])
    }
}
