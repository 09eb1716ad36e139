import Foundation
import Hub
import HubProtocol
import Model
import Support
import Testing

/// The ledger and the blobs record that they belong together. A missing part is refused, and packs
/// that a ledger does not know are never removed.
struct PartsTests {
    private let files = FileManager.default

    /// Returns the data directory of a stopped hub with one document, and the device that saved it.
    private func stoppedHub(_ scratch: TemporaryDirectory) async throws -> (String, TestDevice) {
        let hub = try await RunningHub(in: scratch)
        var device = try await hub.device()
        try await device.save("a", bytes("contents of a"))
        try await hub.stop()
        return (hub.directory.path, device)
    }

    private func refusal(_ scratch: TemporaryDirectory) async throws -> String {
        let error = await #expect(throws: VolumeError.self) {
            _ = try await RunningHub(in: scratch)
        }
        #expect(error?.code == .damaged)
        #expect(error?.message.contains("--rebuild") == true)
        return error?.message ?? ""
    }

    private func move(_ from: String, _ to: String) throws {
        if files.fileExists(atPath: to) { try files.removeItem(atPath: to) }
        try files.moveItem(atPath: from, toPath: to)
    }

    private func packs(_ data: String, _ directory: String = "blobs") -> [String] {
        let names = (try? files.contentsOfDirectory(atPath: "\(data)/\(directory)")) ?? []
        return names.filter { $0.hasSuffix(".pack") }
    }

    private func check(_ data: String) async throws {
        let administration = try Administration(DataDirectory(data))
        #expect(try await administration.check().faults == [])
        try administration.close()
    }

    @Test func aMissingLedgerIsRefused() async throws {
        let scratch = try TemporaryDirectory("hub")
        let (data, device) = try await stoppedHub(scratch)
        try move(data + "/ledger.sqlite", scratch.path + "/away")
        #expect(try await refusal(scratch).contains("ledger.sqlite is missing"))
        #expect(throws: VolumeError.self) {
            try Administration(DataDirectory(data), mayCreate: true)
        }
        #expect(!files.fileExists(atPath: data + "/ledger.sqlite"))
        try move(scratch.path + "/away", data + "/ledger.sqlite")
        let again = try await RunningHub(in: scratch)
        #expect(try await device.moved(to: again.url).changes().changes.count == 1)
        try await again.stop()
    }

    @Test func aNewLedgerErasesNothingAndTheOldOneFindsAll() async throws {
        let scratch = try TemporaryDirectory("hub")
        let (data, device) = try await stoppedHub(scratch)
        try move(data + "/ledger.sqlite", scratch.path + "/away")
        let anew = try await RunningHub(in: scratch, rebuilds: true)
        var other = try await anew.device(of: "bert")
        try await other.save("b", bytes("contents of b"))
        for _ in 0..<2 {
            _ = try await anew.hub.collect(grace: 0)
            anew.advance(seconds: 10)
        }
        try await anew.stop()
        #expect(packs(data, "blobs/quarantine").count == 1)
        #expect(packs(data).count == 1)

        try move(scratch.path + "/away", data + "/ledger.sqlite")
        let old = try await RunningHub(in: scratch)
        let gone = try await failure { try await device.moved(to: old.url).changes(after: 1) }
        #expect(gone.code == .volumeEpoch)
        try await old.stop()
        #expect(packs(data, "blobs/quarantine").isEmpty)
        #expect(packs(data).count == 2)
        try await check(data)
    }

    /// How the older copy of the ledger was made.
    enum Copy: CaseIterable { case betweenRuns, inTheSameRun, byBackup }

    @Test(arguments: Copy.allCases)
    func anOlderLedgerErasesNothingThatTheNewerOneNames(copy: Copy) async throws {
        let scratch = try TemporaryDirectory("hub")
        let (data, device) = try await stoppedHub(scratch)
        if copy == .betweenRuns {
            try files.copyItem(atPath: data + "/ledger.sqlite", toPath: scratch.path + "/older")
        }
        let second = try await RunningHub(in: scratch)
        var writer = device.moved(to: second.url)
        _ = try await second.hub.collect(grace: 0)
        if copy == .inTheSameRun {
            try Command("sqlite3", data + "/ledger.sqlite", ".backup '\(scratch.path)/older'")
                .succeed()
        }
        if copy == .byBackup {
            let administration = try Administration(DataDirectory(data))
            _ = try await administration.backup(to: scratch.path + "/backup")
            try administration.close()
            try move(scratch.path + "/backup/ledger.sqlite", scratch.path + "/older")
        }
        try await writer.save("b", bytes("contents of b"))
        try await second.stop()
        // The file `heads` alone is not enough, because an operator who restores one file may
        // restore both.
        try files.removeItem(atPath: data + "/heads")
        try move(data + "/ledger.sqlite", scratch.path + "/newer")
        try move(scratch.path + "/older", data + "/ledger.sqlite")
        let older = try await RunningHub(in: scratch)
        let gone = try await failure { try await device.moved(to: older.url).changes(after: 1) }
        #expect(gone.code == .volumeEpoch)
        for _ in 0..<2 {
            _ = try await older.hub.collect(grace: 0)
            older.advance(seconds: 10)
        }
        try await older.stop()
        #expect(packs(data).count + packs(data, "blobs/quarantine").count == 2)
        try move(scratch.path + "/newer", data + "/ledger.sqlite")
        let newer = try await RunningHub(in: scratch)
        try await newer.stop()
        try await check(data)
    }

    @Test func missingBlobsAreRefusedAndAskedForAgain() async throws {
        let scratch = try TemporaryDirectory("hub")
        let (data, device) = try await stoppedHub(scratch)
        try move(data + "/blobs", scratch.path + "/away")
        #expect(try await refusal(scratch).contains("blobs lacks 1 packs"))
        // The first check has created the directory, which must not satisfy the second check.
        #expect(try await refusal(scratch).contains("blobs lacks 1 packs"))
        try move(scratch.path + "/away", data + "/blobs")
        try await RunningHub(in: scratch).stop()
        try await check(data)

        try files.removeItem(atPath: data + "/blobs")
        let anew = try await RunningHub(in: scratch, rebuilds: true)
        let here = device.moved(to: anew.url)
        let chunk = here.id(of: bytes("contents of a"))
        #expect(try await here.wanted().ids == [chunk])
        _ = try await here.upload([bytes("contents of a")])
        #expect(try await here.wanted().ids == [])
        try await anew.stop()
        try await check(data)
    }

    @Test func theBlobsOfAnotherHubAreRefused() async throws {
        let (one, two) = (try TemporaryDirectory("hub"), try TemporaryDirectory("hub"))
        let (data, _) = try await stoppedHub(one)
        let second = try await RunningHub(in: two)
        try await second.stop()
        try files.removeItem(atPath: data + "/blobs")
        try move(second.directory.path + "/blobs", data + "/blobs")
        #expect(try await refusal(one).contains("blobs lacks 1 packs"))
    }

    @Test func aHubOfAnEarlierBuildGetsItsMarksSilently() async throws {
        let scratch = try TemporaryDirectory("hub")
        let (data, device) = try await stoppedHub(scratch)
        try files.removeItem(atPath: data + "/blobs/mark")
        let facts = "name IN ('store-high', 'store-low', 'opening', 'joining', 'foreign-pack')"
        try Command(
            "sqlite3", data + "/ledger.sqlite", "DELETE FROM facts WHERE \(facts)"
        ).succeed()
        let again = try await RunningHub(in: scratch)
        #expect(try await device.moved(to: again.url).changes(after: 0).changes.count == 1)
        for _ in 0..<2 {
            _ = try await again.hub.collect(grace: 0)
            again.advance(seconds: 10)
        }
        try await again.stop()
        #expect(files.fileExists(atPath: data + "/blobs/mark"))
        #expect(packs(data, "blobs/quarantine").isEmpty)
        try await check(data)
    }

    /// Faults 6: the command must not wait for a hub that has stopped.
    @Test func aCollectionIsDoneByItsCommandWhenTheHubEndsOverIt() async throws {
        let scratch = try TemporaryDirectory("hub")
        let hub = try HubProcess(data: scratch.path + "/data")
        try hub.hub("user", "add", "anna").succeed()
        hub.send(SIGSTOP)
        let command = hub.hub("gc", "--grace", "0")
        async let result = Task.detached { try command.run() }.value
        try wait(seconds: 20, for: "the command to ask the hub") {
            let count = try Command(
                "sqlite3", "-readonly", hub.data + "/ledger.sqlite",
                "SELECT count(*) FROM errands WHERE result IS NULL"
            ).succeed()
            return count.hasPrefix("1") ? true : nil
        }
        try hub.kill()
        let ended = try await result
        #expect(ended.status == 0, "\(ended.errors)")
        #expect(ended.output.contains("condemned 0 chunks"))
    }
}
