import Model

@testable import Reconcile

/// The hub's rules about devices and pages, around the real decision.
struct HubInMemory {
    struct Request {
        var device: Identifier
        var epoch: UInt32
        var volumeEpoch: Identifier
        var operations: [Operation]
    }

    enum Answer { case done, volumeEpoch, deviceEpoch, copied, gap }

    var mistakes: Set<Mistake> = []
    private(set) var table = Catalogue()
    private(set) var head: UInt64 = 0
    var volumeEpoch = Identifier(high: 9, low: 1)
    /// The first epoch of each device. Another hub gives devices other ids, and here other epochs.
    private var firstEpoch: UInt32 = 1
    private var aliases: [(sequence: UInt64, id: Identifier)] = []
    private var epochs: [Identifier: UInt32] = [:]
    private var last: [Identifier: UInt64] = [:]
    private var answered: [OperationID: Operation] = [:]
    /// Whether the quota is sometimes exceeded.
    var isFull = false
    /// The operations that were refused.
    private(set) var refused: Set<OperationID> = []

    /// A copy in SQLite, for the tests that check the tables, too.
    var twin: LedgerTwin?

    /// The hub that devices are signed in to instead for a while.
    static var other: HubInMemory {
        var hub = HubInMemory()
        (hub.volumeEpoch, hub.firstEpoch) = (Identifier(high: 8, low: 1), 1_000)
        return hub
    }

    /// Resets the copy, because the hub was restored from a backup.
    func beginTwin() {
        let completed = answered.values.filter {
            $0.id.epoch == epoch(of: $0.id.device) && $0.id.number <= last[$0.id.device] ?? 0
        }
        twin?.begin(
            with: table, epoch: volumeEpoch, aliases: aliases,
            completed: completed.sorted { $0.id.number < $1.id.number })
    }

    func epoch(of device: Identifier) -> UInt32 { epochs[device] ?? firstEpoch }

    mutating func newEpoch(of device: Identifier) -> UInt32 {
        epochs[device] = epoch(of: device) + 1
        last[device] = 0
        return epoch(of: device)
    }

    /// - Parameter witness: Called with each operation that is applied.
    mutating func commit(
        _ request: Request, at time: Int64, witness: (Operation, Verdict, Catalogue) -> Void
    ) -> Answer {
        let (before, refusedBefore) = (table, refused)
        var verdicts: [OperationID: Verdict] = [:]
        let answer = decide(request, at: time) { operation, verdict, table in
            verdicts[operation.id] = verdict
            witness(operation, verdict, table)
        }
        twin?.commit(
            request, at: time, epochs: (epoch(of: request.device), volumeEpoch),
            CommitTwin.Outcome(
                answer: answer, verdicts: verdicts, refused: refused.subtracting(refusedBefore),
                head: head, before: before, after: table))
        return answer
    }

    private mutating func decide(
        _ request: Request, at time: Int64, witness: (Operation, Verdict, Catalogue) -> Void
    ) -> Answer {
        guard request.volumeEpoch == volumeEpoch else { return .volumeEpoch }
        guard request.epoch == epoch(of: request.device) else { return .deviceEpoch }
        let known = last[request.device] ?? 0
        twin?.check(last: known, of: request.device, epoch: request.epoch)
        guard request.operations.first?.id.number ?? 0 <= known + 1 else { return .gap }
        for operation in request.operations {
            if operation.id.number <= known, !mistakes.contains(.appliesTwice) {
                let old = answered[operation.id]
                twin?.check(old, repeated: operation.id, last: known)
                guard let old, old.item == operation.item,
                    old.change.sameTask(as: operation.change)
                else { return .copied }
                continue
            }
            answered[operation.id] = operation
            twin?.note(completed: operation)
            if isOverQuota(operation) {
                last[request.device] = operation.id.number
                refused.insert(operation.id)
                continue
            }
            var operation = operation
            operation.moment.time = min(operation.moment.time, time)
            operation.change.receive(from: request.device, at: time)
            head += 1
            let (told, before) = (table.toldAliases.count, table)
            let verdict = operation.apply(to: &table, sequence: head)
            twin?.apply(operation, sequence: head, verdict: verdict, from: before, to: table)
            for id in table.toldAliases[told...] {
                aliases.removeAll { $0.id == id }
                aliases.append((head, id))
            }
            last[request.device] = operation.id.number
            witness(operation, verdict, table)
        }
        return .done
    }

    private func isOverQuota(_ operation: Operation) -> Bool {
        guard isFull, let revision = operation.change.revision else { return false }
        // Depends on the operation, so that another attempt with the same contents can succeed.
        return (revision.id.low &* 7 &+ operation.id.number &* 3).isMultiple(of: 4)
    }

    /// A page has whole operations only.
    func page(for session: Session, limit: Int, withoutTrashUpTo gone: UInt64) -> Page {
        let items = table.all.filter {
            $0.sequence > session.cursor && ($0.life.isAlive || $0.sequence > gone)
        }
        var all = items.map { ($0.sequence, Page.Entry.item($0)) }
        for (sequence, id) in aliases where sequence > session.cursor {
            var table = table
            all.append((sequence, .alias(id, of: table.canonical(id))))
        }
        all = all.enumerated().sorted { ($0.element.0, $0.offset) < ($1.element.0, $1.offset) }
            .map(\.element)
        twin?.compareFeed(
            after: session.cursor, limit: limit, withoutTrashUpTo: gone, all.map(\.1))
        var next = max(head, session.cursor)
        if all.count > limit {
            let end = mistakes.contains(.splitsAnOperation) ? all[limit - 1].0 : all[limit].0
            let part = all.filter { $0.0 < end }
            if mistakes.contains(.splitsAnOperation) {
                (all, next) = (Array(all.prefix(limit)), end)
            } else if part.isEmpty {
                (all, next) = (all.filter { $0.0 == end }, end)
            } else {
                (all, next) = (part, part.last!.0)
            }
        }
        return Page(
            entries: all.map(\.1), next: next, head: head,
            acknowledged: last[session.device] ?? 0)
    }
}

extension Change {
    /// The hub sets who has sent a revision, and no time is later than its own.
    fileprivate mutating func receive(from device: Identifier, at time: Int64) {
        guard var revision else { return }
        (revision.sequence, revision.recordedBy, revision.equals) = (0, nil, [])
        revision.moment = Moment(time: min(revision.moment.time, time), device: device)
        revision.note.saved = min(revision.note.saved, time)
        switch self {
        case .create(var creation):
            creation.revision = revision
            self = .create(creation)
        case .edit: self = .edit(revision)
        case .resolve(let settled, _): self = .resolve(settled, revision)
        case .move, .delete, .restore, .attribute: break
        }
    }

    /// Whether two changes are equal, regardless of times.
    fileprivate func sameTask(as other: Change) -> Bool {
        switch (self, other) {
        case (.edit(let one), .edit(let two)): one.id == two.id
        case (.create(let one), .create(let two)): one.revision?.id == two.revision?.id
        default: self == other
        }
    }
}

/// Mistakes outside the exchange: at the hub, in the engine around it, or in the journal.
enum Mistake: String, CaseIterable, Sendable {
    case appliesTwice
    case splitsAnOperation
    case acknowledgesTooMuch
    case cursorWithoutItems
    case numberIsNotKept
    case unsentIsForgotten
    case overwritesWhatChanged
    case mixesContents
    case reusesTheEpoch
    case baseCountsWhatIsNotShown
    case leavesTrashOut
}
