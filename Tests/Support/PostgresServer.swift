import Foundation
import Glibc
import Synchronization

/// A PostgreSQL server on a Unix socket in a temporary directory, run by an ordinary user, because
/// PostgreSQL refuses to run as root.
package final class PostgresServer: Sendable {
    private let directory: TemporaryDirectory
    private let arguments: [String]
    private let process = Mutex<ChildProcess?>(nil)
    private let databases = Mutex<Set<String>>([])
    /// The numbers of the databases of hubs, by the hubs' directories.
    private let places = Mutex<[String: Int]>([:])

    /// - Parameters:
    ///   - access: The method by which clients prove who they are (`initdb --auth`).
    ///   - password: The password of the user `concord`.
    ///   - arguments: Further arguments of the server.
    package init(
        access: String = "trust", password: String = "secret", arguments: [String] = []
    ) throws {
        directory = try TemporaryDirectory("postgres")
        self.arguments = arguments
        let file = try directory.write("\(password)\n", to: "password")
        if geteuid() == 0 { try Command("chown", "-R", "nobody", directory.path).succeed() }
        try Self.unprivileged(
            "initdb", "--pgdata", data, "--username", "concord", "--pwfile", file,
            "--auth-local", access, "--auth-host", access, "--encoding", "UTF8",
            "--locale", "C.UTF-8", "--no-sync"
        ).succeed()
        try start()
    }

    deinit { stop() }

    /// The directory of its socket.
    package var socket: String { directory.path }
    private var data: String { "\(directory.path)/data" }
    private var log: String { "\(directory.path)/log" }

    package func url(_ database: String) -> String {
        "postgres://concord@/\(database)?host=\(socket)"
    }

    /// Starts it again after `stop`.
    package func start() throws {
        _ = FileManager.default.createFile(atPath: log, contents: nil)
        let (output, null) = (open(log, O_WRONLY | O_TRUNC), open("/dev/null", O_RDONLY))
        defer { _ = (close(output), close(null)) }
        let command = Self.unprivileged(
            "postgres", "-D", data, "-c", "listen_addresses=", "-c",
            "unix_socket_directories=\(socket)", "-c", "shared_buffers=32MB", "-c", "fsync=on")
        try process.withLock { process in
            let started = try ChildProcess(
                command.program, command.arguments + arguments, directory: "/", input: null,
                output: output, errors: output)
            let isReady = Command(Self.program("pg_isready"), "--quiet", "--host", socket)
            try wait(seconds: 60, for: "PostgreSQL to start; it said: \(said)") {
                if started.hasEnded() { throw SupportError("PostgreSQL ended: \(said)") }
                return try isReady.run().status == 0 ? true : nil
            }
            process = started
        }
    }

    private var said: String { (try? String(contentsOfFile: log, encoding: .utf8)) ?? "" }

    /// Stops it as a failure of the machine would: nothing is finished or written down.
    package func stop() {
        process.withLock { process in
            process?.send(SIGQUIT)
            if (try? process?.waitForEnd(seconds: 30)) == nil { process?.killGroup() }
            process = nil
        }
    }

    /// Stops and continues the execution of the server and its connections.
    package func signalAll(_ signal: Int32) {
        process.withLock { process in
            guard let pid = process?.pid else { return }
            let children = try? Command("pgrep", "--parent", "\(pid)").run().output
            for child in (children ?? "").split(separator: "\n") {
                if let child = pid_t(child) { _ = kill(child, signal) }
            }
            process?.send(signal)
        }
    }

    /// Creates the database if it does not exist.
    package func make(_ database: String) throws {
        guard databases.withLock({ $0.insert(database).inserted }) else { return }
        try run("CREATE DATABASE \(database)", in: "postgres")
    }

    /// Executes SQL, and returns the values of its rows, separated by "|".
    @discardableResult
    package func run(_ sql: String, in database: String) throws -> String {
        try Command(
            Self.program("psql"), "--no-psqlrc", "--quiet", "--tuples-only", "--no-align",
            "--set", "ON_ERROR_STOP=1", "--command", sql, url(database)
        ).succeed().trimmingCharacters(in: .whitespacesAndNewlines)
    }

    // MARK: Programs

    /// A server that many tests share, which ends with this process.
    package static let shared: Result<PostgresServer, any Error> = Result {
        let server = try PostgresServer()
        atexit {
            guard let server = try? PostgresServer.shared.get() else { return }
            server.stop()
            _ = try? Command("rm", "-rf", server.directory.path).run()
        }
        return server
    }

    /// Why there can be no server on this machine; nil if its programs are installed. Every test
    /// process asks, also those that need no server, so this starts none.
    package static let obstacle: String? = {
        for name in ["postgres", "initdb", "pg_isready", "psql"]
        where access(program(name), X_OK) != 0 {
            return "PostgreSQL's program \(name) is not installed: `make test-deps` installs it."
        }
        return nil
    }()

    /// A database of the shared server for a hub with this data directory.
    package static func database(for place: String) throws -> String {
        let server = try shared.get()
        let name = server.name(for: place)
        try server.make(name)
        return server.url(name)
    }

    private func name(for place: String) -> String {
        places.withLock { places in
            let number = places[place] ?? places.count + 1
            places[place] = number
            return "hub\(number)"
        }
    }

    /// The database for a hub with this data directory, if CONCORD_TEST_LEDGER=postgres asks for
    /// hubs of tests with their ledgers in PostgreSQL.
    package static func chosenDatabase(for place: String) throws -> String? {
        let choice = ProcessInfo.processInfo.environment["CONCORD_TEST_LEDGER"]
        return choice == "postgres" ? try database(for: place) : nil
    }

    /// Copies the database that the environment has chosen for a hub with this data directory. The
    /// hub must not run.
    ///
    /// - Returns: The name of the copy; nil if the ledger is not in a database.
    static func chosenCopy(for place: String) throws -> String? {
        guard try chosenDatabase(for: place) != nil else { return nil }
        let server = try shared.get()
        let name = server.name(for: place)
        // The sessions of a hub end a moment after the hub.
        try wait(for: "the sessions in \(name) to end") {
            let count = try server.run(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = '\(name)'", in: "postgres")
            return count == "0" ? true : nil
        }
        try server.run("CREATE DATABASE \(name)_copy TEMPLATE \(name)", in: "postgres")
        return "\(name)_copy"
    }

    /// Puts a copy back. The server is started again, as when a backup of it is put back.
    static func putBack(_ copy: String, for place: String) throws {
        let server = try shared.get()
        let name = server.name(for: place)
        try server.run("DROP DATABASE \(name) WITH (FORCE)", in: "postgres")
        try server.run("ALTER DATABASE \(copy) RENAME TO \(name)", in: "postgres")
        server.stop()
        try server.start()
    }

    /// Debian's programs of the server are not in the usual PATH.
    private static let programs: String? = {
        let base = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: base)) ?? []
        return versions.compactMap { Int($0) }.max().map { "\(base)/\($0)/bin" }
    }()

    private static func program(_ name: String) -> String {
        programs.map { "\($0)/\(name)" } ?? name
    }

    private static func unprivileged(_ name: String, _ arguments: String...) -> Command {
        let words = [program(name)] + arguments
        guard geteuid() == 0 else { return Command(words[0], arguments: Array(words.dropFirst())) }
        return Command(
            "setpriv",
            arguments: ["--reuid=nobody", "--regid=nogroup", "--clear-groups"] + words)
    }
}
