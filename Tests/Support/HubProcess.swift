import Foundation
import Glibc

/// A hub whose data survive it: one process of `concord hub`, or several with a balancer in front
/// of them.
package final class HubProcess {
    package let data: String
    package private(set) var port = 0
    /// The options of every command, without the data directory: where the ledger and the blobs
    /// are.
    private var place: [String]
    /// The arguments of `concord hub serve`.
    private let arguments: [String]
    private let environment: [String: String]
    private let home: TemporaryDirectory
    private let instances: [HubInstance]
    private var balancer: Balancer?

    /// The process of a hub that has one.
    package var pid: pid_t { instances[0].pid }
    /// The number of processes.
    package var count: Int { instances.count }

    /// - Parameters:
    ///   - data: The data directory, if it matters.
    ///   - database: The URL of the PostgreSQL database with the ledger. If it is nil, the
    ///     environment variable CONCORD_TEST_LEDGER decides: `postgres`, or else SQLite.
    ///     CONCORD_TEST_BLOBS=s3 puts the blobs into S3 instead of the directory.
    ///   - count: The number of processes. More than one have their ledger in PostgreSQL and their
    ///     blobs in S3. If it is nil, the environment variable CONCORD_TEST_HUBS decides.
    ///   - environment: Variables that are added to the environment of the hub and its commands.
    package init(
        data: String? = nil, database: String? = nil, count: Int? = nil, arguments: [String] = [],
        environment: [String: String] = [:]
    ) throws {
        self.arguments = arguments
        self.environment = environment
        home = try TemporaryDirectory("hub")
        let data = data ?? "\(home.path)/data"
        self.data = data
        let isPair = count.map { $0 > 1 } ?? false
        let url =
            try database
            ?? (isPair
                ? PostgresServer.database(for: data) : PostgresServer.chosenDatabase(for: data))
        let bucket = try isPair ? S3Server.place(for: data) : S3Server.chosenPlace(for: data)
        place = (url.map { ["--ledger", $0] } ?? []) + (bucket.map { ["--blobs", $0] } ?? [])
        // Only a hub with its ledger in PostgreSQL and its blobs in S3 can have several processes,
        // and a certificate would have to be the balancer's.
        let canBeMany = url != nil && bucket != nil && !arguments.contains("--tls-cert")
        let number = canBeMany ? count ?? Self.chosenCount : 1
        let log = "\(home.path)/log"
        instances = (0..<number).map {
            HubInstance(data: $0 == 0 ? data : "\(data)-\($0)", log: "\(log)-\($0)")
        }
        try run("user", "add", "ann")
        try start()
    }

    /// CONCORD_TEST_HUBS=2 makes two processes of each hub.
    private static let chosenCount =
        ProcessInfo.processInfo.environment["CONCORD_TEST_HUBS"].flatMap { Int($0) } ?? 1

    /// Whether the environment leaves the ledgers and the blobs of hubs in their directories.
    package static let isEmbedded =
        ["CONCORD_TEST_LEDGER", "CONCORD_TEST_BLOBS"].allSatisfy {
            ProcessInfo.processInfo.environment[$0] == nil
        }

    /// Why a hub cannot have several processes on this machine; nil if all is installed.
    package static let obstacleToSeveral =
        PostgresServer.obstacle ?? S3Server.obstacle ?? Balancer.obstacle

    private var scheme: String { arguments.contains("--tls-cert") ? "https" : "http" }
    package var address: String { "\(scheme)://127.0.0.1:\(port)" }
    package var said: String { instances.map(\.said).joined(separator: "\n") }

    // MARK: Commands

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

    /// A command `concord hub …` on its directory.
    package func command(_ words: [String]) -> Command {
        var command = Command(
            Programs.concord, arguments: ["hub"] + words + ["--data", data] + place)
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

    /// Uses the ledger and the blobs in the data directory.
    func stay() { place = [] }

    /// Moves the ledger and the blobs in the data directory to a new place.
    func moveData(to ledger: String, blobs: String?) throws {
        stay()
        let target = blobs.map { ["--blobs", $0] } ?? []
        try command(["move", "--to", ledger] + target).succeed()
        place = ["--ledger", ledger] + target
    }

    // MARK: Processes

    /// Starts on the same port as before, if there was one.
    package func start() throws {
        for index in instances.indices { try run(index) }
        if count == 1 {
            port = instances[0].port
        } else {
            let balancer = try balancer ?? Balancer(for: instances.map(\.port))
            self.balancer = balancer
            port = balancer.port
            for index in instances.indices { try balancer.waitForHub(index) }
        }
    }

    /// Starts one of its processes again.
    package func start(_ index: Int) throws {
        try run(index)
        try balancer?.waitForHub(index)
    }

    private func run(_ index: Int) throws {
        try instances[index].start(place + arguments, environment: environment)
    }

    package func stop() throws {
        // All end at the same time.
        for instance in instances { instance.send(SIGTERM) }
        for index in instances.indices { try stop(index) }
    }

    /// Stops one of its processes.
    package func stop(_ index: Int) throws {
        let status = try instances[index].end(by: SIGTERM)
        if let status, status != 0 {
            throw SupportError("the hub ended with \(status): \(instances[index].said)")
        }
    }

    package func kill9() throws {
        for index in instances.indices { try kill9(index) }
    }

    /// Kills one of its processes.
    package func kill9(_ index: Int) throws { _ = try instances[index].end(by: SIGKILL) }

    package func send(_ signal: Int32) {
        for instance in instances { instance.send(signal) }
    }
}
