import Journal
import Model
import Reconcile

extension JournalTable {
    /// Makes the journal that of another device, which has sent nothing yet. What is agreed on with
    /// the hub stays valid. Operations that were not confirmed become unsent changes again, and are
    /// sent in the other device's name.
    mutating func become(_ account: Account, epoch: UInt32) throws(VolumeError) {
        var session = try session()
        for row in try journal.outbox(limit: .max).reversed() {
            guard let operation = Operation(encoded: row.operation) else {
                throw VolumeError(.damaged, "Operation \(row.number) of the outbox is damaged.")
            }
            try SyncPlanner().refused(operation, of: row.item, in: &self)
            guard var mirror = try mirror(row.item), mirror.state == .refused else { continue }
            mirror.state = .settled
            try setMirror(row.item, mirror)
        }
        try emptyOutbox()
        try journal.reassignVersions(of: session.device, to: account.device)
        try journal.resendHoldings()
        try account.store(journal)
        session.device = account.device
        session.epoch = epoch
        session.nextNumber = 1
        session.sentUpTo = 0
        set(session)
    }
}
