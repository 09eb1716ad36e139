import Foundation
import Glibc

/// A process of `concord hub`, with a data directory that survives it.
package final class HubProcess {
    package let data: String
    package private(set) var port = 0
    /// The options of every command: where the hub is.
    private let place: [String]
    /// The arguments of `concord hub serve`.
    private let arguments: [String]
    private let environment: [String: String]
    private let home: TemporaryDirectory
    private var process: ChildProcess?

    package var pid: pid_t { process?.pid ?? 0 }

    /// - Parameters:
    ///   - data: The data directory, if it matters.
    ///   - database: The URL of the PostgreSQL database with the ledger. If it is nil, the
    ///     environment variable CONCORD_TEST_LEDGER decides: `postgres`, or else SQLite.
    ///     CONCORD_TEST_BLOBS=s3 puts the blobs into S3 instead of the directory.
    ///   - environment: Variables that are added to the environment of the hub and its commands.
    package init(
        data: String? = nil, database: String? = nil, arguments: [String] = [],
        environment: [String: String] = [:]
    ) throws {
        self.arguments = arguments
        self.environment = environment
        home = try TemporaryDirectory("hub")
        self.data = data ?? "\(home.path)/data"
        let url = try database ?? PostgresServer.chosenDatabase(for: self.data)
        let bucket = try S3Server.chosenPlace(for: self.data)
        place =
            ["--data", self.data] + (url.map { ["--ledger", $0] } ?? [])
            + (bucket.map { ["--blobs", $0] } ?? [])
        try run("user", "add", "ann")
        try start()
    }

    deinit { process?.killGroup() }

    private var scheme: String { arguments.contains("--tls-cert") ? "https" : "http" }
    package var address: String { "\(scheme)://127.0.0.1:\(port)" }
    package var said: String {
        String(((try? String(contentsOfFile: log, encoding: .utf8)) ?? "").suffix(4_000))
    }
    private var log: String { "\(home.path)/log" }

    /// Runs `concord hub …` on its directory.
    @discardableResult
    package func run(_ words: String..., seconds: Double = 60) throws -> String {
        var command = command(words)
        command.timeoutSeconds = seconds
        return try command.succeed()
    }

    /// Runs `concord hub …`, which may fail.
    package func attempt(_ words: String...) throws -> Command.Result { try command(words).run() }

    package func attempt(_ words: [String]) throws -> Command.Result { try command(words).run() }

    private func command(_ words: [String]) -> Command {
        var command = Command(Programs.concord, arguments: ["hub"] + words + place)
        command.environment = environment
        return command
    }

    /// Throws unless all data of the hub is sound. After a soak there are millions of rows.
    package func check() throws { try run("check", seconds: 900) }

    package func invite(_ user: String = "ann") throws -> String {
        let lines = try run("invite", user).split(separator: "\n")
        guard let code = lines.last else { throw SupportError("concord hub invite said nothing") }
        return String(code)
    }

    /// Starts on the same port as before, if there was one.
    package func start() throws {
        _ = FileManager.default.createFile(atPath: log, contents: nil)
        let output = open(log, O_WRONLY | O_TRUNC | O_CLOEXEC)
        let null = open("/dev/null", O_RDONLY | O_CLOEXEC)
        defer {
            close(output)
            close(null)
        }
        let process = try ChildProcess(
            Programs.concord,
            ["hub"] + place + ["--listen", "127.0.0.1:\(port)"] + arguments,
            environment: environment, directory: "/",
            input: null, output: output, errors: output)
        self.process = process
        port = try wait(seconds: 30, for: "the hub to listen; it said: \(said)") {
            if process.hasEnded() { throw SupportError("the hub ended: \(self.said)") }
            let mark = "the hub listens on \(self.scheme)://127.0.0.1:"
            guard let range = self.said.range(of: mark) else { return nil }
            return Int(self.said[range.upperBound...].prefix { $0.isNumber })
        }
    }

    package func stop() throws {
        process?.send(SIGTERM)
        let status = try process?.waitForEnd(seconds: 30)
        process = nil
        if let status, status != 0 { throw SupportError("the hub ended with \(status): \(said)") }
    }

    package func kill9() throws {
        process?.send(SIGKILL)
        _ = try process?.waitForEnd(seconds: 30)
        process = nil
    }

    /// Copies the data, for which the hub is stopped. Returns the path of the copy.
    package func copyData() throws -> String {
        try stop()
        let copy = "\(data)-copy"
        try Command("cp", "-a", data, copy).succeed()
        try start()
        return copy
    }

    /// Puts a copy of the data back, so that the hub is an older one. It must not run.
    package func replaceData(by copy: String) throws {
        try Command("rm", "-r", data).succeed()
        try Command("mv", copy, data).succeed()
    }

    package func send(_ signal: Int32) { process?.send(signal) }
}
