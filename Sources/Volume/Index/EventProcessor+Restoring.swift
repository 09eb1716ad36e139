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
                let isCopy = try copiedStore.detect(t)
                try writer.writePriorContents(t)
                // In a copied store the inode numbers of the log belong to other files.
                let last = try t.value(EventProcessor.lastEvent).flatMap { UInt64($0) } ?? 0
                if !isCopy, !settings.has(.forgetsLoggedEvents) {
                    backlog = logged.filter { $0.sequence > last }
                }
            }
            if backlog.isEmpty { events.forgetTaken() }
            // These documents are not recorded again before they change.
            for obstacle in try writer.look({ try RecordingObstacle.all(in: $0) }) {
                let key = obstacle.item.key
                reports.tell(
                    VersionRecorder.obstacleProblem + "\(key)", of: key,
                    at: writer.shown(obstacle.item), obstacle.words)
            }
        } catch {
            reports.tell("journal", "The unfinished work cannot be read from the journal: \(error)")
        }
    }

    /// The number of the last event, for the queue to continue from.
    static func lastSequence(_ journal: Journal, _ logged: [NotedEvent]) throws(VolumeError)
        -> UInt64
    {
        let known = try journal.read { try $0.value(lastEvent).flatMap { UInt64($0) } ?? 0 }
        return max(known, logged.last?.sequence ?? 0)
    }
}
