import HubProtocol
import Model

@testable import Hub
@testable import Reconcile

/// The hub's tables in SQLite beside those in memory: each operation is decided on both.
final class LedgerTwin {
    /// A planted fault of the tables, to show that it would be found.
    enum Plant: Hashable, CaseIterable, Sendable {
        case answers(AnswerTwin.Plant)
        case chunks(ChunkTwin.Plant)
        case commits(CommitTwin.Plant)

        static let allCases =
            AnswerTwin.Plant.allCases.map(Plant.answers)
            + ChunkTwin.Plant.allCases.map(Plant.chunks)
            + CommitTwin.Plant.allCases.map(Plant.commits)
    }

    private let transaction: any LedgerTransaction
    private let answers: AnswerTwin
    private let chunks: ChunkTwin
    private let commits: CommitTwin
    private(set) var fault: String?
    /// A new id each time the hub is restored.
    private var volume = Identifier(high: 4, low: 0)

    init(_ transaction: any LedgerTransaction, plant: Plant? = nil) {
        self.transaction = transaction
        var plants: (answers: AnswerTwin.Plant?, chunks: ChunkTwin.Plant?)
        var plantOfCommits: CommitTwin.Plant?
        switch plant {
        case .commits(let plant): plantOfCommits = plant
        case .answers(let plant): plants.answers = plant
        case .chunks(let plant): plants.chunks = plant
        case nil: break
        }
        answers = AnswerTwin(transaction, plant: plants.answers)
        chunks = ChunkTwin(transaction, plant: plants.chunks)
        commits = CommitTwin(transaction, plant: plantOfCommits)
    }

    private func blame(_ text: String?) {
        if let text, fault == nil { fault = "the ledger: \(text)" }
    }

    private func attempt(_ body: () throws -> Void) {
        guard fault == nil else { return }
        do { try body() } catch { blame("\(error)") }
    }

    func apply(
        _ operation: Operation, sequence: UInt64, verdict: Verdict, from before: Catalogue,
        to after: Catalogue
    ) {
        attempt {
            var table = LedgerTable(transaction, volume: volume, time: 0)
            table.sequence = sequence
            let mine = try operation.apply(to: &table, sequence: sequence)
            if mine != verdict { blame("\(mine), and not \(verdict): \(operation.brief)") }
            for (_, item) in after.changed(since: before) {
                let mine = try transaction.item(item.id, in: volume)
                if mine != item { blame("\(item.id.low) after \(operation.brief)") }
                let children = try transaction.children(of: item.id, in: volume)
                if children != after.children(of: item.id) { blame("what is in \(item.id.low)") }
            }
            for (id, target) in after.aliases where before.aliases[id] != target {
                let mine = try transaction.alias(of: id, in: volume)
                if mine != target { blame("the alias \(id.low)") }
            }
            blame(
                try chunks.follow(
                    operation, at: Int64(sequence), recorded: table.recorded.map(\.content)))
        }
    }

    /// Gives a whole request to the hub's own commit.
    func commit(
        _ request: HubInMemory.Request, at time: Int64, epochs: (device: UInt32, Identifier),
        _ outcome: CommitTwin.Outcome
    ) {
        attempt {
            let text = try commits.commit(request, at: time, epochs: epochs, outcome)
            blame(text.map { "the commit: \($0)" })
        }
    }

    // MARK: The operations that devices have sent

    func check(last: UInt64, of device: Identifier, epoch: UInt32) {
        attempt { blame(try answers.check(last: last, of: device, epoch: epoch, in: volume)) }
    }

    func check(_ old: Operation?, repeated id: OperationID, last: UInt64) {
        attempt { blame(try answers.check(old, id, last: last, in: volume)) }
    }

    func note(completed operation: Operation) {
        attempt { try answers.note(operation, in: volume) }
    }

    /// Checks that all pages together have what the feed in memory has, and nothing twice.
    func compareFeed(
        after cursor: UInt64, limit: Int, withoutTrashUpTo gone: UInt64, _ entries: [Page.Entry]
    ) {
        attempt {
            var table = LedgerTable(transaction, volume: volume, time: 0)
            var (mine, next): ([Page.Entry], UInt64?) = ([], cursor)
            while let after = next {
                let page = try transaction.changes(
                    in: volume, after: after, limit: limit, withoutTrashUpTo: gone)
                if let end = page.next, end <= after { return blame("the feed stands still") }
                for change in page.changes {
                    switch change {
                    case .item(let state): mine.append(.item(state))
                    case .alias(let id, let target):
                        mine.append(.alias(id, of: try table.canonical(target)))
                    }
                }
                next = page.next
            }
            if Set(mine) != Set(entries) || mine.count != entries.count {
                blame("the feed after \(cursor) has \(mine.count) entries, not \(entries.count)")
            }
        }
    }

    /// Begins again, because the hub was restored from a backup.
    func begin(
        with table: Catalogue, epoch: Identifier, aliases: [(sequence: UInt64, id: Identifier)],
        completed: [Operation]
    ) {
        attempt {
            try commits.begin(epoch)
            volume = Identifier(high: 4, low: volume.low + 1)
            chunks.begin(in: volume)
            for operation in completed { try answers.note(operation, in: volume) }
            for item in table.all { try transaction.put(item, replacing: nil, in: volume) }
            for (sequence, id) in aliases {
                guard let target = table.aliases[id] else { continue }
                try transaction.setAlias(of: id, to: target, in: volume, sequence: sequence)
            }
            for revision in table.allRevisions {
                try transaction.addRevision(
                    revision, of: .root, content: RevisionContent(manifest: [], chunks: []),
                    in: volume, at: 0)
            }
        }
    }
}
