import ChunkStore
import Foundation
import HubProtocol
import Model
import Reconcile

/// One device's batch of operations, which is applied within a transaction.
struct Commit: Sendable {
    /// Operations that an earlier transaction has completed are removed from it.
    var request: CommitRequest
    /// Why operations are refused, by their numbers (`OperationEntry.objection(keyed:)`).
    let objections: [UInt64: String]
    let caller: Caller
    let volume: Identifier
    /// What the account sees of the volume; nil if that is all.
    let folder: SharedFolder?
    /// What the account's devices take for the volume's id.
    var seenVolume: Identifier { folder?.id ?? volume }
    /// The time when the request arrived, in nanoseconds since 1970.
    let received: Int64
    /// Whether the device has the contents of the versions that it commits. A browser has not, and
    /// neither has a program that uses WebDAV.
    var keepsContents = true
    /// `.commit`, or `.pageForm` for a browser and WebDAV.
    var operation: VolumeOperation { keepsContents ? .commit : .pageForm }
    let clock: @Sendable () -> Int64
    var versionLimits = VersionLimits()
    var steps = StepLimits()
    /// The deletion that earlier transactions have begun.
    var walk: DeletionWalk?

    /// The number of answers that are kept for each device, to recognize a copied device.
    private static let answersKept: UInt64 = 2000

    /// - Parameter progress: What the transaction has done. When its work exceeds the limit, the
    ///   remaining operations get no result and must run in another transaction.
    /// - Throws: `Failure`; the transaction must then be rolled back.
    func run(in transaction: any LedgerTransaction, _ progress: inout CommitProgress) throws
        -> CommitStep
    {
        var volume = try transaction.membership.view(seenVolume, of: caller, for: operation).volume
        try checkEpochs(volume, transaction)
        let last = try transaction.operations.lastNumber(
            of: caller.device, epoch: request.epoch, in: volume.id)
        if let first = request.operations.first, first.number > last + 1 {
            throw Failure(
                .gap, "The next operation of this device is \(last + 1), not \(first.number).",
                expected: last + 1)
        }
        let known = request.operations.prefix { $0.number <= last }
        var results = try known.map { try answered($0, transaction) }
        let new = request.operations.dropFirst(known.count)
        // Another request with the same operations may have completed the one that was begun.
        var walk = known.isEmpty ? walk : nil
        let done = try apply(Array(new), to: &volume, transaction, &progress, &walk)
        results += done
        if let last = done.last?.number {
            try transaction.operations.setLastNumber(
                of: caller.device, epoch: request.epoch, in: volume.id, last)
            if last > Commit.answersKept {
                try transaction.operations.forgetAnswers(
                    to: caller.device, epoch: request.epoch, in: volume.id,
                    upTo: last - Commit.answersKept)
            }
        }
        let answer = CommitAnswer(
            results: results, head: volume.head, volumeEpoch: volume.epoch, received: received,
            answered: clock())
        return CommitStep(answer: answer, walk: walk)
    }

    /// Runs commits in one transaction until they have done its work. A commit that fails leaves
    /// nothing, and those that were not begun have no result.
    static func run(
        _ commits: [Commit], in transaction: any LedgerTransaction, _ progress: inout CommitProgress
    ) throws -> [Result<CommitStep, Failure>?] {
        try commits.map { commit in
            guard progress.work < commit.steps.work else { return nil }
            do {
                return .success(
                    try transaction.nested { try commit.run(in: transaction, &progress) })
            } catch let failure as Failure {
                return .failure(failure)
            }
        }
    }

    /// Removes the operations that a transaction has completed.
    ///
    /// - Returns: Whether none is left.
    mutating func isDone(by step: CommitStep) -> Bool {
        request.operations.removeFirst(step.answer.results.count)
        walk = step.walk
        return request.operations.isEmpty
    }

    private func checkEpochs(_ volume: VolumeRow, _ transaction: any LedgerTransaction) throws {
        guard request.volumeEpoch == volume.epoch else { throw Failure.volumeEpoch(volume.epoch) }
        let epoch = try transaction.devices.epoch(of: caller.device)
        guard request.epoch == epoch else {
            throw Failure(
                .deviceEpoch,
                "The device's epoch is \(epoch): ask for a new one, and count from 1 in it.",
                deviceEpoch: epoch)
        }
        if let collection = request.collection, collection != volume.collection {
            throw Failure(
                .collection, "Chunks were collected in the meantime: ask `have` again.")
        }
    }

    /// Returns the stored result of an operation that was completed earlier.
    private func answered(_ entry: OperationEntry, _ transaction: any LedgerTransaction) throws
        -> OperationResult
    {
        let known = try transaction.operations.answer(
            to: entry.number, of: caller.device, epoch: request.epoch, in: volume)
        // The result was removed because it is old; the device has received it long ago.
        guard let known else {
            return OperationResult(number: entry.number, verdict: .applied, sequence: 0)
        }
        guard known.fingerprint == fingerprint(of: entry) else {
            throw Failure(
                .copied,
                "Operation \(entry.number) was used for other changes: the device was copied "
                    + "or rolled back. Ask for a new epoch, or become a device of its own.",
                deviceEpoch: request.epoch)
        }
        return try JSONDecoder().decode(OperationResult.self, from: Data(known.result))
    }

    /// A hash of what the operation does, without its times: the device may correct them between
    /// two attempts.
    private func fingerprint(of entry: OperationEntry) -> Digest {
        var operation = entry.operation(device: caller.device, epoch: request.epoch)
        operation.moment.time = 0
        operation.base = 0
        operation.change = operation.change.with { $0.moment.time = 0 }
        return .sha256(operation.encoded)
    }

    // MARK: Applying

    private func apply(
        _ entries: [OperationEntry], to volume: inout VolumeRow,
        _ transaction: any LedgerTransaction, _ progress: inout CommitProgress,
        _ walk: inout DeletionWalk?
    ) throws -> [OperationResult] {
        guard !entries.isEmpty else { return [] }
        var table = LedgerTable(transaction, volume: volume.id, time: received)
        (table.versionLimits, table.steps) = (versionLimits, steps)
        table.scope = folder.map { FolderScope(transaction, $0) }
        defer { progress.crowded.formUnion(table.crowded) }
        if try transaction.membership.memberCount(of: volume.id) > 1 { table.sender = caller.user }
        let workBefore = progress.work
        var results: [OperationResult] = []
        let encoder = JSONEncoder()
        let before = volume.head
        var (at, announced) = (0, 0)
        while at < entries.count, at == 0 || progress.work < steps.work {
            let end = endOfGroup(entries, at)
            if end > announced {
                announced = max(end, min(at + Commit.readTogether, entries.count))
                try transaction.expect(reads(of: entries[at..<announced], volume))
            }
            let group = Array(entries[at..<end])
            let answers: [OperationResult]
            if group.count == 1, try begin(&walk, group[0], volume, &table) {
                guard let result = try go(on: &walk, group[0], to: &volume, &table, workBefore)
                else {
                    progress.work = workBefore + table.work
                    break
                }
                answers = [result]
            } else {
                answers = try apply(group, to: &volume, &table, transaction)
            }
            progress.work = workBefore + table.work
            for (entry, result) in zip(group, answers) {
                try transaction.operations.setAnswer(
                    to: entry.number, of: caller.device, epoch: request.epoch, in: volume.id,
                    fingerprint: fingerprint(of: entry),
                    result: Array(try encoder.encode(result)))
                results.append(result)
            }
            at = end
        }
        try transaction.charge(volume.account, table.charged)
        try JournalTimes(transaction, volume: volume.id)
            .advance(after: before, to: volume.head, at: received)
        return results
    }

    /// Returns whether the operation deletes a directory with so much in it that it takes several
    /// transactions.
    private func begin(
        _ walk: inout DeletionWalk?, _ entry: OperationEntry, _ volume: VolumeRow,
        _ table: inout LedgerTable
    ) throws -> Bool {
        guard objections[entry.number] == nil, case .delete = entry.change else { return false }
        if walk == nil {
            let operation = entry.operation(device: caller.device, epoch: request.epoch)
            table.sequence = volume.head + 1
            do { walk = try DeletionWalk(operation, in: &table) } catch is OperationBound {
                // The same is found when it is applied as others are, which refuses it.
                return false
            }
        }
        return walk != nil
    }

    /// Returns nil if the deletion must be continued in another transaction.
    private func go(
        on walk: inout DeletionWalk?, _ entry: OperationEntry, to volume: inout VolumeRow,
        _ table: inout LedgerTable, _ workBefore: Int
    ) throws -> OperationResult? {
        volume.head += 1
        table.sequence = volume.head
        table.isBounded = false
        let verdict = try walk?.go(in: &table, until: steps.work - workBefore)
        try table.transaction.charge(volume.account, table.takeGrowth())
        guard let verdict else { return nil }
        walk = nil
        return OperationResult(number: entry.number, verdict: verdict, sequence: volume.head)
    }

    /// Applies all operations of a group, or refuses all.
    private func apply(
        _ group: [OperationEntry], to volume: inout VolumeRow,
        _ table: inout LedgerTable, _ transaction: any LedgerTransaction
    ) throws -> [OperationResult] {
        let charged = table.charged
        var refusals = try refusals(of: group, volume, &table)
        if refusals.allSatisfy({ $0 == nil }) {
            let before = volume
            let allowed = group.count == 1 ? steps.operationWork : steps.groupWork
            table.workLimit = table.work + allowed + group.reduce(0) { $0 + $1.ownWork }
            if group.count == 1 { table.revivalLimit = table.work + steps.revivalWork }
            defer { (table.workLimit, table.revivalLimit) = (.max, .max) }
            do {
                return try transaction.nested {
                    let results = try group.map {
                        try apply($0, to: &volume, &table, transaction)
                    }
                    let growth = table.takeGrowth()
                    table.charged += growth
                    return results
                }
            } catch let bound as OperationBound {
                volume = before
                table = LedgerTable(table)
                table.charged = charged
                refusals = group.map { entry in
                    let id = entry.change.revision?.id
                    return .init(
                        .malformed, bound.message,
                        takenVersion: id == bound.takenVersion ? id : nil,
                        takenItem: entry.item == bound.takenItem ? entry.item : nil)
                }
            }
        }
        return zip(group, refusals).map { entry, refusal in
            OperationResult(number: entry.number, verdict: nil, refusal: refusal, sequence: 0)
        }
    }

    private func endOfGroup(_ entries: [OperationEntry], _ start: Int) -> Int {
        guard let group = entries[start].group else { return start + 1 }
        return entries[start...].firstIndex { $0.group != group } ?? entries.count
    }

    /// Returns why operations are refused. If one operation of a group is refused, all are.
    private func refusals(
        of entries: [OperationEntry], _ volume: VolumeRow, _ table: inout LedgerTable
    ) throws -> [OperationResult.Refusal?] {
        var refusals = entries.map { entry in
            objections[entry.number].map { OperationResult.Refusal(.malformed, $0) }
        }
        var versions = VersionIDs()
        for (index, entry) in entries.enumerated() where refusals[index] == nil {
            refusals[index] = try versions.refusal(of: entry, in: &table)
        }
        if refusals.allSatisfy({ $0 == nil }),
            try isOverQuota(entries, volume, table.charged, table.transaction)
        {
            refusals = entries.map {
                $0.change.addsBytes
                    ? .init(.quota, "The quota of the volume's owner is used up.") : nil
            }
        }
        if refusals.contains(where: { $0 != nil }) {
            refusals = refusals.map {
                $0 ?? .init(.group, "Another operation of the group was refused.")
            }
        }
        return refusals
    }

    /// - Parameter charged: What the transaction will add to the account's usage.
    private func isOverQuota(
        _ entries: [OperationEntry], _ volume: VolumeRow, _ charged: Int64,
        _ transaction: any LedgerTransaction
    ) throws -> Bool {
        let growing = entries.filter(\.change.addsBytes)
        guard !growing.isEmpty, let account = try transaction.account(volume.account),
            let quota = account.quota
        else { return false }
        let (sum, isBeyond) = account.used.addingReportingOverflow(UInt64(max(0, charged)))
        let used = isBeyond ? .max : sum - min(sum, UInt64(max(0, -charged)))
        // An operation is about as long as what it adds to the states of items and versions.
        var size = growing.reduce(UInt64(0)) {
            $0 + UInt64($1.operation(device: caller.device, epoch: request.epoch).encoded.count)
        }
        var seen: Set<Digest> = []
        for content in entries.compactMap(\.content) {
            size += content.bytes
            // The uses of many chunks were counted before.
            if content.isLarge { continue }
            for id in content.chunks.ids where seen.insert(id).inserted {
                size += try transaction.chunks.unusedLength(id, in: volume.id)
            }
        }
        return used > quota || size > quota - used
    }

    private func apply(
        _ entry: OperationEntry, to volume: inout VolumeRow, _ table: inout LedgerTable,
        _ transaction: any LedgerTransaction
    ) throws -> OperationResult {
        var operation = entry.operation(device: caller.device, epoch: request.epoch)
        operation.moment.time = min(operation.moment.time, received)
        operation.change = operation.change.with { [sender = table.sender] in $0 = own($0, sender) }
        volume.head += 1
        table.sequence = volume.head
        table.content = entry.content
        table.isBounded = entry.change.growsItem
        let count = table.recorded.count
        let isFenced = try table.isFenced(entry, in: volume, from: caller.device)
        let verdict =
            try table.verdict(ifUnseen: operation)
            ?? table.placed(operation).apply(
                to: &table, sequence: volume.head, isFenced: isFenced)
        if table.recorded.count > count, let content = entry.content {
            if !keepsContents, let revision = entry.change.revision {
                try transaction.release(revision.id, by: caller.device, in: volume.id)
            }
            let chunks = try use(content, of: entry.change.revision, transaction)
            table.charged += Int64(clamping: content.bytes + chunks)
        }
        return OperationResult(number: entry.number, verdict: verdict, sequence: volume.head)
    }

    /// Counts the uses of a recorded version's chunks, and returns the bytes of those that no
    /// version had used.
    ///
    /// - Throws: `.missing` if a chunk was collected since `CommitPreparation` has checked it.
    private func use(
        _ content: RevisionContent, of revision: Revision?, _ transaction: any LedgerTransaction
    ) throws -> UInt64 {
        // The chunks of large versions were checked before their uses were counted.
        if folder != nil, !content.isLarge {
            let proofs = ProofTable(transaction, volume, of: caller.account)
            let unproven = try content.chunks.ids.filter { try !proofs.has($0) }
            guard unproven.isEmpty else { throw Failure.missing(unproven) }
        }
        if content.isLarge, let revision {
            let versions = transaction.versions(in: volume)
            guard try versions.takeUses(of: revision.id, content.chunks) else {
                throw Failure(
                    .busy, "The hub is still storing another version of this document: try again.")
            }
            return 0
        }
        return try content.chunks.ids.reduce(0) { bytes, id in
            guard let more = try transaction.chunks.retain(id, in: volume) else {
                throw Failure.missing([id])
            }
            return bytes + more
        }
    }
}

/// What a transaction with commits has done so far.
struct CommitProgress {
    /// As `LedgerTable.work`.
    var work = 0
    /// Documents that have very many versions.
    var crowded: Set<Identifier> = []
}

/// The results of one transaction.
struct CommitStep: Sendable {
    let answer: CommitAnswer
    /// The first operation without a result, if it has been begun.
    let walk: DeletionWalk?
}

extension RevisionContent {
    /// Whether the uses of the chunks are counted before the transaction of the commit.
    var isLarge: Bool { chunks.ids.count > VersionTable.partChunks }

    /// The bytes that the hub stores for a revision in addition to its chunks.
    fileprivate var bytes: UInt64 { UInt64(manifest.bytes.count + chunks.bytes.count) }
}

extension OperationEntry {
    /// The work that the operation usually needs if it concerns one item only, in the units of
    /// `LedgerTable.work`.
    fileprivate var ownWork: Int { 60 + 10 * (content?.chunks.ids.count ?? 0) }
}

extension Change {
    /// Whether the change must fit the quota. Permissions and times always arrive.
    fileprivate var addsBytes: Bool {
        switch self {
        case .create, .edit: true
        case .attribute(let name, let value): value != nil && name.hasPrefix("x:")
        case .resolve(_, let revision): revision != nil
        case .move, .delete, .restore: false
        }
    }

    /// Whether the change makes the state of the item larger.
    fileprivate var growsItem: Bool {
        switch self {
        case .create, .edit, .resolve: true
        case .attribute(_, let value): value != nil
        case .move, .delete, .restore: false
        }
    }

    /// Returns the same change with an edited revision.
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
    /// The maximum number of missing chunks that one answer names.
    private static let missingNamed = HubLimits.ids

    static func missing(_ ids: [Digest]) -> Failure {
        Failure(
            .missing, "\(ids.count) chunks must be uploaded first.",
            missing: PackedIDs(Array(ids.prefix(missingNamed))))
    }

    static func volumeEpoch(_ epoch: Identifier) -> Failure {
        Failure(
            .volumeEpoch,
            "The hub was restored from a backup: compare everything, and infer no deletion.",
            epoch: epoch)
    }
}
