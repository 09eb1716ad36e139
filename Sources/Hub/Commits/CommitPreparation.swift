import HubProtocol
import Model

/// What is done for a commit before its transaction, in small steps, because other accounts wait
/// for a transaction: it checks that the chunks are stored, and counts the uses of the chunks of
/// versions that have very many.
struct CommitPreparation {
    let hub: Hub
    let commit: Commit

    /// The chunks that are checked in one step.
    private static let checkedAtOnce = 4096
    /// The time for which the uses are kept if the commit never ends, because the hub is stopped.
    private static let keptSeconds: Int64 = 3600

    private var volume: Identifier { commit.volume }
    private var caller: Caller { commit.caller }

    /// - Throws: What `body` throws; `.missing`.
    func run(_ body: () async throws -> CommitAnswer) async throws -> CommitAnswer {
        let entries = try await newEntries()
        try await check(entries)
        let large = entries.filter { $0.content?.isLarge == true }
        guard !large.isEmpty else { return try await body() }
        do {
            for entry in large { try await use(entry) }
            let answer = try await body()
            try await drop(large)
            return answer
        } catch {
            try? await drop(large)
            throw error
        }
    }

    /// The operations with contents that have not been done. There are none if the transaction
    /// will refuse the whole commit.
    private func newEntries() async throws -> [OperationEntry] {
        let all = commit.request.operations.filter {
            $0.content != nil && commit.objections[$0.number] == nil
        }
        guard !all.isEmpty else { return [] }
        let request = commit.request
        let last = try await hub.ledger.read { [commit] transaction -> UInt64? in
            let volume = try transaction.membership.view(
                commit.seenVolume, of: commit.caller, for: commit.operation
            ).volume
            guard request.volumeEpoch == volume.epoch,
                try request.epoch == transaction.devices.epoch(of: commit.caller.device),
                request.collection.map({ $0 == volume.collection }) ?? true
            else { return nil }
            return try transaction.operations.lastNumber(
                of: commit.caller.device, epoch: request.epoch, in: volume.id)
        }
        guard let last, let first = request.operations.first, first.number <= last + 1 else {
            return []
        }
        return all.filter { $0.number > last }
    }

    private func check(_ entries: [OperationEntry]) async throws {
        var seen: Set<Digest> = []
        let ids = entries.flatMap { $0.content?.chunks.ids ?? [] }.filter {
            seen.insert($0).inserted
        }
        var missing: [Digest] = []
        for start in stride(from: 0, to: ids.count, by: CommitPreparation.checkedAtOnce) {
            let slice = ids[start...].prefix(CommitPreparation.checkedAtOnce)
            missing += try await hub.ledger.read { [commit, volume] transaction in
                let proofs = ProofTable(transaction, volume, of: commit.caller.account)
                let present = try transaction.chunks.areThere(slice, in: volume)
                return try zip(slice, present).filter { chunk, isThere in
                    guard isThere, commit.folder != nil else { return !isThere }
                    return try !proofs.has(chunk)
                }.map(\.0)
            }
        }
        guard missing.isEmpty else { throw Failure.missing(missing) }
    }

    private func use(_ entry: OperationEntry) async throws {
        guard let revision = entry.change.revision?.id, let chunks = entry.content?.chunks.ids
        else { return }
        let until = hub.clock() + Timestamp.span(seconds: CommitPreparation.keptSeconds)
        for (part, slice) in VersionTable.parts(of: chunks).enumerated() {
            try await hub.turns.take(caller.account) {
                try await hub.ledger.write(.volume(volume)) { [commit] transaction in
                    _ = try transaction.membership.view(
                        commit.seenVolume, of: commit.caller, for: commit.operation)
                    // A version that the hub has already is not recorded again.
                    if try transaction.revision(revision, in: commit.volume) != nil { return }
                    let missing = try transaction.versions(in: commit.volume).use(
                        slice, of: revision, part: part, until: until)
                    if let missing { throw Failure.missing([missing]) }
                }
            }
        }
    }

    /// Ends the uses of versions that were not recorded.
    private func drop(_ entries: [OperationEntry]) async throws {
        let revisions = entries.compactMap { $0.change.revision?.id }
        try await hub.turns.take(caller.account) {
            try await hub.ledger.write(.volume(volume)) { [volume] transaction in
                for revision in revisions {
                    try transaction.versions(in: volume).dropUses(of: revision)
                }
            }
        }
    }
}
