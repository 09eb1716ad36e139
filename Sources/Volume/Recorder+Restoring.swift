import Journal
import Model

// How much of the log of events the journal knows, and what a daemon takes up where the last one
// was killed.
extension Recorder {
    private static let lastEvent = "events"

    /// In the transaction that understood them.
    func noteEvents(upTo sequence: UInt64?, _ t: Transaction) throws {
        if let sequence { try t.set(Recorder.lastEvent, to: String(sequence)) }
    }

    /// Takes up the former contents that were not recorded, and the events that were not
    /// understood.
    func restore(_ logged: [NotedEvent]) {
        do {
            try journal.write { t in
                try readFormers(t)
                try noticeCopy(t)
                try writeFormers(t)
                // In a store that was copied the inodes are those of other files.
                let last = try t.value(Recorder.lastEvent).flatMap { UInt64($0) } ?? 0
                if !memory.isCopy { backlog = logged.filter { $0.sequence > last } }
            }
        } catch {
            tell("journal", "What was left to do could not be read from the journal: \(error)")
        }
    }

    /// Whether the store is where it was: a copy of it has other inodes, and the journal's mean
    /// nothing in it.
    private func noticeCopy(_ t: Transaction) throws {
        guard let root = try t.item(Item.root), root.inode != 0, root.inode != status(tree).inode
        else { return }
        for work in memory.works.all.values {
            for former in work.formers where former.entry == nil {
                memory.copies[former.inode] = try t.items(inode: former.inode).first?.key
            }
        }
        memory.locations.removeAll()
        memory.isCopy = true
        try t.forgetInodes()
    }

    /// The last event that the journal knows, for the queue to go on from.
    static func lastSequence(_ journal: Journal, _ logged: [NotedEvent]) throws(VolumeError)
        -> UInt64
    {
        let known = try journal.read { try $0.value(lastEvent).flatMap { UInt64($0) } ?? 0 }
        return max(known, logged.last?.sequence ?? 0)
    }
}
