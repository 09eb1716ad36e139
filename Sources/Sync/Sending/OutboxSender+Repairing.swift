import HubProtocol
import Journal
import Model
import Reconcile
import Volume

// What happens when the hub refuses a whole commit, or the contents of an operation are gone.
extension OutboxSender {
    /// Repairs the reason of a failure after which nothing was applied, so that the operations can
    /// be sent again.
    func again(_ failure: Failure, _ entries: [OperationEntry]) throws {
        switch failure.code {
        case .missing, .collection:
            uploads.collection = nil
            let revisions = entries.compactMap { $0.change.revision?.id }
            let failed = try uploads.upload(revisions)
            var lost: Set<Identifier> = []
            for entry in entries {
                if let id = entry.change.revision?.id, failed.contains(id) {
                    lost.insert(entry.item)
                    uploads.postpone(id, try withdraw(entry))
                } else if entry.change.describesContents, lost.contains(entry.item) {
                    _ = try withdraw(entry)
                }
            }
        case .gap:
            guard let expected = failure.expected, expected > 0,
                let first = try volume.journal.read({ try $0.hub.outbox(limit: 1).first?.number }),
                expected >= first
            else {
                throw HubFault.refused(
                    Failure(.copied, "The hub and this device number operations differently."))
            }
            lastSent = expected - 1
        default: throw HubFault.refused(failure)
        }
    }

    /// The contents of an operation are gone, and the hub accepts no later operation without it. So
    /// everything is compared with the hub's state again, and the document's present version is
    /// sent instead.
    func contentsMissing(_ row: OutboxRow) throws(VolumeError) -> HubFault {
        let path = try volume.journal.read { reader in
            try reader.key(of: row.item).flatMap { try reader.path(of: $0)?.shown }
        }
        let name = path ?? "item \(row.item)"
        log.error("contents of \(name) that must be sent are no longer on this device")
        // Everything else is sent before it is tried again.
        if let revision = Operation(encoded: row.operation)?.change.revision {
            uploads.postpone(revision.id, name)
        }
        let code: Failure.Code = PlantedFault.purgesWhatWaits.isPlanted ? .missing : .copied
        return .refused(
            Failure(code, "Contents of \(name) that must be sent are no longer on this device."))
    }

    /// Takes back an operation whose contents cannot be read here, because all later operations
    /// would wait for it. The hub has not applied it and requires numbers without a gap, so its
    /// number is given to an operation that changes nothing.
    ///
    /// - Returns: The path of its item.
    private func withdraw(_ entry: OperationEntry) throws -> String {
        try journal.perform { [planner = journal.planner] table in
            guard var (row, operation) = try planner.takeBack(entry.number, in: &table) else {
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
    }
}

extension SyncPlanner {
    /// Reverts an operation of the outbox in the journal (`refused`). Returns nil if it
    /// is no longer in the outbox. The row names the item, whose id may have changed since.
    func takeBack(
        _ number: UInt64, in table: inout JournalTable
    ) throws(VolumeError) -> (row: OutboxRow, operation: Operation)? {
        guard let row = try table.journal.hub.outbox(limit: 1, after: number - 1).first,
            row.number == number, let operation = Operation(encoded: row.operation)
        else { return nil }
        try refused(operation, of: row.item, in: &table)
        return (row, operation)
    }
}
