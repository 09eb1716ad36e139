import Foundation
import HubPostgres
import HubProtocol
import HubS3
import Model
import Reconcile
import Support
import Testing

@testable import Hub

/// The places of a hub that moves: a directory, a database with a bucket, and another directory.
struct MovedHub: Sendable {
    let scratch: TemporaryDirectory
    let database: String
    let bucket: String

    /// Why no hub can move on this machine.
    static let obstacle: String? = {
        let environment = ProcessInfo.processInfo.environment
        let isChosen = ["CONCORD_TEST_LEDGER", "CONCORD_TEST_BLOBS"].contains {
            environment[$0] != nil
        }
        return isChosen
            ? "The environment chooses the places of hubs."
            : PostgresServer.obstacle ?? S3Server.obstacle
    }()

    /// - Parameter endpoint: Of a relay in front of the S3 server.
    init(endpoint: String? = nil) throws {
        scratch = try TemporaryDirectory("move")
        database = try PostgresServer.database(for: scratch.path)
        bucket = try S3Server.shared.get().url(
            "hubs", UUID().uuidString, endpoint: endpoint)
    }

    var data: String { scratch.path + "/data" }
    var embedded: DataDirectory { DataDirectory(data) }
    var returned: DataDirectory { DataDirectory(scratch.path + "/returned") }

    func remote(_ data: String? = nil) throws -> DataDirectory {
        DataDirectory(
            data ?? self.data, ledger: PostgresSource(try PostgresAddress(database)),
            blobs: S3Source(try S3Address(bucket)))
    }

    func move(from source: DataDirectory, to target: DataDirectory) -> HubMove {
        HubMove(from: source, to: target, log: RunningHub.quiet)
    }

    // MARK: Serving

    func serveEmbedded() async throws -> RunningHub { try await RunningHub(in: scratch) }

    func serveRemote(_ data: String? = nil) async throws -> RunningHub {
        try await RunningHub(in: scratch, data: data, database: database, bucket: bucket)
    }

    func serveReturned() async throws -> RunningHub {
        try await RunningHub(in: scratch, data: returned.path)
    }

    // MARK: Comparing

    /// All rows that belong to the hub and not to its place.
    func rows(of directory: DataDirectory) async throws -> [String: [LedgerRow]] {
        let ledger = try directory.openLedger()
        defer { try? ledger.close() }
        return try await ledger.read { transaction in
            var rows: [String: [LedgerRow]] = [:]
            for table in try LedgerCopy.tables() {
                rows[table.name] = try transaction.rows(
                    "SELECT \(table.list) FROM \(table.name) ORDER BY \(table.keyList)", []
                ).filter { $0[0] != .text(Fact.newestPack) }
            }
            return rows
        }
    }

    func expectEqual(_ source: DataDirectory, _ target: DataDirectory) async throws {
        let (old, new) = (try await rows(of: source), try await rows(of: target))
        #expect(old.values.reduce(0) { $0 + $1.count } > 20)
        for table in old.keys { #expect(old[table] == new[table], "\(table)") }
    }

    /// - Returns: The number of chunks.
    @discardableResult
    func expectSound(_ directory: DataDirectory) async throws -> Int {
        let administration = try Administration(directory)
        let report = try await administration.check()
        #expect(report.faults == [])
        try administration.close()
        return report.chunks
    }

    /// Why the hub cannot be used at this place; nil if it can.
    func objection(of directory: DataDirectory) async throws -> VolumeError? {
        let database = directory.source
        let ledger = try database?.open(mayCreate: false) ?? directory.openLedger()
        defer { try? ledger.close() }
        return try await ledger.read { try MoveTable($0).record() }?.objection
    }
}

/// Two devices of one account that have saved something.
struct SavingDevices: Sendable {
    var a: TestDevice
    var b: TestDevice
    /// The last operation of `a`.
    var last: OperationEntry
    /// Where `b` has read to.
    var page: ChangesAnswer
    var contents: [[UInt8]]

    /// Saves in several packs: a conflict, large and small documents, a directory with a deleted
    /// document, and a chunk that no version names.
    init(at hub: RunningHub) async throws {
        (a, b) = (try await hub.device(quota: 100_000_000), try await hub.device())
        let texts = ["one", "two", "three", "four"].map { bytes($0) }
        contents = texts
        try await a.upload(texts)
        let item = Identifier.random()
        let first = a.revision(of: texts[0])
        let creation = Creation(
            kind: .file, placement: a.placement("report"), revision: first)
        try await a.commit([a.entry(item, .create(creation), bytes: texts[0])])
        let (mine, yours) = (
            a.revision(of: texts[1], parents: [first.id]),
            b.revision(of: texts[2], parents: [first.id])
        )
        try await a.commit([a.entry(item, .edit(mine), bytes: texts[1])])
        try await b.commit([b.entry(item, .edit(yours), bytes: texts[2])])
        try await hub.hub.blobs.endPack()
        var random = SeededRandom(seed: 1)
        for number in 0..<10 {
            var large: [UInt8] = []
            while large.count < 600_000 { withUnsafeBytes(of: random.next()) { large += $0 } }
            contents.append(large)
            try await b.save("large \(number)", large)
        }
        try await hub.hub.blobs.endPack()
        let folder = Identifier.random()
        try await a.commit([a.directory("folder", id: folder)])
        last = a.creation("gone", texts[3])
        try await a.commit([last])
        last = a.entry(last.item, .delete(current: nil))
        try await a.commit([last])
        contents.append(bytes("no version has this"))
        try await a.upload([contents.last!])
        page = try await b.changes()
    }

    mutating func move(to hub: RunningHub) { move(to: hub.url) }

    mutating func move(to url: String) { (a, b) = (a.moved(to: url), b.moved(to: url)) }

    /// The devices go on as if nothing had happened.
    mutating func expectToGoOn() async throws {
        let conflicts = page.changes.flatMap { change in
            if case .item(let state) = change { state.conflicts } else { [] }
        }
        #expect(conflicts.count == 1)
        let news = try await b.changes(after: page.next, run: page.run)
        #expect(
            news.changes.isEmpty && news.head == page.head && news.volumeEpoch == page.volumeEpoch)
        #expect(try await b.changes().changes == page.changes)
        #expect(news.acknowledged == b.number - 1)
        // What was answered already is answered in the same way, and is not done again.
        let again = try await a.commit([last])
        #expect(again.head == page.head && again.results[0].number == last.number)
        let frames = try await a.read(contents.map { a.id(of: $0) })
        #expect(frames.map(\.bytes) == contents)
        try await save("more \(page.head)")
        page = try await b.changes()
    }

    mutating func save(_ name: String) async throws {
        contents.append(bytes(name))
        last = a.creation(name, bytes(name))
        try await a.upload([bytes(name)])
        let answer = try await a.commit([last])
        #expect(answer.results[0].verdict == .applied)
    }
}
