import CLinux
import Glibc
import HubProtocol
import Journal
import Logging
import Model
import Reconcile
import Synchronization
import Volume

/// Keeps one volume and its hub in step: one thread, which compares, sends and takes over; others
/// carry large contents and listen to hints.
///
/// It holds nothing that matters: what is to be sent, what was sent and what is to be taken over
/// are in the journal, and each step is found again from there.
package final class SyncEngine: @unchecked Sendable {
    let volume: Volume
    let tree: any Applying
    let client: HubClient
    let clock = HubClock()
    let exchange = Exchange()
    let settings: SyncSettings
    let log: Logger
    let account: Account
    /// Called after something was put into the tree behind the mount's back.
    let changed: @Sendable ([Spot]) -> Void
    /// Called when something is on this device only, and when nothing is any more. Set before
    /// `start`.
    var unsafe: (@Sendable (Bool) -> Void)?
    /// Called on the engine's thread whenever all is in step. Set before `start`.
    var connected: (@Sendable () -> Void)?
    /// Called, also more than once, when another process is this device. Set before `start`.
    var cloned: (@Sendable () -> Void)?

    // Of the engine's thread alone.

    /// The last operation that the hub has answered since the last failure: what it confirms beyond
    /// that is sent again first.
    var lastSent: UInt64 = 0
    /// When an item's change may be sent, by its key in the journal (monotonic nanoseconds).
    var held: [Int64: Held] = [:]
    /// When `held` was looked through (monotonic nanoseconds).
    var lookedAt: Int64 = 0
    /// Weak packages that have something to tell.
    var watched: Set<[Name]> = []
    /// What the hub is to take together or not at all, by the items that are in the outbox.
    var groups: [Identifier: UInt64] = [:]
    var lastGroup: UInt64 = 0
    var editPace: EditPace
    /// Items that something here held up.
    var postponed: [Identifier: Postponement] = [:]
    /// What the hub refused, by the item's key in the journal.
    var refusals: [Int64: Refusal] = [:]
    /// Revisions all of whose chunks are at the hub.
    var ready: Set<Identifier> = []
    /// Versions some of whose bytes cannot be read here: tried again after a while.
    var unreadable: [Identifier: Unreadable] = [:]
    /// Large contents that are about to be put into the tree: their versions, by the name of the
    /// prepared file.
    var carried: [String: (revision: Identifier, item: Identifier)] = [:]
    /// Where the next look at what is due begins, in the hub's journal.
    var dueCursor: Reader.Position?
    var collection: UInt64?
    var backoff = 0.0
    var nextPoll: Int64 = 0
    /// When the hub may be told again what is here (monotonic nanoseconds).
    var nextTelling: Int64 = .max
    var lastTelling: Int64 = 0
    /// Versions that the hub did not have although it had confirmed them: sent once more, not for
    /// ever.
    var denied: Set<Identifier> = []
    var isRecovered = false
    var brake: DeletionBrake
    /// The hub has been asked about all versions that it has not confirmed itself.
    var isReconfirmed = false
    /// While it joins: items that wait for their directory, by its id.
    var joining: [Identifier: [Identifier]] = [:]

    // Of all threads.

    let signal = Signal()
    let state: Shared<State>
    let carrier: Carrier
    let upThrottle: Throttle
    package let hub: HubContents

    /// The same is told again after a while; another change of the item at once.
    struct Refusal {
        /// Nil before it was looked at again.
        var draft: Exchange.Draft?
        /// Monotonic nanoseconds.
        var until: Int64
        var times: Int
    }

    struct Unreadable {
        /// Monotonic nanoseconds.
        var until: Int64
        var times: Int
        var path: String
    }

    struct Held {
        var since: Int64
        var until: Int64
        var isDeletion: Bool
        /// The deletion of a document that had been left alone for long.
        var isLongStanding = false
        /// The name that it is about to leave.
        var vacates: HubName?
        var weakPackage: [Name]?
    }

    package init(
        volume: Volume, account: Account, tree: any Applying, settings: SyncSettings, log: Logger,
        changed: @escaping @Sendable ([Spot]) -> Void
    ) throws(VolumeError) {
        self.volume = volume
        self.account = account
        brake = DeletionBrake(settings)
        self.tree = tree
        self.settings = settings
        editPace = EditPace(burst: settings.editBurst, seconds: settings.editSeconds)
        self.log = log
        self.changed = changed
        client = try HubClient(account.address, token: account.token)
        let state = Shared(State(isOffline: account.isOffline))
        self.state = state
        carrier = Carrier()
        upThrottle = Throttle(settings.uploadRate)
        hub = HubContents(
            client: client, account: account, throttle: Throttle(settings.downloadRate)
        ) { state.withLock { $0.isOffline } }
    }

    // MARK: Life

    package func start() {
        volume.hurry { [weak self] in self?.poke() }
        signal.change { running += 2 }
        startThread(named: "sync") { self.run() }
        startThread(named: "hints") { self.listen() }
        carrier.start(self)
    }

    /// Ends all threads; what was not sent waits in the journal.
    package func stop() {
        volume.hurry(nil)
        signal.change { isStopping = true }
        client.close()
        carrier.stop()
        _ = signal.wait(until: .max / 2) { running == 0 }
        unsafe?(false)
    }

    private var running = 0
    private(set) var isStopping = false
    private var hasNews = false
    private var isFeedUp = false

    var isEnding: Bool { signal.look { isStopping } }

    /// There is something to do, or may be.
    func poke() { signal.change { hasNews = true } }

    /// Airplane mode.
    package func setOffline(_ isOffline: Bool) {
        state.withLock { $0.isOffline = isOffline }
        poke()
    }

    // MARK: The thread

    private func run() {
        defer { signal.change { running -= 1 } }
        while !isEnding {
            signal.look { hasNews = false }
            guard !state.withLock({ $0.isOffline }) else {
                state.withLock { $0.connection = .offline }
                unsafe?(false)
                rest(until: .max)
                continue
            }
            do {
                if !isRecovered {
                    try volume.record(asDevice: account.device, named: account.deviceName)
                    try perform { table in try table.notePlaces() }
                    try recover()
                }
                guard try !beginsAnewAfterRebuilding() else { continue }
                var isBusy = try pull()
                isBusy = try take() || isBusy
                if let unsafe { unsafe(try isUnsafe()) }
                isBusy = try send() || isBusy
                if let unsafe { unsafe(try isUnsafe()) }
                if !isBusy { isBusy = try tellHoldings() }
                if !isBusy, !isReconfirmed { try reconfirm() }
                if !isBusy { connected?() }
                backoff = 0
                if !isBusy { rest(until: nextTime) }
            } catch {
                failed(error)
            }
        }
    }

    private func isUnsafe() throws(VolumeError) -> Bool {
        try volume.unsafeDocuments(below: [], limit: 8).contains { document in
            [.unsent, .undeleted, .sent].contains(document.reason)
        }
    }

    /// What a crash left half done is looked at again.
    private func recover() throws {
        try perform { [account] table in
            // A journal from an older build has no witness yet.
            try table.journal.setWitness(
                volume: account.volume, epoch: table.session().volumeEpoch)
            for id in try table.journal.mirrors(.underway, limit: .max).map(\.id) {
                try self.exchange.recover(id, in: &table)
            }
            for id in try table.journal.mirrors(.stuck, limit: .max).map(\.id) {
                var mirror = try table.mirror(id)
                mirror?.state = .due
                try table.setMirror(id, mirror)
            }
        }
        isRecovered = true
    }

    private func failed(_ error: any Error) {
        switch error {
        case HubFault.refused(let failure)
        where failure.code == .volumeEpoch || failure.code == .deviceEpoch
            || failure.code == .copied:
            restart(failure)
            guard backoff > 0 else {
                backoff = 0.25
                return
            }
            // A hub that says so again and again would have everything compared without end.
            state.withLock { $0.connection = .down(failure.message) }
        case HubFault.refused(let failure) where failure.code == .cloned:
            // Ended when this is a device of its own, and tried again where that fails.
            state.withLock { $0.connection = .down(failure.message) }
            cloned?()
            backoff = 5
        case let fault as HubFault:
            state.withLock { $0.connection = .down(fault.message) }
            if case .refused(let failure) = fault, failure.code == .unauthenticated {
                state.withLock { $0.connection = .signedOut(failure.message) }
                backoff = 60
            }
            log.debug("\(fault)")
        default:
            state.withLock { $0.connection = .down("\(error)") }
            log.error("The volume and its hub cannot be kept in step now: \(error)")
        }
        lastSent = 0
        backoff = min(20, max(0.25, backoff * 2))
        // Not all devices at once when a hub is back.
        let pause = backoff * Double.random(in: 0.75...1.25)
        rest(until: cl_clock_monotonic_ns() + Timestamp.span(seconds: pause), wakes: false)
    }

    /// When something is due that no event tells of.
    private var nextTime: Int64 {
        // What was due at the last look and is still here waits for something else.
        let due = held.values.lazy.map(\.until).filter { $0 > self.lookedAt }.min() ?? .max
        let again = postponed.values.lazy.compactMap(\.until).min() ?? .max
        let refused = refusals.values.lazy.map(\.until).filter { $0 > self.lookedAt }.min()
        let unread = unreadable.values.lazy.map(\.until).filter { $0 > self.lookedAt }.min()
        return min(due, again, nextPoll, nextTelling, refused ?? .max, unread ?? .max)
    }

    private func rest(until time: Int64, wakes: Bool = true) {
        let far = cl_clock_monotonic_ns() + 3_600_000_000_000
        _ = signal.wait(until: min(time, far)) {
            isStopping || wakes && hasNews
                || !wakes && hasNews && state.withLock { $0.isOffline || $0.isUrgent }
        }
        state.withLock { $0.isUrgent = false }
    }

    /// Runs in one transaction of the journal, when all that happened in the tree is in it.
    func perform<Result: Sendable>(
        _ body: @escaping @Sendable (inout JournalTable) throws -> Result
    ) throws(VolumeError) -> Result {
        let (account, clock, root) = (account, clock, volume.root)
        return try volume.perform { t in
            var table = JournalTable(journal: t, account: account, clock: clock, tree: root)
            let result = try body(&table)
            try table.flush()
            return result
        }
    }

    // MARK: Hints

    /// Nanoseconds from the end of a feed until the next is asked for; twice as long each time that
    /// the hub does not keep one up.
    private static let feedPause: Int64 = 500_000_000
    private static let feedPauseMax: Int64 = 16_000_000_000

    private func listen() {
        defer { signal.change { running -= 1 } }
        var pause = SyncEngine.feedPause
        while !isEnding {
            guard !state.withLock({ $0.isOffline }) else {
                _ = signal.wait(until: .max / 2) { isStopping || !state.withLock(\.isOffline) }
                continue
            }
            let began = cl_clock_monotonic_ns()
            let session = try? volume.journal.read { try Session($0) }
            if let epoch = session?.volumeEpoch {
                do {
                    try client.feed(account.volume, epoch: epoch) { [weak self] hint in
                        guard let self, !self.isEnding, hint.ended == nil,
                            !self.state.withLock({ $0.isOffline })
                        else { return false }
                        if let other = hint.process { self.confirm(beside: other) }
                        if let head = hint.head {
                            self.state.withLock {
                                $0.head = max($0.head, head)
                                $0.isUrgent = true
                            }
                            self.poke()
                        }
                        return true
                    }
                } catch {
                    log.trace("no hints: \(error)")
                    // Nothing else would make the device ask the hub before its next poll.
                    if case .refused(let failure) = error, failure.code == .volumeEpoch {
                        state.withLock { ($0.isDoubtful, $0.isUrgent) = (true, true) }
                        poke()
                    }
                }
            }
            let now = cl_clock_monotonic_ns()
            if now - began > SyncEngine.feedPauseMax { pause = SyncEngine.feedPause }
            // The other thread may find the hub sooner.
            let isDown = state.withLock { $0.connection != .up }
            _ = signal.wait(until: now + pause) {
                isStopping || isDown && state.withLock { $0.connection == .up }
            }
            pause = min(2 * pause, SyncEngine.feedPauseMax)
        }
    }
}

extension SyncEngine {
    /// Tells the hub that this process is still the device, on a thread of its own: the thread that
    /// reads hints must not wait for the answer.
    private func confirm(beside other: Identifier) {
        startThread(named: "confirm") { [client, log] in
            do throws(HubFault) {
                try client.confirm(beside: other)
            } catch {
                log.debug("\(error)")
            }
        }
    }
}

/// A value under a mutex, that several own.
final class Shared<Value: Sendable>: Sendable {
    private let value: Mutex<Value>

    init(_ value: Value) { self.value = Mutex(value) }

    func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        try value.withLock { value in try body(&value) }
    }
}

/// How much a device does by itself.
package struct SyncSettings: Sendable {
    /// Bytes. New documents up to this size come with their contents; larger ones when somebody
    /// reads them.
    package var eagerBytes: UInt64 = 1 << 20
    /// Bytes of contents that go or come at once with everything else; more goes beside.
    package var largeBytes = 8 << 20
    /// Seconds without hints before the hub is asked all the same.
    package var pollSeconds = 60.0
    /// Seconds for which a change waits for what follows from it.
    package var deletionSeconds = 1.0
    /// A deletion waits as long as others follow, up to this.
    package var removalSeconds = 20.0
    package var moveSeconds = 0.25
    package var creationSeconds = 0.02
    /// So many contents of one document go at once, and then one in so many seconds.
    package var editBurst = 20
    package var editSeconds = 1.0
    /// Bytes a second; nil: as fast as it goes.
    package var uploadRate: Int?
    package var downloadRate: Int?
    /// Deletions at once that are held until somebody says that they are meant: so many, or such a
    /// part of all items if these are not few.
    package var brakeCount = 1000
    /// Seconds within which deletions that went in parts are counted together.
    package var brakeWindowSeconds = 3600.0
    /// Seconds until held deletions are counted again.
    package var brakeSeconds = 30.0
    package var brakePart = 0.25
    package var brakeLeast = 50

    package init() {}
}
