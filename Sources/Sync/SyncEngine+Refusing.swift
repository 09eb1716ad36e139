import CLinux
import HubProtocol
import Journal
import Model
import Reconcile
import Volume

// What the hub does not take.
extension SyncEngine {
    func refused(_ entry: OperationEntry, _ refusal: OperationResult.Refusal) throws {
        let (key, path) = try perform { [exchange] table -> (Int64, String?) in
            guard let (row, _) = try table.takeBack(entry.number, exchange) else { return (0, nil) }
            let key = try table.journal.key(of: row.item) ?? 0
            return (key, try table.journal.path(of: key)?.shown)
        }
        let times = (refusals[key]?.times ?? 0) + 1
        let pause = min(600, 15 * Double(1 << min(times, 10)))
        refusals[key] = Refusal(
            draft: nil, until: cl_clock_monotonic_ns() + Timestamp.span(seconds: pause),
            times: times)
        state.withLock {
            $0.problems[path ?? "\(entry.item)"] = "blocked: \(refusal.code): \(refusal.message)"
        }
    }

    /// Nothing of it was applied: what has to be different is made so, and it goes again.
    func again(_ failure: Failure, _ entries: [OperationEntry]) throws {
        switch failure.code {
        case .missing, .collection:
            collection = nil
            let revisions = entries.compactMap { $0.change.revision?.id }
            let failed = try upload(revisions)
            for entry in entries {
                guard let id = entry.change.revision?.id, failed.contains(id) else { continue }
                try withdraw(entry, id)
            }
        case .gap:
            guard let expected = failure.expected, expected > 0,
                let first = try volume.journal.read({ try $0.outbox(limit: 1).first?.number }),
                expected >= first
            else {
                throw HubFault.refused(
                    Failure(.copied, "The hub and this device's journal count differently."))
            }
            lastSent = expected - 1
        default: throw HubFault.refused(failure)
        }
    }

    /// Its contents are gone, and the hub takes no later operation without it: what is here is
    /// compared with the hub's state anew, and what the document shows now is sent instead.
    func unsendable(_ row: OutboxRow) throws(VolumeError) -> HubFault {
        let path = try volume.journal.read { reader in
            try reader.key(of: row.item).flatMap { try reader.path(of: $0)?.shown }
        }
        let name = path ?? "item \(row.item)"
        log.error("contents of \(name) that were to be sent are not on this device any more")
        return .refused(
            Failure(.copied, "What was to be sent of \(name) is not on this device any more."))
    }

    /// Takes back an operation whose contents cannot be read here, because all later operations
    /// would wait for it. The hub has not applied it, and takes operations only without a gap in
    /// their numbers, so its number goes to an operation that changes nothing.
    private func withdraw(_ entry: OperationEntry, _ revision: Identifier) throws {
        let path = try perform { [exchange] table -> String in
            guard var (row, operation) = try table.takeBack(entry.number, exchange) else {
                return ""
            }
            if var mirror = try table.mirror(row.item), mirror.state == .refused {
                mirror.state = .settled
                try table.setMirror(row.item, mirror)
            }
            operation.change = .resolve([], nil)
            row.operation = operation.encoded
            try table.journal.replace(row)
            let key = try table.journal.key(of: row.item) ?? 0
            return try table.journal.path(of: key)?.shown ?? ""
        }
        setBack(revision, path)
    }
}

extension JournalTable {
    /// Undoes here what an operation in the outbox says (`Exchange.refused`). Nil when it is not in
    /// the outbox any more. The row names the item, which may have been given another id since.
    fileprivate mutating func takeBack(_ number: UInt64, _ exchange: Exchange)
        throws(VolumeError) -> (row: OutboxRow, operation: Operation)?
    {
        guard let row = try journal.outbox(limit: 1, after: number - 1).first,
            row.number == number, let operation = Operation(encoded: row.operation)
        else { return nil }
        try exchange.refused(operation, of: row.item, in: &self)
        return (row, operation)
    }
}
