import ChunkStore
import HubProtocol
import Model
import Reconcile
import Support

@testable import Hub

/// A hub that does one transaction whenever a schedule says so, and that can be stopped before,
/// within and after each of them. What it remembers between transactions is what `Committer`,
/// `CommitPreparation`, `Revivals` and `VersionThinning` remember.
struct SteppedHub {
    /// A request of a device.
    struct Request {
        let device: Int
        /// A device that has lost the connection does not hear the answer.
        let number: Int
        var commit: Commit
        var results: [OperationResult] = []
        /// The parts of large versions whose uses are not counted yet.
        var parts: [(revision: Identifier, part: Int, chunks: ArraySlice<Digest>)] = []
        var large: [Identifier] = []
    }

    enum Outcome {
        case answered([OperationResult])
        case failed(Failure)
    }

    let transaction: any LedgerTransaction
    let plant: StepPlant?
    let volume = Identifier(high: 1, low: 1)
    let account = Identifier(high: 2, low: 1)
    private let epoch = Identifier(high: 3, low: 1)
    private let steps: StepLimits
    private let versions: VersionLimits
    /// The hub's clock.
    var time: Int64 = 1_700_000_000_000_000_000

    private(set) var requests: [Request] = []
    private var requestCount = 0
    /// Versions whose uses are to be dropped after the request.
    private var dropping: [Identifier] = []
    private var crowded: Set<Identifier> = []
    private var excess: [Identifier: ArraySlice<Identifier>] = [:]
    /// The versions that were removed because there were too many.
    private(set) var thinned: Set<Identifier> = []
    /// How many transactions there were of each kind.
    private(set) var counts: [String: Int] = [:]

    private struct Stopped: Error {}

    init(_ transaction: any LedgerTransaction, plant: StepPlant?) throws {
        self.transaction = transaction
        self.plant = plant
        var (steps, versions) = (StepLimits(), VersionLimits())
        (steps.work, steps.deleted, steps.revived, steps.read) = (70, 3, 3, 2)
        (steps.operationWork, steps.groupWork, steps.revivalWork) = (700, 700, 17)
        steps.thinning = 70
        (versions.most, versions.newest) = (12, 4)
        (self.steps, self.versions) = (steps, versions)
        try transaction.addAccount(account, name: "anna", quota: nil, at: time)
        try transaction.addVolume(
            VolumeRow(
                id: volume, account: account, name: "v", epoch: epoch, chunkKey: [], nameKey: [],
                head: 0, collection: 0), at: time)
    }

    func enrol(_ index: Int) throws -> Caller {
        let device = Identifier(high: 4, low: UInt64(index + 1))
        let epoch = try transaction.enrol(device, account: account, name: "d", at: time)
        try transaction.addToken(.sha256([UInt8(index)]), device: device, expires: .max)
        return Caller(device: device, account: account, user: "anna", epoch: epoch, seen: time)
    }

    // MARK: Requests

    /// Takes a request. The device has uploaded the chunks that the hub does not have.
    ///
    /// - Returns: The number of the request.
    mutating func receive(_ entries: [OperationEntry], from device: Int, _ caller: Caller) throws
        -> Int
    {
        var entries = entries
        if plant == .deletesUnseen {
            for index in entries.indices {
                if case .delete = entries[index].change { entries[index].base = .max }
            }
        }
        for id in entries.compactMap(\.content).flatMap(\.chunks.ids)
        where try !transaction.isThere(id, in: volume) {
            let place = ChunkLocation(pack: 1, offset: 0, storedLength: 9, length: 9)
            try transaction.putChunk(id, plain: id, at: place, in: volume, time: time)
        }
        let now = time
        let commit = Commit(
            request: CommitRequest(
                device: caller.device, epoch: caller.epoch, volumeEpoch: epoch, collection: nil,
                operations: entries, sent: 0),
            objections: [:], caller: caller, volume: volume, received: now, clock: { now },
            versionLimits: versions, steps: steps)
        requestCount += 1
        var request = Request(device: device, number: requestCount, commit: commit)
        let last = try transaction.lastNumber(
            of: caller.device, epoch: caller.epoch, in: volume)
        for entry in entries where entry.number > last {
            guard let content = entry.content, content.isLarge,
                let revision = entry.change.revision?.id
            else { continue }
            request.large.append(revision)
            for (part, chunks) in VersionTable.parts(of: content.chunks.ids).enumerated() {
                request.parts.append((revision, part, chunks))
            }
        }
        requests.append(request)
        return request.number
    }

    /// Does the next transaction of the requests: it counts a part of the uses of a large version,
    /// or runs commits.
    ///
    /// - Parameter stops: Whether the hub is stopped within the transaction.
    /// - Returns: The numbers of requests with what is answered.
    mutating func serve(_ random: inout SeededRandom, stops: Bool = false) throws -> [Int: Outcome]
    {
        let unprepared = requests.indices.filter { !requests[$0].parts.isEmpty }
        var batch = requests.filter(\.parts.isEmpty)
        if !unprepared.isEmpty, batch.isEmpty || random.oneIn(2) {
            return try count(random.pick(unprepared), stops)
        }
        guard !batch.isEmpty else { return [:] }
        batch = Array(batch.prefix(1 + random.below(3)))
        // The state before a restore must be known.
        if let one = batch.firstIndex(where: \.hasRestore) {
            batch.removeLast(batch.count - max(one, 1))
        }
        let numbers = Set(batch.map(\.number))
        requests.removeAll { numbers.contains($0.number) }
        let (commits, transaction) = (batch.map(\.commit), transaction)
        var progress = CommitProgress()
        let done = try step("commits", stops) {
            try Commit.run(commits, in: transaction, &progress)
        }
        guard let done else { return [:] }
        crowded.formUnion(progress.crowded)
        var outcomes: [Int: Outcome] = [:]
        for (request, result) in zip(batch, done) {
            var request = request
            switch result {
            case nil: requests.append(request)
            case .failure(let failure)?:
                dropping += request.large
                outcomes[request.number] = .failed(failure)
            case .success(let step)?:
                request.results += step.answer.results
                let isDone = request.commit.isDone(by: step)
                if request.commit.walk != nil { counts["walks", default: 0] += 1 }
                if !isDone, plant == .answersTooEarly {
                    request.results += request.commit.request.operations.map {
                        OperationResult(number: $0.number, verdict: .applied, sequence: 0)
                    }
                } else if !isDone {
                    requests.append(request)
                    continue
                }
                dropping += request.large
                outcomes[request.number] = .answered(request.results)
            }
        }
        return outcomes
    }

    private mutating func count(_ index: Int, _ stops: Bool) throws -> [Int: Outcome] {
        let part = requests[index].parts.removeFirst()
        let until = time + Timestamp.span(seconds: 3600)
        let (transaction, volume) = (transaction, volume)
        let missing = try step("uses", stops) { () -> Digest? in
            if try transaction.revision(part.revision, in: volume) != nil { return nil }
            return try transaction.versions(in: volume).use(
                part.chunks, of: part.revision, part: part.part, until: until)
        }
        guard case .some(.some(let id)) = missing else { return [:] }
        let request = requests.remove(at: index)
        dropping += request.large
        return [request.number: .failed(.missing([id]))]
    }

    // MARK: Upkeep

    /// - Returns: Whether something may be left to do.
    mutating func revive(stops: Bool = false) throws -> Bool {
        let (transaction, volume, time, steps) = (transaction, volume, time, steps)
        let isThere = try transaction.row("SELECT 1 FROM revivals", []) != nil
        guard isThere else { return false }
        let before = try transaction.account(account)?.used ?? 0
        let head = try transaction.volume(volume)?.head ?? 0
        let isMore = try step("revivals", stops) {
            try Revivals.step(in: volume, transaction, at: time, steps)
        }
        switch plant {
        case .revivesWithoutCharge: try transaction.setUsed(of: account, before)
        case .revivesUnannounced: try transaction.setHead(of: volume, head)
        case .revivesOnePage: try transaction.execute("DELETE FROM revivals", [])
        default: break
        }
        return isMore ?? false
    }

    /// - Returns: Whether something may be left to do.
    mutating func thin(stops: Bool = false) throws -> Bool {
        let table = transaction.versions(in: volume)
        if let document = crowded.min(by: { $0.bytes.lexicographicallyPrecedes($1.bytes) }) {
            crowded.remove(document)
            let all = try table.arrivals(of: document)
            var found = versions.excess(of: all, at: time)
            if plant == .removesCurrentVersions, !found.isEmpty {
                try removeNewest(all, table)
                found = []
            }
            if !found.isEmpty { excess[document] = found[...] }
            return true
        }
        if let (document, slice) = excess.min(by: {
            $0.key.bytes.lexicographicallyPrecedes($1.key.bytes)
        }) {
            let steps = steps
            let done = try step("thinning", stops) {
                try VersionThinning.remove(slice, of: document, table, steps)
            }
            guard let done else { return true }
            for id in slice.prefix(done) where try transaction.revision(id, in: volume) == nil {
                thinned.insert(id)
            }
            let rest = slice.dropFirst(done)
            excess[document] = rest.isEmpty ? nil : rest
            return true
        }
        return false
    }

    private func removeNewest(_ all: [VersionTable.Arrival], _ table: VersionTable) throws {
        guard let newest = all.first else { return }
        _ = try table.remove(newest.id)
    }

    /// Ends uses without a version.
    ///
    /// - Returns: Whether something may be left to do.
    mutating func endUses(stops: Bool = false) throws -> Bool {
        let table = transaction.versions(in: volume)
        if let revision = dropping.first {
            dropping.removeFirst()
            _ = try step("drops", stops) { try table.dropUses(of: revision) }
            return true
        }
        let time = time
        let rows = try transaction.rows(
            "SELECT chunks FROM loose_uses WHERE due <= $1 LIMIT 1", [.integer(time)])
        guard !rows.isEmpty else { return false }
        let isMore = try step("ends", stops) { try table.endUses(at: time) }
        if plant == .endsUsesTwice, let ids = PackedIDs(bytes: try rows[0].bytes(0))?.ids {
            for id in ids { try transaction.releaseChunk(id, in: volume) }
        }
        return isMore ?? false
    }

    /// Removes chunks that no version uses, as `Hub.collect` does.
    mutating func collect(stops: Bool = false) throws {
        let (transaction, volume, time) = (transaction, volume, time)
        let grace = Timestamp.span(seconds: 7200)
        _ = try step("collections", stops) {
            _ = try transaction.sweepChunks(condemnedBefore: time - grace, in: volume)
            _ = try transaction.condemnChunks(cameBefore: time - grace, in: volume, at: time)
        }
    }

    // MARK: Stopping

    /// - Returns: Nil if the hub was stopped before the end of the transaction.
    private mutating func step<Value>(
        _ kind: String, _ stops: Bool, _ body: () throws -> Value
    ) throws -> Value? {
        counts[kind, default: 0] += 1
        let used = try transaction.account(account)?.used ?? 0
        do {
            return try transaction.nested {
                let value = try body()
                if stops, plant != .keepsHalf { throw Stopped() }
                if stops { try transaction.setUsed(of: account, used) }
                return value
            }
        } catch is Stopped {
            return nil
        }
    }

    /// Stops the hub, and starts it again.
    mutating func restart() throws {
        counts["restarts", default: 0] += 1
        (requests, dropping, crowded, excess) = ([], [], [], [:])
        if plant == .forgetsRevivals { try transaction.execute("DELETE FROM revivals", []) }
        if plant == .repeatsOperations {
            try transaction.execute("UPDATE numbers SET last = last - 1 WHERE last > 0", [])
        }
    }

    // MARK: Reading

    func page(after cursor: UInt64, limit: Int) throws -> (changes: [ItemChange], next: UInt64) {
        let page = try transaction.changes(
            in: volume, after: cursor, limit: limit, withoutTrashUpTo: 0)
        let head = try transaction.volume(volume)?.head ?? 0
        let next = plant == .endsPagesEarly ? nil : page.next
        return (page.changes, next ?? max(head, cursor))
    }

    func items() throws -> [Identifier: ItemState] {
        var items: [Identifier: ItemState] = [:]
        for row in try transaction.rows(
            "SELECT id, state, sequence FROM items WHERE volume = $1", [.id(volume)])
        {
            let id = try row.id(0)
            items[id] = try transaction.state(row.bytes(1), id, sequence: row.count(2))
        }
        return items
    }

    /// Whether something in memory or in the ledger waits.
    var isBusy: Bool {
        !requests.isEmpty || !dropping.isEmpty || !crowded.isEmpty || !excess.isEmpty
    }
}

extension SteppedHub.Request {
    var hasRestore: Bool {
        if case .restore = commit.request.operations.first?.change { return true }
        return false
    }
}

/// A fault of the steps, to show that it would be found.
enum StepPlant: String, CaseIterable, Sendable {
    /// A deletion removes what the device has not seen.
    case deletesUnseen
    /// A device is answered before all of its operations are done.
    case answersTooEarly
    /// An operation that is sent again is done again.
    case repeatsOperations
    /// What is left to restore is forgotten when the hub is stopped.
    case forgetsRevivals
    /// Only the first part of a directory is restored.
    case revivesOnePage
    case revivesWithoutCharge
    /// The feed does not end with what was restored in steps.
    case revivesUnannounced
    case removesCurrentVersions
    case endsUsesTwice
    /// What a stopped transaction has written stays, without its charge.
    case keepsHalf
    /// A page of the feed counts as the last one.
    case endsPagesEarly
}
