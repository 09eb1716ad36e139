import Journal
import Model
import Reconcile

// A volume that is signed out may be signed in to the same hub again. What was agreed on before
// then tells which changes were made on this device and which ones on other devices.
extension Transaction {
    private static let left = "hub.left"
    private static let batch = 1_000

    /// Forgets the hub, except for what was agreed on with it.
    func leave(_ volume: Identifier) throws(VolumeError) {
        try leaveHub()
        try set(Transaction.left, to: volume.description)
    }

    /// Prepares the first exchange with a volume at a hub. If this is the volume that was left, the
    /// agreements count as from before a restart (`SyncPlanner.restart`), and otherwise they are
    /// forgotten. What was deleted here in the meantime comes back; what was deleted elsewhere is
    /// deleted here, too, unless it was changed here.
    ///
    /// - Parameter session: The session that begins.
    func rejoin(_ volume: Identifier, _ session: inout Session) throws(VolumeError) {
        let left = try value(Transaction.left)
        try set(Transaction.left, to: nil)
        guard left == volume.description else { return try forgetHub() }
        session.continueEarlierOne()
        try forgetAgreementsOnMissingItems()
        var last = Identifier.root
        while true {
            let ids = try hub.mirrorIDs(after: last, limit: Transaction.batch)
            for id in ids {
                guard var row = try hub.mirror(id) else { continue }
                var agreement = row.base.flatMap { Agreement(encoded: $0) }
                agreement?.generation = 0
                row.base = agreement?.encoded
                try set(row)
            }
            guard let end = ids.last else { return }
            last = end
        }
    }
}
