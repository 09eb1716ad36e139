import Journal
import Model

// Names that other machines cannot have.
extension JournalTable {
    /// An item that stays here for its name counts as refused, so that nobody is told that all is
    /// at the hub. A directory that the hub knows under another name is left out: what is in it
    /// goes there.
    func noteNameless(_ id: Identifier, _ kind: Item.Kind) throws(VolumeError) {
        var row = try journal.mirror(id) ?? MirrorRow(id: id)
        guard kind != .special, row.state == .settled, row.remote == nil,
            row.base == nil || kind != .directory
        else { return }
        row.state = .refused
        try journal.set(row)
    }

    /// It has a name by now that all machines can have, or is deleted.
    func forgetNameless(_ id: Identifier, isAlive: Bool) throws(VolumeError) {
        guard var row = try journal.mirror(id), row.state == .refused, row.remote == nil else {
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
