import Journal
import Model

// Items whose names other machines cannot represent.
extension JournalTable {
    /// Marks an item that stays on this device because of its name as refused, so that the status
    /// does not say that everything is at the hub. A directory that the hub knows under another
    /// name is not marked, because its contents are sent.
    func markUnportable(_ id: Identifier, _ kind: Item.Kind) throws(VolumeError) {
        var row = try journal.hub.mirror(id) ?? MirrorRow(id: id)
        guard kind != .special, row.state == .settled, row.remote == nil,
            row.base == nil || kind != .directory
        else { return }
        row.state = .refused
        try journal.set(row)
    }

    /// Removes the mark when the item has a portable name again or is deleted.
    func unmarkUnportable(_ id: Identifier, isAlive: Bool) throws(VolumeError) {
        guard var row = try journal.hub.mirror(id), row.state == .refused, row.remote == nil else {
            return
        }
        if row.base != nil {
            row.state = .settled
            try journal.set(row)
        } else if !isAlive {
            try journal.removeMirror(id)
        }
    }
}
