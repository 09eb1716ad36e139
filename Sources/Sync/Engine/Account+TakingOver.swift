import Journal
import Model
import Reconcile

extension Account {
    /// Makes the journal that of this device, which has sent nothing yet. What is agreed on with
    /// the hub stays valid. Operations that were not confirmed become unsent changes again, and are
    /// sent in this device's name.
    func takeOver(_ table: inout JournalTable, epoch: UInt32) throws(VolumeError) {
        var session = try table.session()
        for row in try table.journal.hub.outbox(limit: .max).reversed() {
            guard let operation = Operation(encoded: row.operation) else {
                throw VolumeError(.damaged, "Operation \(row.number) of the outbox is damaged.")
            }
            try SyncPlanner().refused(operation, of: row.item, in: &table)
            guard var mirror = try table.mirror(row.item), mirror.state == .refused else {
                continue
            }
            mirror.state = .settled
            try table.setMirror(row.item, mirror)
        }
        try table.emptyOutbox()
        try table.journal.reassignVersions(of: session.device, to: device)
        try table.journal.resendHoldings()
        try store(table.journal)
        session.device = device
        session.epoch = epoch
        session.nextNumber = 1
        session.sentUpTo = 0
        table.set(session)
    }
}
