import Model
import Support

@testable import Reconcile

/// Devices that work and exchange changes through a hub while everything possible goes wrong. At
/// the end everything works, until no device has anything left to do.
struct SyncPlannerSchedule {
    struct Device {
        var journal: DeviceJournal
        var underway: (adjustment: Adjustment, isApplied: Bool, isDone: Bool)?
        var page: (page: Page, volumeEpoch: Identifier, epoch: UInt32)?
        /// Requests that are still on their way, although no device waits for them.
        var late: [HubInMemory.Request] = []
        var backup: Backup?
        var skew: Int64 = 0
        var touched: Set<Identifier> = []
        /// The engine asks the hub before it sends, so that a rolled-back journal is noticed.
        var hasAsked = false
        /// The last operation whose answer has arrived.
        var answered: UInt64 = 0
        var isSignedOut = false
        var isElsewhere: Bool {
            journal.state.volumeEpoch.high == HubInMemory.other.volumeEpoch.high
        }
    }

    /// A copy of a journal, or of a whole running machine.
    struct Backup {
        var journal: DeviceJournal
        var underway: (adjustment: Adjustment, isApplied: Bool, isDone: Bool)?
        var hasAsked: Bool
        var answered: UInt64
    }

    let planner: SyncPlanner
    let mistakes: Set<Mistake>
    private let takesTurns: Bool
    let hardships: Set<Hardship>
    /// Whether only the first device has a user, and the others only receive.
    private let hasSoleWriter: Bool
    private var isEnding = false
    var hub = HubInMemory()
    /// The second hub. `hub` and this one are exchanged while a device of the second hub works.
    var otherHub = HubInMemory.other
    private var isAtOtherHub = false
    var hubBackup: HubInMemory?
    var devices: [Device]
    var witness = Witness()
    private var soleTree = SoleTree()
    private var now: Int64 = 0
    /// What has happened, for people; nil when it is not recorded.
    var log: [String]?

    init(
        devices count: Int, takesTurns: Bool, bugs: Set<SyncPlanner.Bug>, mistakes: Set<Mistake>,
        hardships: Set<Hardship> = [], hasSoleWriter: Bool = false
    ) {
        self.hardships = takesTurns ? [] : hardships
        self.hasSoleWriter = hasSoleWriter
        hub.isFull = self.hardships.contains(.quota)
        var planner = SyncPlanner()
        planner.bugs = bugs
        self.planner = planner
        self.mistakes = mistakes
        self.takesTurns = takesTurns
        hub.mistakes = mistakes
        let epoch = hub.volumeEpoch
        devices = (0..<count).map {
            Device(
                journal: DeviceJournal(device: $0, volumeEpoch: epoch),
                skew: Int64($0 * 90 - 90))
        }
        if hasSoleWriter, tellsTheOld {
            for who in devices.indices { devices[who].skew = 0 }
        }
        devices[0].journal.takesNames = hasSoleWriter && !mayReturn
        for who in devices.indices {
            devices[who].journal.holdsBack = self.hardships.contains(.largeConflicts)
            devices[who].journal.replacesUnseen = self.hardships.contains(.replacesUnseen)
        }
    }

    /// Makes copies of all tables in SQLite, which answer the same calls.
    mutating func join(_ journals: [JournalTwin], _ ledger: LedgerTwin) {
        for (who, journal) in journals.enumerated() {
            devices[who].journal.twin = journal
            journal.begin(with: devices[who].journal)
        }
        hub.twin = ledger
        hub.beginTwin()
    }

    /// The first answer of a SQLite table that differs from that of the table in memory.
    private var tableFault: String? {
        hub.twin?.fault ?? devices.lazy.compactMap(\.journal.twin?.fault).first
    }

    mutating func run(_ events: [Event<Turn>]) -> String? {
        for event in events {
            now = Int64(event.number * 10)
            for who in tellsTheOld ? Array(devices.indices) : [event.device] {
                devices[who].journal.clock = max(0, now + devices[who].skew)
            }
            take(event)
            if takesTurns, event.action.isUsers { settle() }
            if let fault = witness.fault ?? tableFault { return "\(fault) (event \(event.number))" }
        }
        log?.append("the end")
        isEnding = true
        for who in devices.indices where devices[who].isSignedOut { signIn(who) }
        for who in devices.indices where devices[who].isElsewhere { changeHub(who) }
        hub.isFull = false
        hubBackup?.isFull = false
        for who in devices.indices { devices[who].journal.holdsBack = false }
        settle()
        if hasSoleWriter, let fault = soleTree.fault(in: devices[0].journal, hub.table) {
            witness.blame("undone: \(fault)")
        }
        witness.judge(hub.table)
        return witness.fault ?? tableFault
    }

    private mutating func take(_ event: Event<Turn>) {
        var who = event.device
        if hasSoleWriter {
            if event.action.isUsers { who = 0 }
            if event.action.loses, !mayLose(event.action) { return }
            if hardships.contains(.rollsBack), event.action.loses { who = 0 }
            // A deletion does not count at another hub, or at one from before it, and the item
            // comes back from there, or from a copy of the device that was made before it.
            if mayReturn, event.action == .delete { return }
            // The hub lowers times that lie in the future. With a wrong clock it cannot tell what a
            // copy says from what is newer.
            if tellsTheOld, event.action == .clock { return }
        }
        if event.action.isUsers {
            let before = devices[who].journal
            guard var deed = devices[who].journal.act(event) else { return }
            if tellsTheOld, hasSoleWriter,
                devices[who].journal.hasChangedBack(deed.touched, before)
            {
                devices[who].journal = before
                return
            }
            if hasSoleWriter { soleTree.see(deed.touched, before, devices[0].journal) }
            if let adjustment = devices[who].underway?.adjustment,
                devices[who].journal.images[adjustment.item]?.isAlive == false
            {
                // Its version of a moment ago is deleted, too, recorded as a conflict or not.
                deed.deleted += [adjustment.local?.revision].compactMap(\.self)
            }
            let shown = deed.touched.map { devices[who].journal.brief($0) }
            log?.append("\(event.number): device \(who) \(event.action): \(shown)")
            devices[who].touched.formUnion(deed.touched)
            return witness.see(deed)
        }
        guard !takesTurns else { return }
        log?.append("\(event)")
        if hardships.contains(.signsOut), event.action == .crash, who > 0 || !hasSoleWriter {
            return devices[who].isSignedOut ? signIn(who) : signOut(who)
        }
        if hardships.contains(.copiesStore), event.action == .crash {
            if hasSoleWriter && who == 0 { return }
            let other = hasSoleWriter ? 0 : event.choices[0] % devices.count
            return copyStore(of: other, to: who)
        }
        guard !devices[who].isSignedOut || event.action.isOffline else { return }
        if hardships.contains(.changesHub), event.action == .crash, who > 0 || !hasSoleWriter {
            return changeHub(who)
        }
        if devices[who].isElsewhere, !event.action.loses {
            return atOtherHub { $0.work(event, who) }
        }
        work(event, who)
    }

    mutating func atOtherHub(_ body: (inout Self) -> Void) {
        swap(&hub, &otherHub)
        isAtOtherHub = true
        body(&self)
        isAtOtherHub = false
        swap(&hub, &otherHub)
    }

    /// Whether a hub may not know what it was told before.
    private var hubForgets: Bool {
        hardships.contains(.changesHub) || hardships.contains(.restoresHub)
    }

    /// Whether what the user has deleted since may come back, from an earlier state of the hub or
    /// from a copy of the store.
    private var mayReturn: Bool { hubForgets || tellsTheOld }

    /// Whether another device may tell the hub what was there before the user's changes.
    private var isToldTheOld: Bool {
        hardships.contains(.restoresHub) || tellsTheOld
    }

    private mutating func work(_ event: Event<Turn>, _ who: Int) {
        switch event.action {
        case .ask: ask(who)
        case .take: takePage(who)
        case .adjust: adjust(who, event.choices[0])
        case .apply: apply(who)
        case .finish: finish(who)
        case .draft: draft(who, event.choices[0])
        case .send: send(who, count: 1 + event.choices[0] % 3, fate: event.choices[1] % 5)
        case .late: deliverLate(who, event.choices[0])
        case .work:
            for _ in 0..<(1 + event.choices[0] % 6) { work(who) }
            // Sometimes an item begins to be applied and stays unfinished for a while.
            if event.choices[1].isMultiple(of: 2) {
                ask(who)
                takePage(who)
                adjust(who, 0)
            }
        case .crash: crash(who)
        case .clock: devices[who].skew = Int64(event.choices[0] % 1_000) - 500
        case .hubBackup: hubBackup = hub
        case .hubRestore: restoreHub()
        case .backup: backUp(who)
        case .rollBack where hasSoleWriter: rollBackWriter()
        case .rollBack: rollBack(who, isRunning: event.choices[0].isMultiple(of: 2))
        default: break
        }
    }

    // MARK: One device's engine

    private mutating func ask(_ who: Int) {
        let session = devices[who].journal.state
        guard session.volumeEpoch == hub.volumeEpoch else { return restart(who) }
        let epoch = hub.epoch(of: session.device)
        if session.isFresh, session.cursor == 0 { devices[who].journal.joinedAt = hub.head }
        let gone =
            session.hasEarlierAgreements && !mistakes.contains(.leavesTrashOut)
            ? 0 : devices[who].journal.joinedAt
        let page = hub.page(for: session, limit: 2, withoutTrashUpTo: gone)
        if epoch != session.epoch { return restart(who) }
        if session.cursor > hub.head {
            hub.volumeEpoch = Identifier(high: 9, low: hub.volumeEpoch.low + 1)
            return restart(who)
        }
        devices[who].page = (page, session.volumeEpoch, session.epoch)
    }

    private mutating func takePage(_ who: Int) {
        // The engine has one thread: nothing is received while an item is being applied.
        guard let (sent, volumeEpoch, epoch) = devices[who].page, devices[who].underway == nil
        else { return }
        var page = sent
        devices[who].page = nil
        let session = devices[who].journal.state
        guard volumeEpoch == session.volumeEpoch, epoch == session.epoch else { return }
        if mistakes.contains(.acknowledgesTooMuch) {
            page.acknowledged = session.sentUpTo
            devices[who].answered = session.sentUpTo
        }
        if mistakes.contains(.cursorWithoutItems), now % 70 == 0 { page.entries = [] }
        let answered = devices[who].answered
        if planner.take(page, answered: answered, in: &devices[who].journal) == nil {
            witness.count("copied")
            return restart(who)
        }
        devices[who].hasAsked = true
        if devices[who].journal.state.isFresh, page.next >= page.head { join(who) }
    }

    /// The device has received everything from the hub once. What can be applied is applied, and
    /// then its own changes may be sent.
    private mutating func join(_ who: Int) {
        finishAll(who)
        var left = 200
        while left > 0, adjust(who, 0) {
            finishAll(who)
            left -= 1
        }
        devices[who].journal.state.isFresh = false
        if devices[who].journal.state.hasEarlierAgreements {
            devices[who].journal.unsent.formUnion(devices[who].journal.ids)
        }
    }

    @discardableResult
    private mutating func adjust(_ who: Int, _ choice: Int) -> Bool {
        guard devices[who].underway == nil else { return false }
        let due = devices[who].journal.due.filter {
            isEnding || !hardships.block($0, who)
                || devices[who].journal.mirrors[$0]?.state != .stuck
        }
        for place in due.indices {
            let id = due[(place + choice) % due.count]
            if let found = planner.adjustment(id, in: &devices[who].journal) {
                if hasSoleWriter, who == 0, !isToldTheOld {
                    witness.blame("to be undone: \(found.brief)")
                }
                devices[who].underway = (found, false, false)
                return true
            }
        }
        return false
    }

    private mutating func apply(_ who: Int) {
        guard let (adjustment, isApplied, _) = devices[who].underway, !isApplied else { return }
        let before = devices[who].journal
        let looks = !mistakes.contains(.overwritesWhatChanged)
        let isBlocked = !isEnding && hardships.block(adjustment.item, who)
        let isDone = !isBlocked && devices[who].journal.apply(adjustment, looks: looks)
        if !isDone { devices[who].journal = before }
        if mistakes.contains(.mixesContents), let other = adjustment.remote.conflicts.first {
            devices[who].journal.images[adjustment.item]?.content = other.content
        }
        if let lost = before.images[adjustment.item]?.revision, isDone,
            devices[who].journal.images[adjustment.item]?.revision != lost
                || adjustment.steps == [.remove]
        {
            witness.mayReplace(lost, hub.table)
        }
        devices[who].underway = (adjustment, true, isDone)
        log?.append("device \(who): \(adjustment.brief) \(isDone)")
    }

    mutating func finish(_ who: Int) {
        guard let (adjustment, isApplied, isDone) = devices[who].underway, isApplied else { return }
        if isDone { devices[who].journal.finish(adjustment) }
        let isStuck = !isDone && !isEnding && hardships.block(adjustment.item, who)
        planner.adjusted(
            adjustment, isDone: isDone, isStuck: isStuck, in: &devices[who].journal)
        devices[who].underway = nil
    }

    private mutating func finishAll(_ who: Int) {
        apply(who)
        finish(who)
    }

    @discardableResult
    private mutating func draft(_ who: Int, _ choice: Int) -> Bool {
        guard !devices[who].journal.state.isFresh || planner.bugs.contains(.sendsWhileFresh) else {
            return false
        }
        guard devices[who].hasAsked || planner.bugs.contains(.sendsWhileFresh) else {
            return false
        }
        let all = devices[who].journal.toSend
        for place in all.indices {
            let id = all[(place + choice) % all.count]
            let draft = planner.comparison.draft(id, in: &devices[who].journal)
            let missing = draft.changes.compactMap(\.revision).filter {
                draft.isOnlyConflict($0.id) && $0.moment.device != devices[who].journal.state.device
                    && hardships.hide($0.id, who)
            }
            if !missing.isEmpty, !isEnding {
                if choice % 3 == 0 {
                    witness.count("withdrawn")
                    for revision in missing {
                        planner.unreadable.withdraw(
                            conflict: revision.id, of: id, in: &devices[who].journal)
                    }
                }
                continue
            }
            if draft.changes.isEmpty || draft.waitsFor != nil || draft.isWaiting { continue }
            if planner.isCovered(draft, in: &devices[who].journal) { return true }
            let before = devices[who].journal
            // Sometimes the item is sent with a temporary name first. A device that is signed out
            // before the final name is sent has that one to send everywhere, and so has the device
            // from which it was copied.
            let isAside =
                choice % 5 == 4 && draft.changes.contains(where: \.places)
                && hardships.isDisjoint(
                    with: hasSoleWriter ? [.changesHub, .copiesStore] : [.changesHub])
            let operations =
                isAside
                ? planner.stepAside(id, in: &devices[who].journal)
                : planner.enqueue(draft, in: &devices[who].journal)
            if operations.isEmpty { continue }
            if !isAside, let fault = before.overtaking(operations) ?? before.hurrying(operations) {
                witness.blame(fault)
            }
            witness.expect(operations, of: devices[who].journal, hub.table)
            if devices[who].journal.state.isFresh { witness.blame("told before it has joined") }
            if !devices[who].journal.state.hasEarlierAgreements {
                let renamed = devices[who].journal.renamed
                let touched = devices[who].touched.map { renamed[$0] ?? $0 }
                witness.mayTell(operations, devices[who].touched.union(touched), hub.table)
            }
            if mistakes.contains(.baseCountsWhatIsNotShown) {
                let cursor = devices[who].journal.state.cursor
                for place in devices[who].journal.outbox.indices {
                    devices[who].journal.outbox[place].operation.base = cursor
                }
            }
            return true
        }
        return false
    }

    /// - Parameter fate: Whether the request is lost, its answer is lost, it is delivered once more
    ///   later, or all goes well.
    @discardableResult
    private mutating func send(_ who: Int, count: Int, fate: Int) -> Bool {
        guard let last = devices[who].journal.outbox.prefix(count).last else { return false }
        planner.willSend(upTo: last.operation.id.number, in: &devices[who].journal)
        let journal = devices[who].journal
        let request = HubInMemory.Request(
            device: journal.state.device, epoch: journal.state.epoch,
            volumeEpoch: journal.state.volumeEpoch,
            operations: journal.outbox.prefix(count).map(\.operation))
        if fate < 2 { devices[who].late.append(request) }
        if fate == 0 { return true }
        switch deliver(request) {
        case .done:
            if fate != 2 {
                refuse(request.operations, who)
                devices[who].answered = last.operation.id.number
            }
        case .volumeEpoch, .deviceEpoch, .copied, .gap: if fate != 2 { restart(who) }
        }
        return true
    }

    private mutating func refuse(_ operations: [Operation], _ who: Int) {
        for operation in operations where hub.refused.contains(operation.id) {
            let row = devices[who].journal.outbox.first { $0.operation.id == operation.id }
            guard let row else { continue }
            witness.count("refused")
            planner.refused(operation, of: row.item, in: &devices[who].journal)
        }
    }

    private mutating func deliver(_ request: HubInMemory.Request) -> HubInMemory.Answer {
        var (witness, log) = (witness, log)
        witness.willJudge(hub.table)
        let mustApply =
            takesTurns
            || hasSoleWriter && !isAtOtherHub && !isToldTheOld
        let isIdle =
            mustApply && !takesTurns && request.device != .device(0)
        let mayBeKnown = hubForgets
        let answer = hub.commit(request, at: now) { operation, verdict, table in
            witness.see(
                operation, verdict, table, mustApply: mustApply, mayBeKnown: mayBeKnown)
            if isIdle { witness.mustChangeNothing(operation, table) }
            witness.judge(operation, verdict, table)
            log?.append("\(operation.brief) → \(verdict)")
        }
        self.log = log
        self.witness = witness
        if let text = disorder(in: hub.table) { self.witness.blame(text) }
        return answer
    }

    private mutating func deliverLate(_ who: Int, _ choice: Int) {
        guard !devices[who].late.isEmpty else { return }
        let place = choice % devices[who].late.count
        let request = devices[who].late[place]
        if choice % 3 != 0 { devices[who].late.remove(at: place) }
        _ = deliver(request)
    }

    /// - Returns: Whether there was anything to do.
    @discardableResult
    private mutating func work(_ who: Int) -> Bool {
        finishAll(who)
        let session = devices[who].journal.state
        ask(who)
        takePage(who)
        var isBusy = devices[who].journal.state != session
        for _ in 0..<3 where adjust(who, 0) {
            apply(who)
            draft(who, 0)
            finish(who)
            isBusy = true
        }
        if draft(who, 0) { isBusy = true }
        if send(who, count: 2, fate: 4) { isBusy = true }
        return isBusy
    }

    // MARK: The end

    mutating func settle() {
        for who in devices.indices { devices[who].late = [] }
        var left = 400
        while left > 0 {
            var isBusy = false
            for who in devices.indices { isBusy = work(who) || isBusy }
            now += 1
            for who in devices.indices { devices[who].journal.clock = now + devices[who].skew }
            if !isBusy { break }
            left -= 1
        }
        if left == 0 { return witness.blame("no end") }
        for (number, device) in devices.enumerated() { compare(device.journal, number) }
    }
}
