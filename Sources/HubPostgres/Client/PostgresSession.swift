import Hub
import Model

/// A connection that is set up for a ledger.
final class PostgresSession {
    let connection: PostgresConnection
    /// Identifies the lifetime of the server process and of the tables. All sessions with the same
    /// server have the same one, and a database cannot be rolled back without changing it.
    let run: Identifier
    /// Identifies this session in the table `writers`.
    let id = Identifier.random()
    /// The number of its last write transaction.
    var lastTransaction: Int64 = 0

    init(_ address: PostgresAddress) throws {
        connection = try PostgresConnection(address)
        try connection.run(Self.settings)
        let row = try connection.run(Self.state).rows.first
        let isSafe = try row?.text(2) != "off"
        guard isSafe else {
            throw VolumeError(
                .invalid,
                "The server of the ledger's database \(address.name) has the setting fsync = off, "
                    + "so it may lose saves that were acknowledged: turn it on.")
        }
        let lifetime = "\(try row?.text(0) ?? "") \(try row?.text(1) ?? "")"
        let digest = Digest.sha256(Array(lifetime.utf8))
        run = Identifier(bytes: Array(digest.bytes.prefix(16))) ?? .random()
    }

    /// The limits end what a hub has left behind that has stopped or cannot be reached, because
    /// others wait for its locks.
    private static let settings = """
        SET search_path = \(LedgerTables.schema);
        SET lock_timeout = '30s';
        SET idle_in_transaction_session_timeout = '60s';
        SET tcp_keepalives_idle = 10;
        SET tcp_keepalives_interval = 5;
        SET tcp_keepalives_count = 3;
        SET tcp_user_timeout = '20s';
        SET jit = off;
        SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') = 'off'
        """

    /// The first 8 digits of a log file's name are the server's timeline, which changes when a
    /// standby takes over or a backup is restored. A standby has no such name, so this fails there.
    private static let state = """
        SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8),
            concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()),
                to_regclass('volumes')::oid),
            current_setting('fsync')
        """
}
