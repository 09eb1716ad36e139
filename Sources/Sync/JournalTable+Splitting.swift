import Journal
import Model
import Reconcile

extension JournalTable {
    /// The journal is another device's from now on, which has sent nothing yet. What the two have
    /// agreed on with the hub still holds; what was to be sent is told once more, as that device's.
    mutating func become(_ account: Account, epoch: UInt32) throws(VolumeError) {
        var session = try session()
        for row in try journal.outbox(limit: .max).reversed() {
            guard let operation = Operation(encoded: row.operation) else {
                throw VolumeError(.damaged, "Operation \(row.number) of the outbox is damaged.")
            }
            try Exchange().refused(operation, of: row.item, in: &self)
            guard var mirror = try mirror(row.item), mirror.state == .refused else { continue }
            mirror.state = .settled
            try setMirror(row.item, mirror)
        }
        try emptyOutbox()
        try journal.readdressVersions(of: session.device, to: account.device)
        try journal.retellHoldings()
        try account.store(journal)
        session.device = account.device
        session.epoch = epoch
        session.nextNumber = 1
        session.sentUpTo = 0
        set(session)
    }
}
