import CLinux
import HubProtocol
import Journal
import Logging
import Model
import Reconcile
import Volume

/// Synchronises one volume with its hub. One thread compares, sends and applies changes; other
/// threads transfer large contents and read hints.
///
/// The engine's memory is disposable: what must be sent, what was sent, and what must be applied is
/// in the journal, and each step can be found again from there.
package final class SyncEngine: EnginePart, @unchecked Sendable {
    let parts: EngineParts
    package let hub: HubContents
    let holders: HolderCounts
    private let transfers: TransferQueue
    let upThrottle: Throttle
    private let leases: LeaseExchange
    private let grants: GrantExchange

    // Only the engine's thread uses these.

    private let standings: StandingKeeper
    private let refusedStates: RefusedStates
    private let receiver: ChangeReceiver
    private let dueItems: DueItems
    private let held: HeldChanges
    private let uploads: ContentUploads
    private let outbox: OutboxSender
    private let sender: ChangeSender
    private let holdings: HoldingReports
    private var backoff = 0.0
    private var isRecovered = false

    package init(
        volume: Volume, account: Account, tree: any Applying, settings: SyncSettings, log: Logger,
        changed: @escaping @Sendable ([DirectoryEntry]) -> Void
    ) throws(VolumeError) {
        let standing = try volume.journal.read { try Standing($0) }
        let state = Shared(State(isOffline: account.isOffline, standing: standing))
        let parts = EngineParts(
            volume: volume, tree: tree,
            client: try HubClient(account.address, token: account.token),
            journal: SyncJournal(volume, account: account, state: state), state: state,
            threads: EngineThreads(), events: EngineEvents(changed: changed), settings: settings,
            log: log)
        self.parts = parts
        upThrottle = Throttle(settings.uploadRate)
        hub = HubContents(
            client: parts.client, account: account, throttle: Throttle(settings.downloadRate)
        ) { state.withLock { $0.isOffline } }
        let uploader = ChunkUploader(parts: parts, throttle: upThrottle)
        transfers = TransferQueue(parts, uploader, ContentDownloader(parts: parts, hub: hub))
        uploads = ContentUploads(parts, uploader: uploader, transfers: transfers)
        outbox = OutboxSender(parts, uploads: uploads)
        held = HeldChanges(parts)
        sender = ChangeSender(parts, held: held, uploads: uploads, outbox: outbox)
        dueItems = DueItems(
            parts, transfers, contents: ContentFetch(parts: parts, hub: hub, transfers: transfers),
            applier: AdjustmentApplier(parts, transfers))
        refusedStates = RefusedStates(state, log: log, seconds: settings.refusedSeconds)
        standings = StandingKeeper(parts: parts)
        receiver = ChangeReceiver(
            parts, standings: standings, outbox: outbox, dueItems: dueItems,
            join: VolumeJoin(parts), refusedStates: refusedStates)
        leases = LeaseExchange(parts)
        grants = GrantExchange(parts)
        holders = HolderCounts(parts: parts)
        holdings = HoldingReports(parts, holders)
    }

    // MARK: Starting and stopping

    package func start() {
        volume.recorder.recordPromptly { [threads] in threads.poke() }
        threads.start(named: "sync") { self.run() }
        let hints = HintListener(parts: parts, leases: leases, grants: grants)
        threads.start(named: "hints") { hints.run() }
        leases.start()
        grants.start()
        transfers.start()
    }

    /// Stops all threads. Unsent changes wait in the journal.
    package func stop() {
        volume.recorder.recordPromptly(nil)
        leases.stop()
        grants.stop()
        threads.end()
        upThrottle.close()
        hub.throttle.close()
        client.close()
        transfers.stop()
        threads.waitForEnd()
        events.unsafe?(false)
    }

    // MARK: The thread

    private func run() {
        while !threads.isEnding {
            threads.beginRound()
            guard !state.withLock({ $0.isOffline }) else {
                state.withLock { $0.connection = .offline }
                events.unsafe?(false)
                events.moved?()
                rest(until: .max)
                continue
            }
            do {
                guard try !waitsForScan() else {
                    rest(until: cl_clock_monotonic_ns() + SyncEngine.scanPause)
                    continue
                }
                if !isRecovered { try recover() }
                try dueItems.recover()
                guard try !restartAfterRebuild() else { continue }
                if let reason = outbox.doubt.take(pause: settings.refusedSeconds, state) {
                    restart(Failure(.copied, reason))
                }
                var isBusy = try receiver.pull()
                isBusy = try dueItems.apply() || isBusy
                let maySend = state.withLock { $0.standing.maySend }
                if let unsafe = events.unsafe { unsafe(try maySend && isUnsafe()) }
                isBusy = try sender.send() || isBusy
                if let unsafe = events.unsafe { unsafe(try maySend && isUnsafe()) }
                if !isBusy, maySend { isBusy = try holdings.report() }
                if !isBusy, maySend, !holdings.isReconfirmed { try holdings.reconfirm() }
                if !isBusy { events.connected?() }
                backoff = 0
                leases.roundEnded()
                grants.roundEnded()
                events.moved?()
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

    /// Prepares the first round.
    private func recover() throws {
        let account = journal.account
        try volume.recorder.record(asDevice: account.device, named: account.deviceName)
        try standings.apply()
        try journal.perform { table in try table.notePlaces() }
        try journal.perform { table in
            // A journal of an older version has no witness yet.
            try table.journal.setCurrentHub(
                volume: account.volume, epoch: table.session().volumeEpoch)
            for id in try table.journal.hub.mirrors(.stuck, limit: .max).map(\.id) {
                var mirror = try table.mirror(id)
                mirror?.state = .due
                try table.setMirror(id, mirror)
            }
        }
        isRecovered = true
        try refusedStates.remember(volume.journal)
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
            events.cloned?()
            backoff = 5
        case let fault as HubFault:
            state.withLock { $0.connection = .down(fault.message) }
            if let end = standings.end(after: fault) {
                state.withLock { $0.connection = end }
                events.unsafe?(false)
                backoff = 60
            }
            log.debug("\(fault)")
        default:
            state.withLock { $0.connection = .down("\(error)") }
            log.error("The volume cannot be synchronised with its hub now: \(error)")
        }
        events.moved?()
        outbox.lastSent = 0
        backoff = min(20, max(0.25, backoff * 2))
        // A random factor keeps all devices from connecting at the same moment when a hub is back.
        let pause = backoff * Double.random(in: 0.75...1.25)
        rest(until: cl_clock_monotonic_ns() + Timestamp.span(seconds: pause), wakes: false)
    }

    /// When something is due that no event announces.
    private var nextTime: Int64 {
        let examined = held.lastExamined
        return min(
            held.nextTime, dueItems.nextTime, receiver.nextPoll, holdings.nextTime,
            outbox.refusals.nextTime(after: examined), uploads.nextTime(after: examined),
            outbox.doubt.due ?? .max)
    }

    private func rest(until time: Int64, wakes: Bool = true) {
        let far = cl_clock_monotonic_ns() + 3_600_000_000_000
        threads.rest(until: min(time, far)) {
            wakes || state.withLock { $0.isOffline || $0.isUrgent }
        }
        state.withLock { $0.isUrgent = false }
    }

    // MARK: Comparing everything again

    /// Begins again with a complete comparison, after the hub was restored or this device's journal
    /// was copied or rolled back.
    private func restart(_ failure: Failure) {
        do {
            var epoch = try journal.session().epoch
            if failure.code != .volumeEpoch {
                epoch = try failure.deviceEpoch ?? client.newEpoch()
            }
            let volumeEpoch = try failure.epoch ?? journal.session().volumeEpoch
            try journal.perform { [planner = journal.planner, epoch] table in
                try planner.restart(epoch: epoch, volumeEpoch: volumeEpoch, in: &table)
                try table.journal.revokeConfirmations()
                try table.journal.resendHoldings()
                try table.journal.forgetRebuilding()
            }
            outbox.lastSent = 0
            receiver.startOver()
            holdings.startOver()
            uploads.startOver()
            dueItems.searchAgain()
            state.withLock { $0.head = 0 }
            log.warning("comparing everything with the hub again: \(failure.message)")
        } catch {
            state.withLock { $0.connection = .down("\(error)") }
            threads.wait(until: cl_clock_monotonic_ns() + 1_000_000_000)
        }
    }

    /// The working tree was missing and was restored from the history. What it lacks must not count
    /// as deleted.
    private func restartAfterRebuild() throws -> Bool {
        guard try volume.journal.read({ try $0.isTreeRebuilt }) else { return false }
        restart(Failure(.copied, "The working tree was restored from the history."))
        return true
    }
}
