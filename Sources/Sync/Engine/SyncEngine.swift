import CLinux
import Glibc
import HubProtocol
import Journal
import Logging
import Model
import Reconcile
import Synchronization
import Volume

/// Synchronises one volume with its hub. One thread compares, sends and applies changes; other
/// threads transfer large contents and read hints.
///
/// The engine's memory is disposable: what must be sent, what was sent, and what must be applied is
/// in the journal, and each step can be found again from there.
package final class SyncEngine: @unchecked Sendable {
    let volume: Volume
    let tree: any Applying
    let client: HubClient
    let clock = HubClock()
    let planner = SyncPlanner()
    let settings: SyncSettings
    let log: Logger
    let account: Account
    /// Called after something was put into the tree without the mount's knowledge.
    let changed: @Sendable ([DirectoryEntry]) -> Void
    /// Called with true when something exists only on this device, and with false when nothing
    /// does. It is set before `start`.
    var unsafe: (@Sendable (Bool) -> Void)?
    /// Called on the engine's thread whenever everything is synchronised. It is set before `start`.
    var connected: (@Sendable () -> Void)?
    /// Called when transfers or what is known about them may have changed, on any thread of the
    /// engine. It is set before `start`.
    var moved: (@Sendable () -> Void)?
    /// Called, possibly more than once, when another process is this device. It is set before
    /// `start`.
    var cloned: (@Sendable () -> Void)?

    // Only the engine's thread uses these.

    /// The last operation that the hub has answered since the last failure. Later operations in the
    /// outbox are sent again.
    var lastSent: UInt64 = 0
    /// When an item's change may be sent, by the item's key in the journal (monotonic nanoseconds).
    var held: [Int64: Held] = [:]
    /// When `held` was last examined (monotonic nanoseconds).
    var lastExamined: Int64 = 0
    /// Weak packages that have changes to send.
    var watched: Set<[Name]> = []
    /// The groups that the hub must apply completely or not at all, by the items in the outbox.
    var groups: [Identifier: UInt64] = [:]
    var lastGroup: UInt64 = 0
    var editPace: EditPace
    /// Items that a local change or condition has delayed.
    var postponed: [Identifier: Postponement] = [:]
    /// Recently refused changes, by the item's key in the journal.
    var refusals: [Int64: Refusal] = [:]
    let refusedStates: RefusedStates
    var renewals = Renewals()
    var doubt = Doubt()
    /// Revisions whose chunks are all at the hub.
    var ready: Set<Identifier> = []
    var failedUploads = FailedUploads()
    /// The versions of large contents that are being put into the tree, by the name of the prepared
    /// file.
    var carried: [String: (revision: Identifier, item: Identifier)] = [:]
    /// The position from which the next search for due items begins.
    var dueCursor: HubTables.Position?
    var collection: UInt64?
    var backoff = 0.0
    var nextPoll: Int64 = 0
    /// When the next report of holdings is due (monotonic nanoseconds).
    var nextHoldingReport: Int64 = .max
    var lastHoldingReport: Int64 = 0
    /// Versions that the hub did not have although it had confirmed them. Each is sent again only
    /// once.
    var denied: Set<Identifier> = []
    var isRecovered = false
    var brake: DeletionBrake
    /// Whether the hub has been asked about all versions that it has not confirmed itself.
    var isReconfirmed = false
    /// While the device joins: items that wait for their directory, by the directory's id.
    var joining: [Identifier: [Identifier]] = [:]

    // All threads use these; each guards itself.

    let signal = Signal()
    let state: Shared<State>
    let standings: StandingKeeper
    let transfers: TransferQueue
    let upThrottle: Throttle
    package let hub: HubContents

    package init(
        volume: Volume, account: Account, tree: any Applying, settings: SyncSettings, log: Logger,
        changed: @escaping @Sendable ([DirectoryEntry]) -> Void
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
        let standing = try volume.journal.read { try Standing($0) }
        let state = Shared(State(isOffline: account.isOffline, standing: standing))
        self.state = state
        refusedStates = RefusedStates(state, log: log, seconds: settings.refusedSeconds)
        standings = StandingKeeper(volume: volume, account: account, state: state)
        transfers = TransferQueue()
        upThrottle = Throttle(settings.uploadRate)
        hub = HubContents(
            client: client, account: account, throttle: Throttle(settings.downloadRate)
        ) { state.withLock { $0.isOffline } }
    }

    // MARK: Starting and stopping

    package func start() {
        volume.recordPromptly { [weak self] in self?.poke() }
        signal.change { running += 2 }
        startThread(named: "sync") { self.run() }
        startThread(named: "hints") { self.listen() }
        transfers.start(self)
    }

    /// Stops all threads. Unsent changes wait in the journal.
    package func stop() {
        volume.recordPromptly(nil)
        signal.change { isStopping = true }
        upThrottle.close()
        hub.throttle.close()
        client.close()
        transfers.stop()
        _ = signal.wait(until: .max / 2) { running == 0 }
        unsafe?(false)
    }

    private var running = 0
    private(set) var isStopping = false
    private var isWoken = false
    private var isFeedUp = false

    var isEnding: Bool { signal.look { isStopping } }

    /// Wakes the engine's thread, because there may be something to do.
    func poke() { signal.change { isWoken = true } }

    /// Switches synchronisation off or on.
    package func setOffline(_ isOffline: Bool) {
        state.withLock { $0.isOffline = isOffline }
        poke()
    }

    // MARK: The thread

    private func run() {
        defer { signal.change { running -= 1 } }
        while !isEnding {
            signal.look { isWoken = false }
            guard !state.withLock({ $0.isOffline }) else {
                state.withLock { $0.connection = .offline }
                unsafe?(false)
                moved?()
                rest(until: .max)
                continue
            }
            do {
                guard try !waitsForScan() else {
                    rest(until: cl_clock_monotonic_ns() + SyncEngine.scanPause)
                    continue
                }
                if !isRecovered {
                    try volume.record(asDevice: account.device, named: account.deviceName)
                    try standings.apply()
                    try perform { table in try table.notePlaces() }
                    try recover()
                    try refusedStates.remember(volume.journal)
                }
                guard try !restartAfterRebuild() else { continue }
                if let reason = doubt.take(pause: settings.refusedSeconds, state) {
                    restart(Failure(.copied, reason))
                }
                var isBusy = try pull()
                isBusy = try take() || isBusy
                let maySend = state.withLock { $0.standing.maySend }
                if let unsafe { unsafe(try maySend && isUnsafe()) }
                isBusy = try send() || isBusy
                if let unsafe { unsafe(try maySend && isUnsafe()) }
                if !isBusy, maySend { isBusy = try reportHoldings() }
                if !isBusy, maySend, !isReconfirmed { try reconfirm() }
                if !isBusy { connected?() }
                backoff = 0
                moved?()
                if !isBusy { rest(until: nextTime) }
            } catch {
                failed(error)
            }
        }
    }

    private func isUnsafe() throws(VolumeError) -> Bool {
        try volume.safety.unsafeDocuments(below: [], limit: 8).contains { document in
            [.unsent, .undeleted, .sent].contains(document.reason)
        }
    }

    /// The nanoseconds between two looks at whether the scan has ended.
    private static let scanPause: Int64 = 20_000_000

    /// Whether the tree may hold an arrival that the last daemon did not note. The scan recognizes
    /// it by the state in the mirror, so no newer state may be taken from the hub before that.
    private func waitsForScan() throws(VolumeError) -> Bool {
        guard !isRecovered, volume.scan.isRunning else { return false }
        return try volume.journal.read { try $0.hub.mirrorCount(.underway) } > 0
    }

    /// Examines again what a crash left half done.
    private func recover() throws {
        try perform { [account] table in
            // A journal of an older version has no witness yet.
            try table.journal.setCurrentHub(
                volume: account.volume, epoch: table.session().volumeEpoch)
            for id in try table.journal.hub.mirrors(.underway, limit: .max).map(\.id) {
                try self.planner.recover(id, in: &table)
            }
            for id in try table.journal.hub.mirrors(.stuck, limit: .max).map(\.id) {
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
            // The backoff keeps a faulty hub from causing one complete comparison after another.
            state.withLock { $0.connection = .down(failure.message) }
        case HubFault.refused(let failure) where failure.code == .cloned:
            // The engine is stopped when this store has become a separate device; if that fails, it
            // is tried again.
            state.withLock { $0.connection = .down(failure.message) }
            cloned?()
            backoff = 5
        case let fault as HubFault:
            state.withLock { $0.connection = .down(fault.message) }
            if let end = standings.end(after: fault) {
                state.withLock { $0.connection = end }
                unsafe?(false)
                backoff = 60
            }
            log.debug("\(fault)")
        default:
            state.withLock { $0.connection = .down("\(error)") }
            log.error("The volume cannot be synchronised with its hub now: \(error)")
        }
        moved?()
        lastSent = 0
        backoff = min(20, max(0.25, backoff * 2))
        // A random factor keeps all devices from connecting at the same moment when a hub is back.
        let pause = backoff * Double.random(in: 0.75...1.25)
        rest(until: cl_clock_monotonic_ns() + Timestamp.span(seconds: pause), wakes: false)
    }

    /// When something is due that no event announces.
    private var nextTime: Int64 {
        // What was due at the last examination and is still here waits for something else.
        let due = held.values.lazy.map(\.until).filter { $0 > self.lastExamined }.min() ?? .max
        let again = postponed.values.lazy.compactMap(\.until).min() ?? .max
        let refused = refusals.values.lazy.map(\.until).filter { $0 > self.lastExamined }.min()
        let failed = failedUploads.next(after: lastExamined)
        return min(
            due, again, nextPoll, nextHoldingReport, refused ?? .max, failed ?? .max,
            doubt.due ?? .max)
    }

    private func rest(until time: Int64, wakes: Bool = true) {
        let far = cl_clock_monotonic_ns() + 3_600_000_000_000
        _ = signal.wait(until: min(time, far)) {
            isStopping || wakes && isWoken
                || !wakes && isWoken && state.withLock { $0.isOffline || $0.isUrgent }
        }
        state.withLock { $0.isUrgent = false }
    }

    /// Runs `body` in one transaction of the journal, after all earlier changes of the tree were
    /// recorded in it.
    func perform<Result: Sendable>(
        _ body: @escaping @Sendable (inout JournalTable) throws -> Result
    ) throws(VolumeError) -> Result {
        let (account, clock, root) = (account, clock, volume.root)
        let heldBack = state.withLock { $0.heldBack }
        return try volume.perform { t in
            var table = JournalTable(
                journal: t, account: account, clock: clock, tree: root, heldBack: heldBack)
            let result = try body(&table)
            try table.flush()
            return result
        }
    }

    // MARK: Hints

    /// The nanoseconds between the end of a feed and the next request for one. The pause doubles
    /// while feeds end quickly.
    private static let feedPause: Int64 = 500_000_000
    private static let feedPauseMax: Int64 = 16_000_000_000

    private func listen() {
        defer { signal.change { running -= 1 } }
        var pause = SyncEngine.feedPause
        // The hub ends a feed when something about this device has changed. More may change before
        // the next feed is open.
        let wasEnded = Shared(false)
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
                        guard let self, !self.isEnding, !self.state.withLock({ $0.isOffline })
                        else { return false }
                        if hint.ended != nil || wasEnded.withLock({ $0 }) {
                            self.state.withLock { $0.mustAskHub = true }
                            self.poke()
                        }
                        wasEnded.withLock { $0 = hint.ended != nil }
                        if hint.ended != nil { return false }
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
                    // Without this, the device would not ask the hub before its next poll.
                    if case .refused(let failure) = error, failure.code == .volumeEpoch {
                        state.withLock { ($0.mustAskHub, $0.isUrgent) = (true, true) }
                        poke()
                    }
                }
            }
            let now = cl_clock_monotonic_ns()
            if now - began > SyncEngine.feedPauseMax { pause = SyncEngine.feedPause }
            // The engine's thread may find out earlier that the hub can be reached.
            let isDown = state.withLock { $0.connection != .up }
            _ = signal.wait(until: now + pause) {
                isStopping || isDown && state.withLock { $0.connection == .up }
            }
            pause = min(2 * pause, SyncEngine.feedPauseMax)
        }
    }
}

extension SyncEngine {
    /// Tells the hub that this process is alive and is the device. It uses its own thread, because
    /// the thread that reads hints must not wait for the answer.
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

/// A value that is guarded by a mutex and shared by several owners.
final class Shared<Value: Sendable>: Sendable {
    private let value: Mutex<Value>

    init(_ value: Value) { self.value = Mutex(value) }

    func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        try value.withLock { value in try body(&value) }
    }
}

/// The settings of synchronisation.
package struct SyncSettings: Sendable {
    /// Bytes. New documents up to this size are downloaded with their contents; larger ones when
    /// they are read.
    package var eagerBytes: UInt64 = 1 << 20
    /// Bytes. Larger contents are transferred in the background.
    package var largeBytes = 8 << 20
    /// Seconds without hints after which the hub is asked.
    package var pollSeconds = 60.0
    /// Seconds after which the hub is asked again for states that were invalid.
    package var refusedSeconds = 600.0
    /// Seconds for which a change waits for related changes.
    package var deletionSeconds = 1.0
    /// Seconds for which a deletion waits at most while further deletions follow.
    package var removalSeconds = 20.0
    package var moveSeconds = 0.25
    package var creationSeconds = 0.02
    /// The number of versions of one document that are sent at once, and the seconds between later
    /// ones.
    package var editBurst = 20
    package var editSeconds = 1.0
    /// The limits in bytes per second; nil means that there is none.
    package var uploadRate: Int?
    package var downloadRate: Int?
    /// A mass deletion is more than `brakeCount` deletions, or at least `brakeLeast` and more than
    /// `brakePart` of all items.
    package var brakeCount = 1000
    /// Seconds within which deletions that are sent in parts are counted together.
    package var brakeWindowSeconds = 3600.0
    /// Seconds until held deletions are examined again.
    package var brakeSeconds = 30.0
    package var brakePart = 0.25
    package var brakeLeast = 50

    package init() {}
}

/// A refused change. The same change is sent again after a pause; another change of the item at
/// once.
struct Refusal {
    /// Nil until the item is examined again.
    var draft: ItemDraft?
    /// Monotonic nanoseconds.
    var until: Int64
    var times: Int
}

/// A change that waits for related changes.
struct Held {
    var since: Int64
    var until: Int64
    var isDeletion: Bool
    /// Whether it deletes a document that had not been saved for a long time.
    var isLongStanding = false
    /// The name that the change frees.
    var vacates: SyncEngine.HubName?
    var weakPackage: [Name]?
}
