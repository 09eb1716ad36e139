import Foundation
import HubPages
import HubPostgres
import HubProtocol
import HubS3
import HubWebDAV
import Logging
import Model
import Support
import Synchronization

@testable import Hub

/// A hub in this process, on its own port, with a clock that tests can move.
final class RunningHub: Sendable {
    let scratch: TemporaryDirectory
    let directory: DataDirectory
    let hub: Hub
    let url: String
    private let serving: Task<Void, any Error>
    private let offset: Offset
    private let uptimeOffset: Offset

    final class Offset: Sendable {
        let nanoseconds = Atomic<Int64>(0)
    }

    /// - Parameters:
    ///   - database: The URL of the PostgreSQL database with the ledger. If it is nil, the
    ///     environment variable CONCORD_TEST_LEDGER decides: `postgres`, or else SQLite.
    ///   - bucket: The place of the blobs in S3. If it is nil, the environment variable
    ///     CONCORD_TEST_BLOBS decides: `s3`, or else the directory.
    ///   - blobs: Blobs that the hub shares with other hubs of the database.
    init(
        in scratch: TemporaryDirectory? = nil, data: String? = nil, database: String? = nil,
        bucket: String? = nil, blobs: (any BlobStore)? = nil, rebuilds: Bool = false,
        limits: CallerLimits = CallerLimits()
    ) async throws {
        self.scratch = try scratch ?? TemporaryDirectory("hub")
        let data = data ?? self.scratch.path + "/data"
        let database = try database ?? PostgresServer.chosenDatabase(for: data)
        let bucket = try bucket ?? (blobs == nil ? S3Server.chosenPlace(for: data) : nil)
        directory = DataDirectory(
            data, ledger: try database.map { PostgresSource(try PostgresAddress($0)) },
            blobs: try bucket.map { S3Source(try S3Address($0)) })
        let offset = Offset()
        self.offset = offset
        let uptimeOffset = Offset()
        self.uptimeOffset = uptimeOffset
        let uptime: @Sendable () -> Int64 = {
            Hub.uptime() + uptimeOffset.nanoseconds.load(ordering: .relaxed)
        }
        let clock: @Sendable () -> Int64 = {
            Hub.now() + offset.nanoseconds.load(ordering: .relaxed)
        }
        if let blobs {
            _ = try directory.make()
            hub = try await Hub(
                directory: directory, lock: try directory.lock(),
                ledger: try directory.openLedger(mayCreate: true), blobs: blobs, isAlone: false,
                limits: limits, log: RunningHub.quiet, clock: clock, uptime: uptime)
        } else {
            hub = try await Hub(
                opening: directory, rebuilds: rebuilds, limits: limits, log: RunningHub.quiet,
                clock: clock, uptime: uptime)
        }
        let server = HubServer(
            hub, listening: ListenAddress(host: "127.0.0.1", port: 0),
            pages: [Pages(hub), WebDAV(hub)])
        let (ports, port) = AsyncStream<Int>.makeStream()
        serving = Task {
            defer { port.finish() }
            try await server.run(stoppingAt: []) { port.yield($0) }
        }
        guard let found = await ports.first(where: { _ in true }) else {
            try await serving.value
            throw SupportError("the hub ended at once")
        }
        url = "http://127.0.0.1:\(found)"
    }

    static var quiet: Logger {
        Logger(label: "hub") { _ in SwiftLogNoOpLogHandler() }
    }

    func advance(seconds: Int64) {
        offset.nanoseconds.wrappingAdd(seconds * 1_000_000_000, ordering: .relaxed)
    }

    /// Lets time pass, as a suspended machine does. It is not the wall clock's.
    func advanceUptime(seconds: Int64) {
        uptimeOffset.nanoseconds.wrappingAdd(seconds * 1_000_000_000, ordering: .relaxed)
    }

    func stop() async throws {
        serving.cancel()
        try await serving.value
    }

    /// Waits until the hub ends by itself, because it was moved away, and returns the reason.
    func departure() async throws -> VolumeError {
        do { try await serving.value } catch let error as VolumeError { return error }
        throw SupportError("the hub ended without a reason")
    }

    func administration() throws -> Administration { try Administration(directory) }

    /// Tries to sign in with wrong codes, each as a client for which a proxy has set this header,
    /// and returns the status of each answer.
    func guessCodes(forwardedFor headers: [String]) async throws -> [Int] {
        let request = EnrolRequest(code: "nothing", deviceName: "d", device: .random())
        let body = [UInt8](try JSONEncoder().encode(request))
        var answers: [Int] = []
        for header in headers {
            let answer = try await Wire.send(
                url + Routes.enrol, body, token: nil, type: ContentType.json,
                headers: ["X-Forwarded-For": header])
            answers.append(answer.status)
        }
        return answers
    }

    /// Returns a new device of a user, who is created if necessary.
    func device(
        of user: String = "anna", quota: UInt64? = nil, volume: String = "Documents"
    ) async throws -> TestDevice {
        let administration = try self.administration()
        if try await !administration.accounts().contains(where: { $0.name == user }) {
            try await administration.addAccount(user, quota: quota)
        }
        let code = try await administration.invite(user)
        try administration.close()
        return try await TestDevice(url: url, code: code, volume: volume)
    }

    /// Runs `body` with a new hub, and always stops it.
    static func with(
        limits: CallerLimits = CallerLimits(), _ body: (RunningHub) async throws -> Void
    ) async throws {
        let hub = try await RunningHub(limits: limits)
        do { try await body(hub) } catch {
            try? await hub.stop()
            throw error
        }
        try await hub.stop()
    }
}
