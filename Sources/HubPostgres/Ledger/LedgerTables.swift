import Hub
import Model

/// The tables of a ledger in PostgreSQL: those of `LedgerSchema` in a schema of their own, so that
/// they do not mix with what else is in the database.
enum LedgerTables {
    static let schema = "concord"

    /// What no transaction but one with the scope `everything` takes alone. The value is arbitrary.
    private static let everyVolume: Int64 = 0x636f_6e63_6f72_6431

    /// Takes the locks of a write transaction, which are released at its end. All transactions take
    /// them in the same order, so they cannot block each other for ever.
    static func locks(_ scope: WriteScope) -> String {
        switch scope {
        case .everything: "SELECT pg_advisory_xact_lock(\(everyVolume));"
        case .volume(let id):
            """
            SELECT pg_advisory_xact_lock_shared(\(everyVolume));
            SELECT pg_advisory_xact_lock(\(Int64(bitPattern: id.low)));
            """
        case .nothing: "SELECT pg_advisory_xact_lock_shared(\(everyVolume));"
        }
    }

    /// For each session that writes, the number of its last transaction. A number that is here was
    /// committed together with the rest of its transaction. The numbers that PostgreSQL itself
    /// gives to transactions do not tell that: after a crash it uses those again that it had given
    /// to transactions of which nothing was on the disk yet.
    private static let writers = """
        CREATE TABLE IF NOT EXISTS writers (
            session TEXT PRIMARY KEY, number BIGINT NOT NULL, used TIMESTAMPTZ NOT NULL);
        DELETE FROM writers WHERE used < now() - interval '7 days'
        """

    /// Notes the number of a transaction that has just begun. Its session's row is locked until the
    /// transaction ends.
    static func note(_ number: Int64, of session: Identifier) -> String {
        """
        INSERT INTO writers (session, number, used) VALUES ('\(session)', \(number), now())
        ON CONFLICT (session) DO UPDATE SET number = excluded.number, used = excluded.used
        """
    }

    /// Returns the last committed number of a session, after a transaction that holds the row has
    /// ended. The session may have no row yet.
    static func lastNumber(of session: Identifier) -> String {
        """
        BEGIN; SET LOCAL lock_timeout = '5s';
        INSERT INTO writers (session, number, used) VALUES ('\(session)', 0, now())
        ON CONFLICT (session) DO UPDATE SET used = excluded.used RETURNING number;
        COMMIT
        """
    }

    /// Whether the database has a ledger.
    static func exist(in connection: PostgresConnection) throws -> Bool {
        let found = try connection.query(
            "SELECT to_regclass($1)::text", [.text("\(schema).ledger")])
        return found.rows.first?.isNull(0) == false
    }

    /// Creates the tables if there are none and `mayCreate` is true, and brings older ones up to
    /// date, in one transaction.
    static func migrate(
        _ connection: PostgresConnection, of address: PostgresAddress, mayCreate: Bool
    ) throws {
        try connection.run("BEGIN; \(locks(.everything))")
        var version = 0
        if try exist(in: connection) {
            let row = try connection.query("SELECT version FROM ledger", []).rows.first
            version = Int(try row?.integer(0) ?? 0)
        } else {
            guard mayCreate else {
                throw VolumeError(
                    .notFound,
                    "There is no hub's ledger in the database \(address.name): concord hub creates "
                        + "one.")
            }
            try connection.run(
                """
                CREATE SCHEMA IF NOT EXISTS \(schema);
                -- `changes` counts the transactions with the scope `everything`.
                CREATE TABLE ledger (version BIGINT NOT NULL, changes BIGINT NOT NULL);
                INSERT INTO ledger (version, changes) VALUES (0, 0)
                """)
        }
        guard version <= LedgerSchema.steps.count else {
            throw VolumeError(
                .newer,
                "The ledger in the database \(address.name) was written by a newer version of "
                    + "concord: use that version.")
        }
        if version < LedgerSchema.steps.count { try connection.run(ChangeCapture.end) }
        for step in LedgerSchema.steps[version...] {
            try connection.run(LedgerSchema.postgres(step))
        }
        try connection.run(writers)
        try connection.run("UPDATE ledger SET version = \(LedgerSchema.steps.count); COMMIT")
    }
}

extension LedgerSchema {
    /// Converts a step to PostgreSQL's dialect: texts are compared by their bytes, as in SQLite.
    static func postgres(_ step: String) -> String {
        step.replacing(" TEXT", with: " TEXT COLLATE \"C\"")
    }
}
