import Foundation
import Support
import Testing

@testable import Reconcile

/// Only one device changes anything, and another one only receives. So the hub never has a change
/// for the first device: whatever that device does, and however late it is sent, everything is
/// applied as it was sent, and nothing is applied to its tree.
@Suite struct SoleWriterTests {
    private static func schedule(
        _ bugs: Set<SyncPlanner.Bug> = [], mistakes: Set<Mistake> = [],
        hardships: Set<Hardship> = []
    ) -> SyncPlannerSchedule {
        SyncPlannerSchedule(
            devices: hardships.contains(.changesHub) ? 3 : 2, takesTurns: false, bugs: bugs,
            mistakes: mistakes, hardships: hardships,
            hasSoleWriter: true)
    }

    private static func events(_ seed: UInt64, devices: Int = 2) -> [Event<Turn>] {
        var source = EventSource<Turn>(seed: seed)
        // Some schedules are long, because some mistakes take many steps.
        return source.events(seed.isMultiple(of: 10) ? 500 : 120, devices: devices)
    }

    @Test(.timeLimit(.minutes(30))) func nothingIsUndone() {
        var random = SeededRandom(named: "SoleWriter", usual: 2026)
        for _ in 0..<SyncPlannerTests.count {
            let seed = random.next()
            var schedule = Self.schedule()
            if schedule.run(Self.events(seed)) != nil { return report(seed) }
        }
    }

    @Test(.timeLimit(.minutes(30))) func aDeviceThatSignsInAgainUndoesNothing() {
        var random = SeededRandom(named: "SoleWriter signing out", usual: 2026)
        var found: Int?
        for count in 0..<(SyncPlannerTests.count + 3) / 4 {
            let seed = random.next()
            var schedule = Self.schedule(hardships: [.signsOut])
            if schedule.run(Self.events(seed)) != nil {
                return report(seed, hardships: [.signsOut])
            }
            if found != nil { continue }
            var mistaken = Self.schedule(mistakes: [.leavesTrashOut], hardships: [.signsOut])
            if mistaken.run(Self.events(seed)) != nil { found = count }
        }
        #expect(found != nil, "nobody notices that what was deleted meanwhile is not sent")
    }

    /// Only what is in the tree is told at another hub, so nothing is deleted here. The devices
    /// that receive go there and come back, each with the state that it had then.
    @Test(.timeLimit(.minutes(30))) func aDeviceThatWasAtAnotherHubUndoesNothing() {
        var random = SeededRandom(named: "SoleWriter changing hubs", usual: 2026)
        var found: Int?
        for count in 0..<(SyncPlannerTests.count + 3) / 4 {
            let seed = random.next()
            var schedule = Self.schedule(hardships: [.changesHub])
            if schedule.run(Self.events(seed, devices: 3)) != nil {
                return report(seed, hardships: [.changesHub])
            }
            if found != nil { continue }
            var planted = Self.schedule([.datesByTelling], hardships: [.changesHub])
            if planted.run(Self.events(seed, devices: 3)) != nil { found = count }
        }
        #expect(found != nil, "nobody notices that what is old is told as new")
    }

    /// What the hub has lost comes back from any device. What was changed since then counts,
    /// although other devices may be the first to tell the hub what was there before.
    @Test(.timeLimit(.minutes(30))) func aHubThatComesBackFromABackupUndoesNothing() {
        undoesNothing(
            "SoleWriter restoring the hub", .restoresHub,
            bugs: [.datesByArrival, .forgetsWhatTheHubLost, .believesTheHubsConflicts])
    }

    /// A copy of the store becomes another device. It sends the changes that the user's device had
    /// not sent when it was copied. They are older than what was changed on that device since.
    @Test(.timeLimit(.minutes(30))) func aCopyOfTheStoreUndoesNothing() {
        undoesNothing(
            "SoleWriter copying the store", .copiesStore,
            bugs: [.datesByResending, .overlooksAttributes])
    }

    /// The hub has everything when the store comes back. What the journal has not sent is older.
    @Test(.timeLimit(.minutes(30))) func aStoreThatComesBackFromABackupUndoesNothing() {
        undoesNothing(
            "SoleWriter rolling back", .rollsBack, bugs: [.repeatsItsEarlierAttributes])
    }

    /// Runs schedules with the hardship, in which nothing may be undone, and expects that each of
    /// the bugs undoes something in one of them.
    private func undoesNothing(
        _ name: String, _ hardship: Hardship, bugs planted: Set<SyncPlanner.Bug>
    ) {
        var random = SeededRandom(named: name, usual: 2026)
        var bugs = planted
        for _ in 0..<(SyncPlannerTests.count + 3) / 4 {
            let seed = random.next()
            var schedule = Self.schedule(hardships: [hardship])
            if schedule.run(Self.events(seed)) != nil {
                return report(seed, hardships: [hardship])
            }
            for bug in bugs {
                var planted = Self.schedule([bug], hardships: [hardship])
                if planted.run(Self.events(seed)) != nil { bugs.remove(bug) }
            }
        }
        #expect(bugs.isEmpty, "nobody notices these bugs")
    }

    /// An item got a temporary name again and again: it waited for a name in a directory that had
    /// left a deleted one, and the deletion waited for the item.
    @Test func noItemStepsAsideForEver() {
        let seed: UInt64 = 11_300_051_918_609_503_470
        var schedule = Self.schedule()
        if schedule.run(Self.events(seed)) != nil { report(seed) }
    }

    /// A random search finds the second one once in some thousands of schedules: a file that was
    /// created again right after its deletion was removed.
    @Test(arguments: [
        (SyncPlanner.Bug.takesNamesTooEarly, 14_602_530_494_585_831_241 as UInt64),
        (.draftsFromBefore, 16_640_967_292_515_036_455),
    ])
    func aPlantedBugIsFound(_ bug: SyncPlanner.Bug, _ seed: UInt64) {
        var (sound, planted) = (Self.schedule(), Self.schedule([bug]))
        #expect(sound.run(Self.events(seed)) == nil)
        #expect(planted.run(Self.events(seed)) != nil)
    }

    private func report(_ seed: UInt64, hardships: Set<Hardship> = []) {
        let devices = hardships.contains(.changesHub) ? 3 : 2
        let few = shrunk(Self.events(seed, devices: devices)) { events in
            var schedule = Self.schedule(hardships: hardships)
            return schedule.run(events) != nil
        }
        var schedule = Self.schedule(hardships: hardships)
        schedule.log = []
        let text = schedule.run(few) ?? "not the same twice"
        Issue.record(
            "seed \(seed): \(text)\n\(schedule.log!.prefix(60).joined(separator: "\n"))")
    }
}
