import Foundation
import Hub
import HubPostgres
import Model
import Support
import Synchronization
import Testing

@Suite(
    "A ledger in PostgreSQL",
    .enabled(if: PostgresServer.obstacle == nil, "\(PostgresServer.obstacle ?? "")"))
struct PostgresTests {
    private static let names = Atomic<Int>(0)
    /// The end of a write transaction as a client sends it. READ COMMITTED is not meant.
    private static let commit = "COMMIT\0"

    /// Runs `body` with the name of a new database.
    private func withDatabase(
        _ body: (PostgresServer, String) async throws -> Void
    ) async throws {
        let server = try PostgresServer.shared.get()
        let name = "p\(Self.names.wrappingAdd(1, ordering: .relaxed).newValue)"
        try server.make(name)
        try await body(server, name)
    }

    private func open(_ url: String, mayCreate: Bool = true) throws -> PostgresLedger {
        try PostgresLedger(try PostgresAddress(url), mayCreate: mayCreate)
    }

    /// Opens the ledger through a relay.
    private func withRelay(
        to server: PostgresServer, _ name: String,
        _ body: (PostgresLedger, AnswerRelay) async throws -> Void
    ) async throws {
        let scratch = try TemporaryDirectory("relay")
        let socket = ".s.PGSQL.5432"
        let relay = try AnswerRelay(
            path: "\(scratch.path)/\(socket)", target: "\(server.socket)/\(socket)")
        defer { relay.close() }
        let ledger = try open("postgres://concord@/\(name)?host=\(scratch.path)")
        try await body(ledger, relay)
        try ledger.close()
    }

    // MARK: Broken connections

    @Test("a body whose connection breaks runs again, and is kept once")
    func brokenInTheMiddle() async throws {
        try await withDatabase { server, name in
            let (ledger, runs) = (try open(server.url(name)), Runs())
            try await ledger.write { transaction in
                let count = try transaction.fact("count") ?? 0
                try transaction.setFact("count", count + 1)
                if runs.next() == 1 {
                    _ = try transaction.rows("SELECT pg_terminate_backend(pg_backend_pid())", [])
                }
            }
            #expect(runs.count == 2)
            #expect(try await ledger.read { try $0.fact("count") } == 1)
            try ledger.close()
        }
    }

    @Test("a transaction whose answer is lost is not done twice")
    func lostAnswer() async throws {
        try await withDatabase { server, name in
            try await withRelay(to: server, name) { ledger, relay in
                relay.loseAnswers(to: Self.commit)
                let runs = try await count(ledger)
                #expect(runs == 1)
                #expect(relay.answersLeft == 0)
            }
        }
    }

    @Test("a transaction that a crash destroyed is done again, also if its number was used again")
    func lostInACrash() async throws {
        // The server writes nothing of a transaction to its disk before its end.
        let server = try PostgresServer(arguments: ["-c", "wal_writer_delay=10s"])
        try server.make("hub")
        try await withRelay(to: server, "hub") { ledger, relay in
            relay.breakBefore(Self.commit) {
                server.stop()
                try? server.start()
                // These get the numbers of the destroyed transactions.
                for _ in 0..<8 {
                    _ = try? server.run("UPDATE concord.ledger SET changes = changes", in: "hub")
                }
                return false
            }
            let runs = try await count(ledger)
            #expect(runs == 2)
            #expect(relay.answersLeft == 0)
        }
    }

    /// Counts to one in the ledger, and returns how often the body ran.
    private func count(_ ledger: PostgresLedger) async throws -> Int {
        let runs = Runs()
        try await ledger.write { transaction in
            _ = runs.next()
            try transaction.setFact("count", (try transaction.fact("count") ?? 0) + 1)
        }
        #expect(try await ledger.read { try $0.fact("count") } == 1)
        return runs.count
    }

    @Test("a transaction whose end arrives after its connection broke is not done twice")
    func lateEnd() async throws {
        try await withDatabase { server, name in
            try await withRelay(to: server, name) { ledger, relay in
                relay.breakBefore(Self.commit) {
                    // The ledger has a new connection, and waits for the old transaction.
                    let waiting = """
                        SELECT count(*) FROM pg_stat_activity
                        WHERE datname = '\(name)' AND wait_event_type = 'Lock'
                        """
                    let isAwaited = try? wait(seconds: 30, for: "the ledger to wait") {
                        try server.run(waiting, in: "postgres") == "1" ? true : nil
                    }
                    return isAwaited == true
                }
                let runs = try await count(ledger)
                #expect(runs == 1)
                #expect(relay.answersLeft == 0)
            }
        }
    }

    @Test("a transaction whose end fails is done again")
    func failedEnd() async throws {
        try await withDatabase { server, name in
            let (ledger, runs) = (try open(server.url(name)), Runs())
            // The connection ends at the commit of the first transaction.
            try server.run(
                """
                CREATE SEQUENCE public.ends;
                CREATE FUNCTION public.end_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF nextval('public.ends') = 1 THEN
                        PERFORM pg_terminate_backend(pg_backend_pid());
                    END IF;
                    RETURN NULL;
                END $$;
                CREATE CONSTRAINT TRIGGER ends AFTER INSERT ON concord.facts
                DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.end_once()
                """, in: name)
            try await ledger.write { transaction in
                _ = runs.next()
                try transaction.setFact("a", 1)
            }
            #expect(runs.count == 2)
            #expect(try await ledger.read { try $0.fact("a") } == 1)
            try ledger.close()
        }
    }

    @Test("transactions that exclude each other for ever are done one after the other")
    func deadlock() async throws {
        try await withDatabase { server, name in
            let ledger = try open(server.url(name))
            try await ledger.write { transaction in
                for fact in ["a", "b"] { try transaction.setFact(fact, 0) }
            }
            // Each holds one row and wants the other's.
            let meeting = Meeting()
            async let first: Void = ledger.write(.volume(.random())) { transaction in
                try transaction.execute("UPDATE facts SET value = value + 1 WHERE name = 'a'", [])
                meeting.wait()
                try transaction.execute("UPDATE facts SET value = value + 1 WHERE name = 'b'", [])
            }
            async let second: Void = ledger.write(.volume(.random())) { transaction in
                try transaction.execute("UPDATE facts SET value = value + 1 WHERE name = 'b'", [])
                meeting.wait()
                try transaction.execute("UPDATE facts SET value = value + 1 WHERE name = 'a'", [])
            }
            _ = try await (first, second)
            // The second attempt can meet the other transaction again before that one continues.
            #expect(meeting.count >= 3)
            let values = try await ledger.read { try [$0.fact("a"), $0.fact("b")] }
            #expect(values == [2, 2])
            try ledger.close()
        }
    }

    @Test("the server stops and starts: requests fail meanwhile, and work afterwards")
    func stopped() async throws {
        let server = try PostgresServer()
        try server.make("hub")
        let ledger = try open(server.url("hub"))
        try await ledger.write { try $0.setFact("a", 1) }
        let run = try await ledger.read { $0.run }
        #expect(try await ledger.write { $0.run } == run)
        server.stop()
        let errors = try await [
            error { try await ledger.read { try $0.fact("a") } },
            error { try await ledger.write { try $0.setFact("a", 2) } },
        ]
        #expect(errors.map(\.code) == [.offline, .offline])
        try server.start()
        #expect(try await ledger.read { try $0.fact("a") } == 1)
        // The database could have been rolled back in the meantime.
        #expect(try await ledger.read { $0.run } != run)
        // The connections are broken, and nobody has noticed yet.
        server.stop()
        try server.start()
        try await ledger.write { try $0.setFact("a", 2) }
        #expect(try await ledger.read { try $0.fact("a") } == 2)
        try ledger.close()
    }

    private func error(_ body: () async throws -> some Sendable) async throws -> VolumeError {
        do { _ = try await body() } catch let error as VolumeError { return error }
        throw SupportError("there was no error")
    }

    // MARK: Scopes and savepoints

    @Test("transactions on two volumes run at the same time")
    func volumesAreApart() async throws {
        try await withDatabase { server, name in
            let (ledger, meeting) = (try open(server.url(name)), Meeting())
            async let first = ledger.write(.volume(.random())) { _ in meeting.wait() }
            async let second = ledger.write(.volume(.random())) { _ in meeting.wait() }
            _ = try await (first, second)
            #expect(meeting.count == 2)
            try ledger.close()
        }
    }

    @Test("a part is rolled back alone only in the second run, with a savepoint")
    func savepoints() async throws {
        struct Stop: Error {}
        try await withDatabase { server, name in
            let (ledger, runs) = (try open(server.url(name)), Runs())
            for isWrong in [false, true] {
                try await ledger.write { transaction in
                    _ = runs.next()
                    for index in 0..<100 {
                        do {
                            try transaction.nested {
                                try transaction.setFact("\(index)", 1)
                                if isWrong && index % 10 == 0 {
                                    try transaction.setFact("\(index)", 2)
                                    throw Stop()
                                }
                            }
                        } catch is Stop {}
                    }
                }
                #expect(runs.count == (isWrong ? 3 : 1))
            }
            let sum = try await ledger.read {
                try $0.row("SELECT sum(value) FROM facts", [])?.integer(0)
            }
            #expect(sum == 100)
            try ledger.close()
        }
    }

    // MARK: Values

    @Test("sums have the type numeric, and are read as whole numbers")
    func sums() async throws {
        try await withDatabase { server, name in
            let ledger = try open(server.url(name))
            for value in [0, 1, -1, 9_999, 10_000, 100_000_000, -120_000, .max, .min + 1, .min] {
                let sum = try await ledger.write { transaction in
                    try transaction.setFact("a", Int64(value))
                    return try transaction.row("SELECT sum(value) FROM facts", [])?.integer(0)
                }
                #expect(sum == Int64(value))
            }
            await #expect(throws: VolumeError.self) {
                try await ledger.write { transaction in
                    for name in ["a", "b"] { try transaction.setFact(name, .max) }
                    return try transaction.row("SELECT sum(value) FROM facts", [])?.integer(0)
                }
            }
            try ledger.close()
        }
    }

    // MARK: Opening

    @Test("a ledger of an older version is brought up to date, and one of a newer is refused")
    func versions() async throws {
        try await withDatabase { server, name in
            let ledger = try open(server.url(name))
            try await ledger.write {
                try $0.devices.addToken(.sha256([1]), device: .root, expires: 5)
            }
            try ledger.close()
            try server.run(
                """
                ALTER TABLE concord.tokens DROP COLUMN expires;
                DROP TABLE concord.members, concord.packs, concord.staged;
                DROP TABLE concord.loose_uses, concord.revivals, concord.dav_locks;
                DROP TABLE concord.past_places, concord.past_currents, concord.journal_times;
                DROP TABLE concord.moves, concord.passkeys, concord.secrets, concord.links;
                DROP TABLE concord.grants, concord.folders, concord.departures;
                DROP TABLE concord.crossings, concord.proofs;
                ALTER TABLE concord.items DROP COLUMN here;
                ALTER TABLE concord.volumes DROP COLUMN unplaced;
                ALTER TABLE concord.volumes DROP COLUMN fence;
                DROP INDEX concord.revisions_order;
                CREATE INDEX revisions_item ON concord.revisions (volume, item);
                UPDATE concord.ledger SET version = version - 12
                """, in: name)
            let migrated = try open(server.url(name), mayCreate: false)
            let rows = try await migrated.read { try $0.rows("SELECT expires FROM tokens", []) }
            #expect(rows == [LedgerRow([.null])])
            #expect(try await migrated.read { try PackTable($0).all() }.isEmpty)
            try migrated.close()
            try server.run("UPDATE concord.ledger SET version = version + 1", in: name)
            let newer = try await error { try open(server.url(name), mayCreate: false) }
            #expect(newer.code == .newer)
        }
    }

    @Test("two hubs that begin a ledger at the same time make one")
    func madeTogether() async throws {
        try await withDatabase { server, name in
            let url = server.url(name)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<4 {
                    group.addTask { try PostgresTests().open(url).close() }
                }
                try await group.waitForAll()
            }
            #expect(try server.run("SELECT count(*) FROM concord.ledger", in: name) == "1")
        }
    }

    @Test("what cannot be opened is named in a sentence")
    func refusals() async throws {
        let server = try PostgresServer.shared.get()
        try server.make("bare")
        func refusal(_ url: String, mayCreate: Bool = true) async throws -> VolumeError {
            try await error { try open(url, mayCreate: mayCreate) }
        }
        let bare = try await refusal(server.url("bare"), mayCreate: false)
        #expect(bare.code == .notFound && bare.message.contains("no hub's ledger"))
        let absent = try await refusal(server.url("absent"))
        #expect(absent.code == .notFound && absent.message.contains("createdb"))
        let user = server.url("bare").replacing("concord@", with: "nobody@")
        #expect(try await refusal(user).code == .denied)
        let nowhere = try await refusal("postgres://concord@/bare?host=/nonexistent")
        #expect(nowhere.code == .offline && nowhere.message.contains("/nonexistent"))
        for secret in ["postgres://a:hunter2@h/b", "postgres://a@h/b?password=hunter2"] {
            let known = try await refusal(secret)
            #expect(known.code == .invalid && known.message.contains("PGPASSFILE"))
            #expect(!known.message.contains("hunter2"))
        }
        let wrong = try await refusal("postgres://a:hunter2@h:port/b?nonsense=1")
        #expect(wrong.code == .invalid && !wrong.message.contains("hunter2"))
        #expect(try await refusal("mysql://h/b").code == .invalid)
    }

    @Test("a password comes from a file")
    func password() async throws {
        let server = try PostgresServer(access: "scram-sha-256", password: "hunter2")
        let file = try TemporaryDirectory("password")
        let path = try file.write("*:*:*:concord:hunter2\n", to: "pass")
        #expect(chmod(path, 0o600) == 0)
        let ledger = try open(server.url("postgres") + "&passfile=\(path)")
        try await ledger.write { try $0.setFact("a", 1) }
        try ledger.close()
        try file.write("*:*:*:concord:wrong\n", to: "pass")
        let refused = try await error { try open(server.url("postgres") + "&passfile=\(path)") }
        #expect(refused.code == .denied && !refused.message.contains("wrong\n"))
    }

    @Test("a server that may lose acknowledged saves is refused")
    func unsafe() async throws {
        let server = try PostgresServer(arguments: ["-c", "fsync=off"])
        let refused = try await error { try open(server.url("postgres")) }
        #expect(refused.code == .invalid && refused.message.contains("fsync"))
        let lazy = try PostgresServer(arguments: ["-c", "synchronous_commit=off"])
        let ledger = try open(lazy.url("postgres"))
        let setting = try await ledger.write {
            try $0.row("SELECT current_setting('synchronous_commit')", [])?.text(0)
        }
        #expect(setting == "on")
        try ledger.close()
    }
}

/// Counts how often a body has run.
private final class Runs: Sendable {
    private let value = Mutex(0)

    var count: Int { value.withLock { $0 } }

    func next() -> Int {
        value.withLock { value in
            value += 1
            return value
        }
    }
}

/// Where two bodies wait for each other. A third one passes.
private final class Meeting: Sendable {
    private let runs = Runs()
    private let condition = NSCondition()

    var count: Int { runs.count }

    func wait() {
        condition.lock()
        defer { condition.unlock() }
        _ = runs.next()
        condition.broadcast()
        let end = Date(timeIntervalSinceNow: 60)
        while runs.count < 2, condition.wait(until: end) {}
    }
}
