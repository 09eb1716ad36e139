@testable import Reconcile

extension SyncPlannerSchedule {
    /// Compares what a device has in the end with what the hub has.
    mutating func compare(_ journal: DeviceJournal, _ number: Int) {
        journal.twin?.compareAll(with: journal)
        if !journal.outbox.isEmpty { witness.blame("device \(number) has something to send") }
        for item in hub.table.all where item.life.isAlive {
            guard let local = journal.shown(item.id), local.isAlive else {
                witness.blame("device \(number) does not have \(item.id.low)")
                continue
            }
            let steps = Adjustment.steps(from: local, to: item)
            if !steps.isEmpty { witness.blame("device \(number): \(item.id.low) lacks \(steps)") }
        }
        for id in journal.alive where hub.table.item(id)?.life.isAlive != true {
            witness.blame("device \(number) still has \(id.low)")
        }
        for id in journal.alive {
            let image = journal.images[id]!
            if let revision = image.revision, let known = hub.table.revision(revision),
                known.content != image.content
            {
                witness.blame("device \(number) has mixed contents in \(id.low)")
            }
        }
    }
}
