import Foundation
import Glibc
import Support
import Synchronization

/// The hub and the devices, and all faults that can affect them from outside.
final class World: @unchecked Sendable {
    let hub: HubProcess
    private let hubClock: ShiftedClock
    /// The hub that devices are signed in to instead for a while.
    private var otherHub: HubProcess?
    private let devices: Int
    private let all: Mutex<[Site]>
    let history: History
    private var hubIsUp = true
    private var hubIsStopped = false
    private var hubCameBack = false
    /// What an interrupted run must clean up.
    static let present = Mutex<World?>(nil)

    init(devices: Int, history: History) throws {
        hubClock = try ShiftedClock()
        let clock = hubClock
        let hub = try HubProcess(environment: clock.environment)
        self.hub = hub
        self.history = history
        self.devices = devices
        all = Mutex(try (0..<devices).map { try Site($0, hub: hub, hubClock: clock) })
    }

    /// The devices, and a copy of one if there is one now.
    var sites: [Site] { all.withLock { $0 } }

    func site(_ name: String) -> Site? { sites.first { $0.name == name } }

    /// Applies a fault, or ends it. The calling thread does nothing else in the meantime.
    func apply(_ action: Action) {
        if action.verb.waitsForHub { letDevicesGo() }
        var event = Event(fault: action.verb, action.actor)
        event.action = action.number
        history.note(event)
        do {
            if let site = site(action.actor) {
                try apply(action.verb, to: site)
            } else {
                try applyToHub(action.verb)
            }
        } catch { died(action.actor, "\(action): \(error)") }
        // The devices sleep one after another, and those that are last save in the meantime.
        if event.isSleep { history.note(event) }
    }

    /// A daemon that is stopped for a minute is given up by its watchdog, which its programs are
    /// told. So none stays stopped while this thread may wait for a hub that does not answer.
    private func letDevicesGo() {
        for site in sites where site.isStopped {
            site.signal(SIGCONT)
            history.note(Event(fault: .go, site.name))
        }
    }

    private func apply(_ verb: Verb, to site: Site) throws {
        switch verb {
        case .kill: try site.kill()
        case .start: try site.start()
        case .stop: site.signal(SIGSTOP)
        case .go: site.signal(SIGCONT)
        case .offline: site.set(offline: true)
        case .online: site.set(offline: false)
        case .signOut: try site.signOut()
        case .signIn: site.trySignIn()
        case .losePower: try site.losePower()
        case .fill: try site.fill()
        case .free: site.free()
        case .signInElsewhere:
            // A device that returns compares the times of both hubs.
            let other = try otherHub ?? HubProcess(environment: hubClock.environment)
            otherHub = other
            try site.signIn(toOther: other)
        case .clock(let ahead):
            site.clock.ahead = ahead
            site.noteClocks()
        case .moveStore: try site.moveStore()
        case .copyStore: try copy(site)
        case .lack(let part):
            guard try !site.isRefused(without: part) else { break }
            var event = Event(.examined, site.name)
            event.outcome = "mounted"
            event.detail = "mounted although the store lacked its \(part.rawValue)"
            history.note(event)
        case .line(let line): site.proxy.set(line)
        case .keep:
            try site.kill()
            // The copy needs room.
            site.free()
            try StoreCopy(of: site.volume.store).make()
            try site.start()
        case .rollBack:
            try site.kill()
            umount2(site.volume.path, Int32(MNT_DETACH))
            try StoreCopy(of: site.volume.store).putBack()
            try site.start()
            site.lookWhichHub()
        default: break
        }
    }

    /// There is at most one copy at a time.
    private func copy(_ site: Site) throws {
        guard sites.count == devices else { return }
        let copy = try site.copied(as: devices)
        all.withLock { $0.append(copy) }
    }

    /// Ends what exists for one round.
    func endCopies() {
        for site in sites { site.beginRound() }
        hubCameBack = false
        for copy in sites.dropFirst(devices) {
            examined(copy.name, copy.fsctl(["doctor", copy.volume.path]))
            do { try copy.volume.unmount() } catch { died(copy.name, "unmounting: \(error)") }
            copy.end()
        }
        all.withLock { $0.removeLast($0.count - devices) }
        try? otherHub?.kill9()
        otherHub = nil
    }

    private func applyToHub(_ verb: Verb) throws {
        switch verb {
        case .kill:
            (hubIsUp, hubIsStopped) = (false, false)
            try hub.kill9()
        case .start:
            if !hubIsUp { try hub.start() }
            hubIsUp = true
        case .stop:
            hubIsStopped = hubIsUp
            hub.send(SIGSTOP)
        case .go:
            hubIsStopped = false
            hub.send(SIGCONT)
        case .clock(let ahead):
            hubClock.ahead = ahead
            for site in sites { site.noteClocks() }
        case .sleep(let days):
            hubClock.suspended += days * 86_400
            for site in sites { try site.sleep(seconds: days * 86_400) }
        case .quota(let bytes): try setQuota(bytes)
        case .keep, .rollBack:
            try applyToHub(.kill)
            if verb == .rollBack {
                hubCameBack = true
                for site in sites { site.noteOlderHub() }
            }
            let copy = StoreCopy(of: hub.data)
            try verb == .keep ? copy.make() : copy.putBack()
            try applyToHub(.start)
        default: break
        }
    }

    /// A hub that is stopped within a transaction keeps the ledger locked, and the command says
    /// that one should try again later.
    private func setQuota(_ bytes: Int?) throws {
        do { try hub.run("user", "quota", "ann", bytes.map { "\($0)" } ?? "none") } catch {
            guard hubIsStopped else { throw error }
        }
    }

    /// Copies all stores, the hub's data and what the daemons have said, for an examination.
    func copy(to directory: String) throws {
        try Command("mkdir", "-p", directory).succeed()
        try Command("cp", "-a", hub.data, "\(directory)/hub").succeed()
        for site in sites {
            try Command("cp", "-a", site.volume.store, "\(directory)/\(site.name)").succeed()
            try Data(site.volume.said.utf8).write(
                to: URL(filePath: "\(directory)/\(site.name).log"))
        }
    }

    private func died(_ actor: String, _ what: String) {
        var event = Event(.died, actor)
        event.detail = what
        history.note(event)
    }

    /// Ends all faults, and records processes that ended unexpectedly.
    func mend() {
        hubClock.ahead = 0
        for site in sites {
            site.proxy.set(.open)
            site.free()
            site.signal(SIGCONT)
            if site.hasDied { died(site.name, "ended by itself: \(site.volume.said.suffix(800))") }
            do { try site.start() } catch { died(site.name, "does not start: \(error)") }
        }
        do { try applyToHub(.go) } catch { died("hub", "does not go on: \(error)") }
        do { try applyToHub(.start) } catch { died("hub", "does not start: \(error)") }
        do { try applyToHub(.quota(bytes: nil)) } catch { died("hub", "\(error)") }
        for site in sites where site.isElsewhere {
            do { try site.signOut() } catch { died(site.name, "does not sign out: \(error)") }
        }
        for site in sites where site.isSignedOut {
            do { try site.signIn() } catch { died(site.name, "does not sign in: \(error)") }
        }
        for site in sites where site.isOffline { site.set(offline: false) }
    }

    // MARK: Synchronisation

    /// How long devices may take to be in step, and how long nothing may change until then. Each
    /// candidate that does not settle costs this time when an unsettled round is shrunk.
    struct Patience {
        var seconds = 120.0
        var still = 120.0
    }

    /// Waits until everything is synchronised. Returns nil, or what each device waits for.
    func settle(_ patience: Patience) -> [String: String]? {
        var waits: [String: String] = [:]
        var calm = 0
        var (last, since) = (waits, ContinuousClock.now)
        for site in sites {
            _ = try? site.fsctl([
                "wait", "--durable", "disk", "--timeout", "60", site.volume.path,
            ]).run()
        }
        let done = try? wait(seconds: patience.seconds, for: "all to be in step") { () -> Bool? in
            waits = [:]
            var cursors: Set<Int> = []
            for site in sites {
                if let why = unrest(of: site, &cursors) { waits[site.name] = why }
            }
            if waits.isEmpty && cursors.count > 1 { waits["all"] = "cursors \(cursors)" }
            // A single calm moment may lie between two steps.
            calm = waits.isEmpty ? calm + 1 : 0
            if waits != last { (last, since) = (waits, .now) }
            guard waits.isEmpty || ContinuousClock.now - since < .seconds(patience.still) else {
                throw SupportError("nothing changes any more")
            }
            return calm > 4 ? true : nil
        }
        return done == nil ? waits : nil
    }

    private func unrest(of site: Site, _ cursors: inout Set<Int>) -> String? {
        let report: VolumeLine.Object
        do { report = try site.status() } catch { return "no answer: \(error)" }
        guard let status = DeviceStatus(report) else { return "signed out" }
        cursors.insert(status.cursor)
        if status.holdsDeletions {
            _ = try? site.fsctl(["brake", "--release", "--at", site.volume.path]).run()
            return "deletions that are held"
        }
        if hubCameBack || site.mayBeRefused, site.isRefusedByHub {
            _ = try? site.signIn()
            return "a hub that does not know it any more"
        }
        return status.unrest(hubLostContents: hubCameBack || otherHub != nil)
    }

    /// Records the findings of each daemon's doctor and of the hub's check, and ends all processes.
    func examineAndEnd() {
        for site in sites {
            examined(site.name, site.fsctl(["doctor", site.volume.path]))
            do { try site.volume.unmount() } catch { died(site.name, "unmounting: \(error)") }
            site.end()
        }
        do {
            try hub.stop()
            try hub.check()
        } catch {
            var event = Event(.examined, "hub")
            event.outcome = "unsound"
            event.detail = "\(error)"
            history.note(event)
        }
    }

    func examined(_ actor: String, _ command: Command) {
        var event = Event(.examined, actor)
        do {
            let result = try command.run()
            event.outcome = result.status == 0 ? "ok" : "\(result.status)"
            event.detail = result.status == 0 ? nil : result.output + result.errors
        } catch {
            event.outcome = "no end"
            event.detail = "\(error)"
        }
        history.note(event)
    }

    func end() {
        for site in sites { site.end() }
        try? hub.kill9()
        try? otherHub?.kill9()
    }
}

/// A copy next to a directory that can replace it later.
private struct StoreCopy {
    private let directory: String
    private var copy: String { directory + "-kept" }

    init(of directory: String) { self.directory = directory }

    func make() throws {
        try Command("rm", "-rf", copy).succeed()
        try Command("cp", "-a", directory, copy).succeed()
        // A loss of power takes what is not on the disk.
        try Command("sync", "-f", copy).succeed()
    }

    /// Does nothing if there is no copy.
    func putBack() throws {
        guard FileManager.default.fileExists(atPath: copy) else { return }
        try Command("rm", "-rf", "--one-file-system", directory).succeed()
        try Command("mv", copy, directory).succeed()
        try Command("sync", "-f", directory).succeed()
    }
}
