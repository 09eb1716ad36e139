import Journal
import Model
import Reconcile

// A volume that is signed out may be signed in again, to the same hub or to another one. What was
// agreed on before then tells which changes were made on this device and which ones on other
// devices, and when.
extension Transaction {
    private static let left = "hub.left"
    private static let batch = 1_000

    /// Forgets the hub, except for what was agreed on with it. Changes are noted with their times
    /// as before: a value whose time is unknown would count as older than what this device has told
    /// the hub, and permissions that protect new contents would be lost.
    func leave(_ account: Account, _ clock: HubClock, tree: Int32) throws(VolumeError) {
        let table = JournalTable(journal: self, account: account, clock: clock, tree: tree)
        try table.emptyOutbox()
        try leaveHub()
        try set(Transaction.left, to: account.volume.description)
    }

    /// Prepares the first exchange with a volume at a hub, after another one was left or the same.
    /// The agreements count as from before a restart (`SyncPlanner.restart`). What was deleted here
    /// in the meantime comes back. What was deleted elsewhere is deleted here, too, unless it was
    /// changed here, or this is another volume.
    ///
    /// - Parameter session: The session that begins.
    func rejoin(_ volume: Identifier, _ session: inout Session) throws(VolumeError) {
        guard let left = try value(Transaction.left) else { return }
        let isSameVolume = left == volume.description
        try set(Transaction.left, to: nil)
        session.continueEarlierOne()
        try forgetAgreementsOnMissingItems()
        var last = Identifier.root
        while true {
            let ids = try hub.mirrorIDs(after: last, limit: Transaction.batch)
            for id in ids {
                guard var row = try hub.mirror(id) else { continue }
                var agreement = row.base.flatMap { Agreement(encoded: $0) }
                agreement?.outlive(isSameVolume: isSameVolume)
                row.base = agreement?.encoded
                // What has a name at another hub has none at this one yet.
                if !isSameVolume { row.place = nil }
                try set(row)
            }
            guard let end = ids.last else { return }
            last = end
        }
    }
}
