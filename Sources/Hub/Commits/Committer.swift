import HubProtocol
import Model

/// Commits to one volume. Commits that arrive while a transaction is being written share the next
/// transaction, so that they share one sync of the disk. A commit that is too large for one
/// transaction is done in several, and other accounts may write between them.
actor Committer {
    private struct Waiting {
        var commit: Commit
        /// The results of the operations that are complete.
        var results: [OperationResult] = []
        /// When it arrived, or when its last transaction ended.
        var since = ContinuousClock.now
        let done: CheckedContinuation<CommitAnswer, any Error>
    }

    private let volume: Identifier
    private unowned let hub: Hub
    private var waiting: [Waiting] = []
    private var isWorking = false

    /// The maximum number of commits in one transaction; more would make the first one wait for
    /// long.
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
            // The unfinished commits go to the end of the queue, after those that arrived in the
            // meantime.
            waiting += rest
        }
        isWorking = false
    }

    /// - Returns: The commits that have operations left.
    private func run(_ batch: [Waiting]) async -> [Waiting] {
        let commits = batch.map(\.commit)
        let start = ContinuousClock.now
        do {
            let (results, crowded) = try await hub.ledger.write(.volume(volume)) { transaction in
                var progress = CommitProgress()
                let results = try Commit.run(commits, in: transaction, &progress)
                return (results, progress.crowded)
            }
            hub.metrics.commit(
                waits: batch.map { (start - $0.since) / .seconds(1) },
                seconds: (ContinuousClock.now - start) / .seconds(1))
            hub.crowded.add(crowded, in: volume)
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

    /// - Returns: The commit with its remaining operations; nil if it is complete and was answered.
    private static func answer(
        _ waiting: Waiting, _ result: Result<CommitStep, Failure>
    ) -> Waiting? {
        switch result {
        case .failure(let failure): waiting.done.resume(throwing: failure)
        case .success(let step):
            var (waiting, answer) = (waiting, step.answer)
            waiting.results += answer.results
            waiting.since = .now
            guard waiting.commit.isDone(by: step) else { return waiting }
            answer.results = waiting.results
            waiting.done.resume(returning: answer)
        }
        return nil
    }

    private func tell(_ results: [Result<CommitStep, Failure>]) {
        hub.metrics.transactions.add()
        let heads = results.compactMap { try? $0.get().answer.head }
        guard let head = heads.max() else { return }
        hub.headsChanged.store(true, ordering: .relaxed)
        hub.feeds.announce(head, of: volume)
        hub.ledger.announce(head, of: volume)
    }
}
