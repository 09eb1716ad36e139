import Model

@testable import Reconcile

// What goes wrong: crashes, restarts, and states that come back from backups.
extension SyncPlannerSchedule {
    mutating func crash(_ who: Int) {
        for id in devices[who].journal.underway {
            planner.recover(id, in: &devices[who].journal)
        }
        devices[who].underway = nil
        devices[who].page = nil
        devices[who].hasAsked = false
        devices[who].answered = 0
        if mistakes.contains(.numberIsNotKept) { devices[who].journal.state.nextNumber = 1 }
        if mistakes.contains(.unsentIsForgotten) { devices[who].journal.unsent = [] }
    }

    mutating func restart(_ who: Int) {
        // The engine has one thread: what is in the tree by now is recorded first.
        if devices[who].underway?.isApplied == true { finish(who) }
        witness.count("restart")
        let session = devices[who].journal.state
        var epoch = session.epoch
        // A new epoch, of which the hub knows no more than the device does.
        if session.volumeEpoch == hub.volumeEpoch, !mistakes.contains(.reusesTheEpoch) {
            epoch = hub.newEpoch(of: session.device)
        } else if session.volumeEpoch != hub.volumeEpoch {
            epoch = hub.newEpoch(of: session.device)
        }
        crash(who)
        planner.restart(epoch: epoch, volumeEpoch: hub.volumeEpoch, in: &devices[who].journal)
        devices[who].late = []
    }

    /// Nothing is exchanged until the device is signed in again. What was agreed on with the hub
    /// stays in the journal.
    mutating func signOut(_ who: Int) {
        // The engine has one thread: what is in the tree by now is recorded first.
        if devices[who].underway?.isApplied == true { finish(who) }
        crash(who)
        devices[who].late = []
        devices[who].isSignedOut = true
        devices[who].journal.emptyOutbox()
        devices[who].journal.mirrors = devices[who].journal.mirrors
            .compactMapValues { mirror in mirror.base.map { Mirror(base: $0) } }
        witness.count("signed out")
    }

    /// As `Transaction.rejoin` and `startChangeTracking` do it.
    mutating func signIn(_ who: Int, isSameVolume: Bool = true) {
        devices[who].isSignedOut = false
        var journal = devices[who].journal
        var session = Session(
            device: journal.state.device, epoch: hub.epoch(of: journal.state.device),
            volumeEpoch: hub.volumeEpoch)
        session.continueEarlierOne()
        journal.state = session
        for (id, mirror) in journal.mirrors {
            var mirror = mirror
            mirror.base?.outlive(isSameVolume: isSameVolume)
            journal.mirrors[id] = journal.images[id]?.isAlive == true ? mirror : nil
        }
        journal.unsent = Set(journal.alive)
        devices[who].journal = journal
    }

    /// Signs the device out of its hub, and in to the other one.
    mutating func changeHub(_ who: Int) {
        signOut(who)
        if devices[who].isElsewhere { return signIn(who, isSameVolume: false) }
        atOtherHub { $0.signIn(who, isSameVolume: false) }
        witness.count("at another hub")
    }

    /// The store of another device replaces that of this one, which stays a device of its own, as
    /// `Account.takeOver` does it. What only this device had is lost.
    mutating func copyStore(of other: Int, to who: Int) {
        guard other != who else { return }
        let old = devices[who]
        devices[who] = Device(journal: devices[other].journal, skew: old.skew)
        devices[who].touched = devices[other].touched
        devices[who].journal.twin = old.journal.twin
        devices[who].journal.clock = old.journal.clock
        crash(who)
        var journal = devices[who].journal
        for (item, operation) in journal.outbox.reversed() {
            planner.refused(operation, of: item, in: &journal)
            if journal.mirrors[item]?.state == .refused { journal.mirrors[item]?.state = .settled }
        }
        journal.outbox = []
        journal.state.device = old.journal.state.device
        journal.state.epoch = hub.newEpoch(of: journal.state.device)
        (journal.state.nextNumber, journal.state.sentUpTo) = (1, 0)
        devices[who].journal = journal
        witness.forget(except: held, restored: true)
        witness.count("copied store")
    }

    /// Whether a journal from before the user's changes may tell the hub what it has not sent.
    var tellsTheOld: Bool {
        hardships.contains(.copiesStore) || hardships.contains(.rollsBack)
    }

    /// Whether something may be lost although only one device has a user.
    func mayLose(_ turn: Turn) -> Bool {
        switch turn {
        case .hubBackup, .hubRestore: hardships.contains(.restoresHub)
        case .backup, .rollBack: hardships.contains(.rollsBack)
        default: false
        }
    }

    /// The only writer's store comes back from a backup when the hub has everything. So nothing is
    /// lost, and what the journal tells of before must not replace it.
    mutating func rollBackWriter() {
        settle()
        rollBack(0, isRunning: false)
        settle()
    }

    mutating func restoreHub() {
        guard let backup = hubBackup else { return }
        let epoch = hub.volumeEpoch.low + 1
        hub = backup
        hub.volumeEpoch = Identifier(high: 9, low: epoch)
        hub.beginTwin()
        witness.forget(except: held, restored: true)
        witness.count("hub restored")
    }

    mutating func backUp(_ who: Int) {
        let device = devices[who]
        devices[who].backup = Backup(
            journal: device.journal, underway: device.underway, hasAsked: device.hasAsked,
            answered: device.answered)
    }

    /// - Parameter isRunning: Whether the machine continues in the middle of its work, as if
    ///   nothing had happened.
    mutating func rollBack(_ who: Int, isRunning: Bool) {
        guard let backup = devices[who].backup else { return }
        let clock = devices[who].journal.clock
        crash(who)
        devices[who].journal = backup.journal
        devices[who].journal.clock = clock
        devices[who].journal.twin?.begin(with: devices[who].journal)
        if isRunning {
            devices[who].underway = backup.underway
            devices[who].hasAsked = backup.hasAsked
            devices[who].answered = backup.answered
            witness.count("rolled back running")
        } else {
            crash(who)
        }
        devices[who].late = []
        witness.forget(except: held, restored: false)
        witness.count("rolled back")
    }

    /// The revisions that the hub and the devices have in items that are not deleted.
    private var held: Set<Identifier> {
        var all: Set<Identifier> = []
        for item in hub.table.all where item.life.isAlive {
            for version in item.versions { all.formUnion([version.id] + version.equals) }
        }
        for device in devices {
            for id in device.journal.alive {
                let image = device.journal.images[id]!
                all.formUnion([image.revision].compactMap(\.self) + image.conflicts)
            }
        }
        return all
    }
}
