import CPostgres
import Model

/// A database as a URL names it: `postgres://USER@HOST:PORT/DATABASE?…`. A host that begins with a
/// slash, written as `%2F`, or `?host=/DIRECTORY`, is the directory of a Unix socket.
package struct PostgresAddress: Hashable, Sendable {
    let url: String
    /// The host, port and database, for messages.
    let name: String

    /// Checks the URL without connecting.
    ///
    /// - Throws: `.invalid`; `.notFound` if libpq is not installed.
    package init(_ url: String) throws(VolumeError) {
        guard PostgresAddress.isAddress(url) else {
            throw VolumeError(
                .invalid, "The address of a PostgreSQL database begins with postgres:// (\(url)).")
        }
        let options = try PostgresAddress.options(of: url)
        guard options["password"] == nil else {
            throw VolumeError(
                .invalid,
                "Everybody on this machine can read a password on the command line: put it into a "
                    + "file that PGPASSFILE or ?passfile=FILE names, or into ~/.pgpass.")
        }
        self.url = url
        let host = options["host"] ?? options["hostaddr"] ?? ""
        let port = options["port"].map { ":\($0)" } ?? ""
        name = "\(host)\(port)/\(options["dbname"] ?? "")"
    }

    package static func isAddress(_ text: String) -> Bool {
        text.hasPrefix("postgres://") || text.hasPrefix("postgresql://")
    }

    /// The options that the URL itself names.
    private static func options(of url: String) throws(VolumeError) -> [String: String] {
        let pq = try Libpq.load()
        var reason: UnsafeMutablePointer<CChar>?
        guard let list = pq.PQconninfoParse(url, &reason) else {
            let text = reason.map { String(cString: $0) } ?? "it is not a URL"
            pq.PQfreemem(reason)
            // libpq repeats the URL, which may have a password.
            let detail = text.contains("@") ? "its syntax is wrong" : text
            throw VolumeError(
                .invalid, "The address of the ledger's database cannot be read: \(detail).")
        }
        defer { pq.PQconninfoFree(list) }
        var options: [String: String] = [:]
        var next = list
        while let keyword = next.pointee.keyword {
            if let value = next.pointee.val {
                options[String(cString: keyword)] = String(cString: value)
            }
            next += 1
        }
        return options
    }

    /// libpq's parameters. Those of the URL replace the ones before it.
    var parameters: [(name: String, value: String)] {
        [
            ("connect_timeout", "5"), ("target_session_attrs", "read-write"),
            ("application_name", "concord hub"),
            ("keepalives_idle", "10"), ("keepalives_interval", "5"), ("keepalives_count", "3"),
            ("tcp_user_timeout", "20000"),
            ("dbname", url), ("client_encoding", "UTF8"),
        ]
    }
}
