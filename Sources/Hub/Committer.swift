import HubProtocol
import Model

/// Commits of one volume: those that arrive while one is being written share the next transaction,
/// and so one wait for the disk. What is too much for one transaction is done in several, between
/// which other accounts have their turns.
actor Committer {
    private struct Waiting {
        var commit: Commit
        /// Of the operations that are done.
        var results: [OperationResult] = []
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
        while let account = waiting.first?.commit.caller.account {
            await hub.turns.enter(account)
            let batch = Array(waiting.prefix(Committer.together))
            waiting.removeFirst(batch.count)
            let rest = await run(batch)
            await hub.turns.leave()
            // Behind those that came meanwhile, as those of other devices are.
            waiting += rest
        }
        isWorking = false
    }

    /// - Returns: What is not done yet.
    private func run(_ batch: [Waiting]) async -> [Waiting] {
        let commits = batch.map(\.commit)
        do {
            let results = try await hub.ledger.write { transaction in
                var work = 0
                return try commits.map { commit -> Result<CommitAnswer, Failure>? in
                    guard work < Commit.workLimit else { return nil }
                    do {
                        return .success(
                            try transaction.nested {
                                try commit.run(in: transaction, work: &work)
                            })
                    } catch let failure as Failure {
                        return .failure(failure)
                    }
                }
            }
            tell(results.compactMap(\.self))
            return zip(batch, results).compactMap { waiting, result in
                guard let result else { return waiting }
                return Committer.answer(waiting, result)
            }
        } catch {
            for waiting in batch { waiting.done.resume(throwing: error) }
            return []
        }
    }

    /// - Returns: What is left of it; nil when it was answered.
    private static func answer(
        _ waiting: Waiting, _ result: Result<CommitAnswer, Failure>
    ) -> Waiting? {
        switch result {
        case .failure(let failure): waiting.done.resume(throwing: failure)
        case .success(var answer):
            var waiting = waiting
            waiting.results += answer.results
            waiting.commit.request.operations.removeFirst(answer.results.count)
            guard waiting.commit.request.operations.isEmpty else { return waiting }
            answer.results = waiting.results
            waiting.done.resume(returning: answer)
        }
        return nil
    }

    private func tell(_ results: [Result<CommitAnswer, Failure>]) {
        hub.metrics.transactions.add()
        let heads = results.compactMap { try? $0.get().head }
        guard let head = heads.max() else { return }
        hub.unwitnessed.store(true, ordering: .relaxed)
        hub.feeds.announce(head, of: volume)
    }
}
