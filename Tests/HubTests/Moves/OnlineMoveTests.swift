import HubPostgres
import HubProtocol
import Model
import Support
import Synchronization
import Testing

@testable import Hub

@Suite(
    "Moving a hub that serves", .enabled(if: MovedHub.obstacle == nil, "\(MovedHub.obstacle ?? "")")
)
struct OnlineMoveTests {
    @Test("a hub moves there and back while devices commit, and all that was answered is there")
    func underLoad() async throws {
        let site = try MovedHub()
        var hub = try await site.serveEmbedded()
        var quiet = try await SavingDevices(at: hub)
        var busy: [BusyDevice] = []
        for number in 0..<3 {
            let volume = number == 0 ? "Alone" : "Shared"
            busy.append(BusyDevice(try await hub.device(volume: volume)))
        }
        // The one that moves back has a directory of its own, as on another machine.
        let other = try site.remote(site.scratch.path + "/other")
        _ = try other.make()
        let moves = [(site.embedded, try site.remote()), (other, site.returned)]
        for (isBack, (source, target)) in zip([false, true], moves) {
            let (begun, beginning) = AsyncStream<Void>.makeStream()
            let loads = busy.map { device in
                Task { await device.saving { beginning.yield() } }
            }
            var answers = begun.makeAsyncIterator()
            for _ in 0..<10 { await answers.next() }
            let report = try await site.move(from: source, to: target).run()
            #expect(report.rows > 50)
            #expect(try await hub.departure().message.contains("was moved to \(target.place)"))
            // They would try for a minute to reach the hub again.
            for load in loads { load.cancel() }
            for index in loads.indices { busy[index] = await loads[index].value }
            try await site.expectEqual(source, target)
            try await site.expectSound(source)
            try await site.expectSound(target)

            hub = isBack ? try await site.serveReturned() : try await site.serveRemote()
            quiet.move(to: hub)
            try await quiet.expectToGoOn()
            for index in busy.indices { try await busy[index].expectAnswers(at: hub) }
        }
        try await hub.stop()
    }

    @Test("a hub ends the freezing by a mover that has stopped, which sees that and copies again")
    func suspended() async throws {
        let site = try MovedHub()
        var hub = try await site.serveEmbedded()
        var devices = try await SavingDevices(at: hub)
        let mover = Suspension(source: site)
        let database = PostgresSource(try PostgresAddress(site.database))
        let remote = try site.remote()
        let target = DataDirectory(
            site.data, ledger: SuspendedSource(base: database, mover: mover),
            blobs: remote.blobSource)
        let move = Task {
            defer { mover.end() }
            return try await site.move(from: site.embedded, to: target).run()
        }
        try await mover.begin()
        let entry = devices.a.creation("meanwhile", bytes("four"))
        let refused = try await failure { [devices] in try await devices.a.commit([entry]) }
        #expect(refused.code == .busy)
        await #expect(throws: VolumeError.self) { try await hub.device(of: "berta") }
        while true {
            // It counts from when the hub has noticed.
            hub.advanceUptime(seconds: 31)
            do {
                try await devices.a.commit([entry])
                break
            } catch let failure as Failure where failure.code == .busy {
                try await Task.sleep(for: .milliseconds(20))
            }
        }
        devices.last = entry
        devices.page = try await devices.b.changes()
        mover.end()
        _ = try await move.value
        _ = try await hub.departure()
        try await site.expectEqual(site.embedded, remote)
        try await site.expectSound(remote)
        hub = try await site.serveRemote()
        devices.move(to: hub)
        try await devices.expectToGoOn()
        try await hub.stop()
    }

    @Test("a move that is given up leaves nothing in the ledger", arguments: [false, true])
    func givenUp(isRemote: Bool) async throws {
        let site = try MovedHub()
        var hub = isRemote ? try await site.serveRemote() : try await site.serveEmbedded()
        var devices = try await SavingDevices(at: hub)
        try await hub.stop()
        let place = isRemote ? try site.remote() : site.embedded
        let ledger = try place.openLedger()
        try await ledger.write { transaction in
            try MoveTable(transaction).set(
                MoveRecord(id: .random(), state: .frozen, place: "elsewhere"))
            try ChangeCapture().install(in: transaction)
            // A second time, as a move that is begun again.
            try ChangeCapture().install(in: transaction)
        }
        let refusal = await #expect(throws: VolumeError.self) {
            try await ledger.write { try $0.setFact(Fact.backedUp, 1) }
        }
        #expect(refusal?.code == .busy)
        try ledger.close()
        #expect(try await HubMove.undo(in: place).state == .frozen)
        let after = try place.openLedger()
        for table in ["capture", "changed_items"] {
            await #expect(throws: (any Error).self) {
                try await after.read { try $0.rows("SELECT 1 FROM \(table)", []) }
            }
        }
        try after.close()
        hub = isRemote ? try await site.serveRemote() : try await site.serveEmbedded()
        devices.move(to: hub)
        try await devices.expectToGoOn()
        try await hub.stop()
    }
}

/// A device that saves and deletes documents until its hub ends.
private struct BusyDevice: Sendable {
    private var device: TestDevice
    private var answered: [(entry: OperationEntry, result: OperationResult)] = []
    /// What was sent, and not answered before the hub ended.
    private var sent: (entry: OperationEntry, bytes: [UInt8])?
    private var kept: [[UInt8]] = []
    /// Why the hub does not answer any more.
    private var end: (any Error)?

    init(_ device: TestDevice) { self.device = device }

    /// - Returns: The device after that.
    func saving(_ hasSaved: @Sendable () -> Void) async -> BusyDevice {
        var device = self
        while device.end == nil {
            do {
                try await device.save()
                hasSaved()
            } catch let failure as Failure where failure.code == .busy {
                try? await Task.sleep(for: .milliseconds(5))
            } catch {
                device.end = error
            }
        }
        return device
    }

    private mutating func save() async throws {
        let next = sent ?? self.next()
        sent = next
        try await device.upload([next.bytes])
        let answer = try await device.commit([next.entry])
        answered.append((next.entry, answer.results[0]))
        sent = nil
        if case .create = next.entry.change { kept.append(next.bytes) }
    }

    /// Each third operation deletes the document before.
    private mutating func next() -> (entry: OperationEntry, bytes: [UInt8]) {
        let text = bytes("\(device.id) \(device.number)")
        if device.number.isMultiple(of: 3), let last = answered.last {
            return (device.entry(last.entry.item, .delete(current: nil)), text)
        }
        return (device.creation("\(device.id) \(device.number)", text), text)
    }

    /// All that was answered is answered in the same way at the new place, and what was saved can
    /// be read there.
    mutating func expectAnswers(at hub: RunningHub) async throws {
        #expect(end != nil && !(end is Failure), "\(String(describing: end))")
        end = nil
        device = device.moved(to: hub.url)
        #expect(answered.allSatisfy { $0.result.verdict == .applied } && answered.count > 5)
        for start in stride(from: 0, to: answered.count, by: 500) {
            let part = answered[start..<min(start + 500, answered.count)]
            let answer = try await device.commit(part.map(\.entry))
            #expect(answer.results == part.map(\.result))
        }
        if sent != nil { try await save() }
        let frames = try await device.read(kept.map { [device] in device.id(of: $0) })
        #expect(frames.map(\.bytes) == kept)
    }
}

/// Stops a mover when it has frozen the hub for the first time.
private final class Suspension: Sendable {
    private let source: MovedHub
    private let isOver = Mutex(false)
    private let begins: AsyncStream<Void>
    private let begun: AsyncStream<Void>.Continuation
    private let ends: AsyncStream<Void>
    private let ended: AsyncStream<Void>.Continuation

    init(source: MovedHub) {
        self.source = source
        (begins, begun) = AsyncStream.makeStream()
        (ends, ended) = AsyncStream.makeStream()
    }

    /// Waits until the mover has stopped.
    func begin() async throws {
        for await _ in begins { return }
        throw SupportError("the mover has ended, and the hub was never frozen")
    }

    /// The mover goes on, or has ended.
    func end() {
        isOver.withLock { $0 = true }
        begun.finish()
        ended.finish()
    }

    /// The mover calls this before it uses the target.
    func point() async throws {
        guard !isOver.withLock({ $0 }), try await source.objection(of: source.embedded) != nil
        else { return }
        begun.yield()
        for await _ in ends {}
    }
}

private struct SuspendedLedger: LedgerWrapper {
    let base: any Ledger
    let mover: Suspension

    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LedgerTransaction) throws -> Result
    ) async throws -> Result {
        try await mover.point()
        return try await base.read(body)
    }

    func write<Result: Sendable>(
        _ scope: WriteScope, _ body: @escaping @Sendable (any LedgerTransaction) throws -> Result
    ) async throws -> Result {
        try await mover.point()
        return try await base.write(scope, body)
    }
}

private struct SuspendedSource: LedgerSource {
    let base: any LedgerSource
    let mover: Suspension

    var name: String { base.name }

    func exists() throws(VolumeError) -> Bool { try base.exists() }

    func open(mayCreate: Bool) throws(VolumeError) -> any Ledger {
        SuspendedLedger(base: try base.open(mayCreate: mayCreate), mover: mover)
    }
}
