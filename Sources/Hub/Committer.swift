import HubProtocol
import Model

/// Commits of one volume: those that arrive while one is being written share the next transaction,
/// and so one wait for the disk.
actor Committer {
    private struct Waiting {
        let commit: Commit
        let done: CheckedContinuation<CommitAnswer, any Error>
    }

    private let volume: Identifier
    private unowned let hub: Hub
    private var waiting: [Waiting] = []
    private var isWorking = false

    /// More would make the first one wait for long.
    private static let together = 64

    init(volume: Identifier, hub: Hub) {
        self.volume = volume
        self.hub = hub
    }

    func add(_ commit: Commit) async throws -> CommitAnswer {
        try await withCheckedThrowingContinuation { done in
            waiting.append(Waiting(commit: commit, done: done))
            guard !isWorking else { return }
            isWorking = true
            Task { await work() }
        }
    }

    private func work() async {
        while !waiting.isEmpty {
            let batch = Array(waiting.prefix(Committer.together))
            waiting.removeFirst(batch.count)
            await run(batch)
        }
        isWorking = false
    }

    private func run(_ batch: [Waiting]) async {
        let commits = batch.map(\.commit)
        do {
            let results = try await hub.ledger.write { transaction in
                try commits.map { commit -> Result<CommitAnswer, Failure> in
                    do {
                        return .success(
                            try transaction.nested { try commit.run(in: transaction) })
                    } catch let failure as Failure {
                        return .failure(failure)
                    }
                }
            }
            tell(results)
            for (waiting, result) in zip(batch, results) {
                waiting.done.resume(with: result.mapError { $0 as any Error })
            }
        } catch {
            for waiting in batch { waiting.done.resume(throwing: error) }
        }
    }

    private func tell(_ results: [Result<CommitAnswer, Failure>]) {
        hub.metrics.transactions.add()
        let heads = results.compactMap { try? $0.get().head }
        guard let head = heads.max() else { return }
        hub.unwitnessed.store(true, ordering: .relaxed)
        hub.feeds.announce(head, of: volume)
    }
}
