import Foundation
import Glibc
import Support

/// Runs rounds of actions on real devices and a real hub, and writes the history.
final class Runner {
    let world: World
    let history: History
    private let patience: World.Patience
    private let settledRounds = 30
    private var kept: [Int] = []
    /// The rounds in which a hub may have lost contents.
    private var losing: Set<Int> = []

    init(devices: Int, history: History, patience: World.Patience = .init()) throws {
        self.history = history
        self.patience = patience
        world = try World(devices: devices, history: history)
        World.present.withLock { [world] in $0 = world }
    }

    /// Runs a round and returns the violations in its history.
    func run(_ round: Round) throws -> [Violation] {
        history.beginRound()
        let number = history.round
        do { try prepare(number) } catch {
            var event = Event(.unsettled, "all")
            event.detail = "\(error)"
            history.note(event)
            return judge(number)
        }
        perform(round, number)
        let isSettled = settle(number)
        let violations = judge(number)
        if violations.isEmpty && isSettled { kept.append(number) }
        history.forget(round: number)
        return violations
    }

    private func prepare(_ round: Int) throws {
        world.endCopies()
        let path = "r\(round)/\(Plan.sharedDirectory)"
        try FileManager.default.createDirectory(
            atPath: "\(world.sites[0].volume.path)/\(path)", withIntermediateDirectories: true)
        for site in world.sites {
            try wait(seconds: 60, for: "\(path) on \(site.name)") {
                access("\(site.volume.path)/\(path)", F_OK) == 0 ? true : nil
            }
        }
    }

    // MARK: Actions

    private func perform(_ round: Round, _ number: Int) {
        let faults = DispatchQueue(label: "faults")
        let group = DispatchGroup()
        let readers = DispatchGroup()
        let beginning = ContinuousClock.now
        for action in round where action.verb != .settle {
            let due = beginning + .milliseconds(action.time)
            let early = (due - ContinuousClock.now) / .microseconds(1)
            if early > 0 { usleep(UInt32(early)) }
            if action.verb.isFault, let site = action.order.flatMap(world.site) {
                site.programs.async(group: group) { [world] in
                    faults.sync { world.apply(action) }
                }
            } else if action.verb.isFault {
                faults.async(group: group) { [world] in world.apply(action) }
            } else if let site = world.site(action.actor) {
                let programs = DevicePrograms(
                    site: site, history: history, round: number, readers: readers)
                site.programs.async(group: group) { programs.perform(action) }
            }
        }
        // Faults end first, because programs may wait for a device that was killed. Scenes of
        // programs may cause further faults meanwhile.
        faults.sync { world.mend() }
        for waited in [group, readers] where waited.wait(timeout: .now() + 240) != .success {
            var event = Event(.hung, "all")
            event.detail = "programs have not come back from a call after four minutes"
            history.note(event)
        }
        faults.sync { world.mend() }
        // A log that was left behind when a device was killed is recovered by the next program. A
        // copy of a device has its logs, too.
        for site in world.sites {
            for index in world.sites.indices {
                let path = "\(site.volume.path)/r\(number)/\(Plan.database(index))"
                Database(path: path).recover()
            }
        }
    }

    // MARK: Settling

    private func settle(_ round: Int) -> Bool {
        if let waits = world.settle(patience) {
            for (actor, what) in waits.sorted(by: { $0.key < $1.key }) {
                var event = Event(.unsettled, actor)
                event.detail = what
                history.note(event)
            }
            return false
        }
        for site in world.sites {
            let inventory = Inventory(site: site, history: history)
            inventory.tree(ofRound: round, as: .item)
            do { try inventory.versions(ofRound: round) } catch {
                var event = Event(.examined, site.name)
                event.outcome = "no versions"
                event.detail = "\(error)"
                history.note(event)
            }
            for user in User.allCases { inventory.reading(of: user, inRound: round) }
        }
        // The round counts as settled only now, because the checker then expects the inventory.
        for site in world.sites {
            var event = Event(.settled, site.name)
            event.detail = site.problems
            history.note(event)
        }
        return true
    }

    /// Compares the earlier rounds once more, and examines everything as a whole.
    func end() -> [Violation] {
        history.beginRound()
        let last = history.round
        let looked = Array(kept.suffix(settledRounds))
        for round in looked {
            for site in world.sites {
                Inventory(site: site, history: history).tree(ofRound: round, as: .left)
            }
        }
        world.examineAndEnd()
        World.present.withLock { $0 = nil }
        return (looked + [last]).flatMap { judge($0) }
    }

    private func judge(_ round: Int) -> [Violation] {
        let events = history.events(ofRound: round)
        if events.contains(where: \.mayTakeContentsFromHub) { losing.insert(round) }
        return Checker.violations(of: events, afterLossesIn: losing)
    }

    /// - Parameter directory: Where copies of all stores are left; none if nil.
    func abandon(copyTo directory: String? = nil) {
        if let directory {
            do { try world.copy(to: directory) } catch { say("chaos: no copies: \(error)") }
        }
        world.end()
        World.present.withLock { $0 = nil }
    }
}

extension Verb {
    /// Whether the verb affects processes and connections, not programs.
    var isFault: Bool {
        switch self {
        case .kill, .start, .stop, .go, .line, .offline, .online, .signOut, .signIn, .keep,
            .rollBack, .quota, .losePower, .fill, .free, .signInElsewhere, .moveStore,
            .copyStore, .lack, .clock, .sleep:
            true
        default: false
        }
    }

    /// Whether applying it takes long while the hub does not answer.
    var waitsForHub: Bool {
        switch self {
        case .signOut, .signIn, .signInElsewhere, .quota: true
        default: false
        }
    }
}
