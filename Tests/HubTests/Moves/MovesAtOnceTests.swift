import HubPostgres
import Model
import Support
import Synchronization
import Testing

@testable import Hub

@Suite(
    "Moves that begin at the same time",
    .enabled(if: MovedHub.obstacle == nil, "\(MovedHub.obstacle ?? "")"))
struct MovesAtOnceTests {
    @Test("of two moves of one hub to two places, the later one is refused")
    func twoTargets() async throws {
        let site = try MovedHub()
        let hub = try await site.serveRemote()
        _ = try await SavingDevices(at: hub)
        try await hub.stop()
        let remote = try site.remote()
        let database = PostgresSource(try PostgresAddress(site.database))
        let others = ["other", "mortal"].map { site.scratch.path + "/" + $0 }
        for other in others { _ = try site.remote(other).make() }
        let mortal = DataDirectory(
            others[1], ledger: MortalSource(base: database, life: Lifetime(steps: 1)),
            blobs: remote.blobSource)
        let overtaken = OvertakenSource(base: database) {
            await #expect(throws: VolumeError.self) {
                try await site.move(from: mortal, to: site.returned).run()
            }
        }
        let later = DataDirectory(others[0], ledger: overtaken, blobs: remote.blobSource)
        let refusal = await #expect(throws: VolumeError.self) {
            let third = DataDirectory(site.scratch.path + "/third")
            return try await site.move(from: later, to: third).run()
        }
        #expect(refusal?.code == .busy)
        _ = try await site.move(from: remote, to: site.returned).run()
        try await site.expectEqual(remote, site.returned)
    }

    @Test("of two hubs that move to one place, the later one is refused")
    func twoSources() async throws {
        let site = try MovedHub()
        for place in [site.embedded, site.returned] {
            let hub = try await RunningHub(in: site.scratch, data: place.path)
            _ = try await SavingDevices(at: hub)
            try await hub.stop()
        }
        let remote = try site.remote(site.scratch.path + "/other")
        _ = try remote.make()
        let database = PostgresSource(try PostgresAddress(site.database))
        let mortal = DataDirectory(
            remote.path, ledger: MortalSource(base: database, life: Lifetime(steps: 1)),
            blobs: remote.blobSource)
        let overtaken = OvertakenSource(base: database) {
            await #expect(throws: VolumeError.self) {
                try await site.move(from: site.returned, to: mortal).run()
            }
        }
        let refusal = await #expect(throws: VolumeError.self) {
            let target = DataDirectory(
                remote.path, ledger: overtaken, blobs: remote.blobSource)
            return try await site.move(from: site.embedded, to: target).run()
        }
        #expect(refusal?.message.contains("is not empty") == true)
        _ = try await site.move(from: site.returned, to: remote).run()
        try await site.expectEqual(site.returned, remote)
    }
}

/// A database of a process that another process overtakes before its first write transaction.
private final class OvertakenSource: LedgerSource {
    let base: any LedgerSource
    private let other: Mutex<(@Sendable () async -> Void)?>

    init(base: any LedgerSource, by other: @escaping @Sendable () async -> Void) {
        self.base = base
        self.other = Mutex(other)
    }

    var name: String { base.name }

    func exists() throws(VolumeError) -> Bool { try base.exists() }

    func open(mayCreate: Bool) throws(VolumeError) -> any Ledger {
        OvertakenLedger(base: try base.open(mayCreate: mayCreate), source: self)
    }

    func overtake() async { await other.withLock { $0.take() }?() }
}

private struct OvertakenLedger: LedgerWrapper {
    let base: any Ledger
    let source: OvertakenSource

    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LedgerTransaction) throws -> Result
    ) async throws -> Result { try await base.read(body) }

    func write<Result: Sendable>(
        _ scope: WriteScope, _ body: @escaping @Sendable (any LedgerTransaction) throws -> Result
    ) async throws -> Result {
        await source.overtake()
        return try await base.write(scope, body)
    }
}
