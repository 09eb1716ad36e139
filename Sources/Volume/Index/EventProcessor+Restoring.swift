import Journal
import Model

// Restart: how far the journal has processed the event log, and what a new daemon takes over from a
// killed one.
extension EventProcessor {
    private static let lastEvent = "events"

    /// Called in the transaction that processes the events.
    func noteEvents(upTo sequence: UInt64?, _ t: Transaction) throws {
        if let sequence { try t.set(EventProcessor.lastEvent, to: String(sequence)) }
    }

    /// Takes over the prior contents that were not recorded and the events that were not processed.
    func restore(_ logged: [NotedEvent]) {
        do {
            try writer.journal.write { t in
                try writer.readPriorContents(t)
                try detectCopy(t)
                try writer.writePriorContents(t)
                // In a copied store the inode numbers of the log belong to other files.
                let last = try t.value(EventProcessor.lastEvent).flatMap { UInt64($0) } ?? 0
                if !writer.state.isCopy, !settings.has(.forgetsLoggedEvents) {
                    backlog = logged.filter { $0.sequence > last }
                }
            }
            if backlog.isEmpty { events.forgetTaken() }
        } catch {
            reports.tell("journal", "The unfinished work cannot be read from the journal: \(error)")
        }
    }

    /// Finds out whether the store was copied: a copy has other inode numbers, so those in the
    /// journal mean nothing. On a new disk the copied root may have its old number by chance, and
    /// other files each other's, so its time of birth is compared, too.
    private func detectCopy(_ t: Transaction) throws {
        guard var root = try t.item(Item.root) else { return }
        let birth = Timestamp(birthOf: roles.tree)?.nanoseconds ?? 0
        let isReborn = root.birth != 0 && birth != 0 && root.birth != birth
        let isCopy = isReborn || root.inode != FileSnapshot(of: roles.tree).inode
        let isUnknown = root.inode == 0
        if root.birth != birth {
            root.birth = birth
            try t.update(root)
        }
        // A daemon that was killed before its first scan has left events that name the root.
        if isUnknown, try t.children(of: root.key).isEmpty {
            root.inode = FileSnapshot(of: roles.tree).inode
            try t.update(root)
        }
        guard !isUnknown, isCopy else { return }
        for work in writer.state.pending.all.values {
            for prior in work.priorContents where prior.entry == nil {
                writer.state.copies[prior.inode] = try t.items(inode: prior.inode).first?.key
            }
        }
        writer.state.locations.removeAll()
        writer.state.isCopy = true
        try t.forgetInodes()
    }

    /// The number of the last event, for the queue to continue from.
    static func lastSequence(_ journal: Journal, _ logged: [NotedEvent]) throws(VolumeError)
        -> UInt64
    {
        let known = try journal.read { try $0.value(lastEvent).flatMap { UInt64($0) } ?? 0 }
        return max(known, logged.last?.sequence ?? 0)
    }
}
