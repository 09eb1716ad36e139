import ChunkStore
import Foundation
import HubProtocol
import Model
import Reconcile

/// One device's batch of operations, and what becomes of it within a transaction.
struct Commit: Sendable {
    /// Without the operations that were done in a transaction before.
    var request: CommitRequest
    let caller: Caller
    let volume: Identifier
    /// When it arrived.
    let received: Int64
    /// Of the hub: `LedgerTransaction.note(run:of:after:upTo:)`.
    let run: Identifier
    let clock: @Sendable () -> Int64

    /// Answers to as many operations are kept to tell a copied device by.
    private static let answersKept: UInt64 = 2000
    /// What one transaction does at most, beside one more group (`LedgerTable.work`): others wait
    /// for it.
    static let workLimit = 20_000
    /// Chunks that are named as missing at once.
    private static let missingNamed = HubLimits.ids

    /// - Parameter work: What was done in the transaction. Where it becomes much, the operations
    ///   that are left are not answered, and are to be run in another transaction.
    /// - Throws: `Failure`, and then nothing is to be kept.
    func run(in transaction: any LedgerTransaction, work: inout Int) throws -> CommitAnswer {
        var volume = try transaction.volume(volume, of: caller)
        try checkEpochs(volume, transaction)
        let last = try transaction.lastNumber(
            of: caller.device, epoch: request.epoch, in: volume.id)
        if let first = request.operations.first, first.number > last + 1 {
            throw Failure(
                .gap, "The next operation of this device is \(last + 1), not \(first.number).",
                expected: last + 1)
        }
        let known = request.operations.prefix { $0.number <= last }
        var results = try known.map { try answered($0, transaction) }
        let new = request.operations.dropFirst(known.count)
        let objections = new.map { OperationCheck.objection(to: $0) }
        try checkChunks(zip(new, objections).filter { $1 == nil }.map(\.0), transaction)
        let done = try apply(Array(new), objections, to: &volume, transaction, work: &work)
        results += done
        if let last = done.last?.number {
            try transaction.setLastNumber(
                of: caller.device, epoch: request.epoch, in: volume.id, last)
            if last > Commit.answersKept {
                try transaction.forgetAnswers(
                    to: caller.device, epoch: request.epoch, in: volume.id,
                    upTo: last - Commit.answersKept)
            }
        }
        return CommitAnswer(
            results: results, head: volume.head, volumeEpoch: volume.epoch, received: received,
            answered: clock())
    }

    private func checkEpochs(_ volume: VolumeRow, _ transaction: any LedgerTransaction) throws {
        guard request.volumeEpoch == volume.epoch else { throw Failure.volumeEpoch(volume.epoch) }
        let epoch = try transaction.epoch(of: caller.device)
        guard request.epoch == epoch else {
            throw Failure(
                .deviceEpoch,
                "The device's epoch is \(epoch): ask for a new one, and count from 1 in it.",
                deviceEpoch: epoch)
        }
        if let collection = request.collection, collection != volume.collection {
            throw Failure(
                .collection, "Chunks were collected meanwhile: ask which are there once more.")
        }
    }

    /// Of an operation that was done before.
    private func answered(_ entry: OperationEntry, _ transaction: any LedgerTransaction) throws
        -> OperationResult
    {
        let known = try transaction.answer(
            to: entry.number, of: caller.device, epoch: request.epoch, in: volume)
        // So long ago that nobody waits for it.
        guard let known else {
            return OperationResult(number: entry.number, verdict: .applied, sequence: 0)
        }
        guard known.fingerprint == fingerprint(of: entry) else {
            throw Failure(
                .copied,
                "Operation \(entry.number) of this device was another one: the device was copied "
                    + "or rolled back. Ask for a new epoch, or become a device of its own.",
                deviceEpoch: request.epoch)
        }
        return try JSONDecoder().decode(OperationResult.self, from: Data(known.result))
    }

    /// Of what it does; what the device thinks of the time may change from one try to the next.
    private func fingerprint(of entry: OperationEntry) -> Digest {
        var operation = entry.operation(device: caller.device, epoch: request.epoch)
        operation.moment.time = 0
        operation.base = 0
        operation.change = operation.change.with { $0.moment.time = 0 }
        return .sha256(operation.encoded)
    }

    /// - Throws: `.missing` with the chunks that are not there to be named.
    private func checkChunks(
        _ entries: [OperationEntry], _ transaction: any LedgerTransaction
    ) throws {
        var seen: Set<Digest> = []
        var missing: [Digest] = []
        for entry in entries {
            for id in entry.content?.chunks.ids ?? [] where seen.insert(id).inserted {
                if try !transaction.isThere(id, in: volume) { missing.append(id) }
            }
        }
        guard missing.isEmpty else {
            throw Failure(
                .missing, "\(missing.count) chunks have to be uploaded first.",
                missing: PackedIDs(Array(missing.prefix(Commit.missingNamed))))
        }
    }

    // MARK: Applying

    private func apply(
        _ entries: [OperationEntry], _ objections: [String?], to volume: inout VolumeRow,
        _ transaction: any LedgerTransaction, work: inout Int
    ) throws -> [OperationResult] {
        guard !entries.isEmpty else { return [] }
        var table = LedgerTable(transaction, volume: volume.id, time: received)
        let workBefore = work
        var results: [OperationResult] = []
        let encoder = JSONEncoder()
        let before = volume.head
        var at = 0
        while at < entries.count, at == 0 || work < Commit.workLimit {
            let end = endOfGroup(entries, at)
            let group = Array(entries[at..<end])
            let answers = try apply(
                group, Array(objections[at..<end]), to: &volume, &table, transaction)
            work = workBefore + table.work
            for (entry, result) in zip(group, answers) {
                try transaction.setAnswer(
                    to: entry.number, of: caller.device, epoch: request.epoch, in: volume.id,
                    fingerprint: fingerprint(of: entry),
                    result: Array(try encoder.encode(result)))
                results.append(result)
            }
            at = end
        }
        try transaction.setHead(of: volume.id, volume.head)
        try transaction.note(run: run, of: volume.id, after: before, upTo: volume.head)
        return results
    }

    /// All of a group are applied, or all are refused.
    private func apply(
        _ group: [OperationEntry], _ objections: [String?], to volume: inout VolumeRow,
        _ table: inout LedgerTable, _ transaction: any LedgerTransaction
    ) throws -> [OperationResult] {
        var refusals = try refusals(of: group, objections, transaction)
        if refusals.allSatisfy({ $0 == nil }) {
            let before = volume
            do {
                return try transaction.nested {
                    try group.map { try apply($0, to: &volume, &table, transaction) }
                }
            } catch is OversizedItem {
                volume = before
                table = LedgerTable(table)
                refusals = group.map { _ in
                    .init(
                        .malformed,
                        "What is known of an item, with its attributes and conflict versions, has "
                            + "at most \(HubLimits.stateBytes) bytes.")
                }
            }
        }
        return try zip(group, refusals).map { entry, refusal in
            guard let refusal else { return try apply(entry, to: &volume, &table, transaction) }
            return OperationResult(
                number: entry.number, verdict: nil, refusal: refusal, sequence: 0)
        }
    }

    private func endOfGroup(_ entries: [OperationEntry], _ start: Int) -> Int {
        guard let group = entries[start].group else { return start + 1 }
        return entries[start...].firstIndex { $0.group != group } ?? entries.count
    }

    /// All of a group are refused, or none.
    private func refusals(
        of entries: [OperationEntry], _ objections: [String?],
        _ transaction: any LedgerTransaction
    ) throws -> [OperationResult.Refusal?] {
        var refusals = objections.map { $0.map { OperationResult.Refusal(.malformed, $0) } }
        for (index, entry) in entries.enumerated() where refusals[index] == nil {
            guard let revision = entry.change.revision,
                let known = try transaction.revision(revision.id, in: volume)
            else { continue }
            if known.content != revision.content {
                refusals[index] = .init(.malformed, "The version's id is another version's.")
            }
        }
        if refusals.allSatisfy({ $0 == nil }), try isOverQuota(entries, transaction) {
            refusals = entries.map {
                $0.change.revision == nil
                    ? nil : .init(.quota, "The account's quota is used up.")
            }
        }
        if refusals.contains(where: { $0 != nil }) {
            refusals = refusals.map {
                $0 ?? .init(.group, "Another operation of its group was refused.")
            }
        }
        return refusals
    }

    private func isOverQuota(_ entries: [OperationEntry], _ transaction: any LedgerTransaction)
        throws -> Bool
    {
        guard entries.contains(where: { $0.content != nil }),
            let account = try transaction.account(caller.account), let quota = account.quota
        else { return false }
        var (size, seen) = (UInt64(0), Set<Digest>())
        for content in entries.compactMap(\.content) {
            size += content.bytes
            for id in content.chunks.ids where seen.insert(id).inserted {
                guard let chunk = try transaction.chunk(id, in: volume), chunk.uses == 0 else {
                    continue
                }
                size += UInt64(chunk.place.length)
            }
        }
        return account.used > quota || size > quota - account.used
    }

    private func apply(
        _ entry: OperationEntry, to volume: inout VolumeRow, _ table: inout LedgerTable,
        _ transaction: any LedgerTransaction
    ) throws -> OperationResult {
        var operation = entry.operation(device: caller.device, epoch: request.epoch)
        operation.moment.time = min(operation.moment.time, received)
        operation.change = operation.change.with { $0 = own($0) }
        volume.head += 1
        table.sequence = volume.head
        table.content = entry.content
        table.isBounded = entry.change.bringsSomething
        let count = table.recorded.count
        let verdict = try operation.apply(to: &table, sequence: volume.head)
        if table.recorded.count > count, let content = entry.content {
            var bytes = content.bytes
            for chunk in content.chunks.ids {
                bytes += try transaction.useChunk(chunk, in: volume.id) ?? 0
            }
            try transaction.charge(volume.account, bytes)
        }
        return OperationResult(number: entry.number, verdict: verdict, sequence: volume.head)
    }

    /// What only the journal says of a revision is not the device's to say.
    private func own(_ revision: Revision) -> Revision {
        var revision = revision
        revision.sequence = 0
        revision.recordedBy = nil
        revision.equals = []
        revision.moment = Moment(
            time: min(revision.moment.time, received), device: caller.device)
        return revision
    }
}

extension RevisionContent {
    /// What is kept of it beside its chunks. All are bounded by one body.
    fileprivate var bytes: UInt64 { UInt64(manifest.bytes.count + chunks.bytes.count) }
}

extension Change {
    /// Whether something is kept with the item that was not there before.
    fileprivate var bringsSomething: Bool {
        switch self {
        case .create, .edit, .resolve: true
        case .attribute(_, let value): value != nil
        case .move, .delete, .restore: false
        }
    }

    /// The same, its revision changed.
    fileprivate func with(_ edit: (inout Revision) -> Void) -> Change {
        guard var revision else { return self }
        edit(&revision)
        switch self {
        case .create(var creation):
            creation.revision = revision
            return .create(creation)
        case .edit: return .edit(revision)
        case .resolve(let settled, _): return .resolve(settled, revision)
        case .move, .delete, .restore, .attribute: return self
        }
    }
}

extension Failure {
    static func volumeEpoch(_ epoch: Identifier) -> Failure {
        Failure(
            .volumeEpoch,
            "The hub was restored from a backup: compare everything, and infer no deletion.",
            epoch: epoch)
    }
}

extension Hub {
    /// Applies a batch once, whatever becomes of the answer.
    package func commit(
        _ request: CommitRequest, to volume: Identifier, for caller: Caller
    ) async throws -> CommitAnswer {
        let received = clock()
        guard request.device == caller.device else {
            throw Failure(.malformed, "The token is not that of device \(request.device).")
        }
        guard request.operations.count <= HubLimits.operations else {
            throw Failure(
                .tooLarge, "At most \(HubLimits.operations) operations are taken at once.")
        }
        let first = request.operations.first?.number ?? 1
        let isInOrder = request.operations.enumerated().allSatisfy {
            first > 0 && $1.number &- first == UInt64($0)
        }
        guard isInOrder else {
            throw Failure(.malformed, "Operations are numbered from 1, and without a gap.")
        }
        if let cursor = request.cursor {
            try await check(
                cursor, run: request.run, in: volume, epoch: request.volumeEpoch, for: caller)
        }
        let commit = Commit(
            request: request, caller: caller, volume: volume, received: received, run: run,
            clock: clock)
        let answer = try await committer(of: volume).add(commit)
        metrics.operations.add(answer.results.count)
        return answer
    }
}
