import CLinux
import HubProtocol
import Journal
import Model
import Reconcile
import Volume

/// Reads the hub's changes into the mirrors. It holds when the hub is asked without a hint, and
/// which states were refused. Only the engine's thread uses it.
final class ChangeReceiver: EnginePart {
    let parts: EngineParts
    private let standings: StandingKeeper
    private let outbox: OutboxSender
    private let dueItems: DueItems
    private let join: VolumeJoin
    private let refusedStates: RefusedStates
    /// When the hub is asked although it has sent no hint (monotonic nanoseconds).
    private(set) var nextPoll: Int64 = 0

    init(
        _ parts: EngineParts, standings: StandingKeeper, outbox: OutboxSender, dueItems: DueItems,
        join: VolumeJoin, refusedStates: RefusedStates
    ) {
        self.parts = parts
        (self.standings, self.outbox, self.dueItems) = (standings, outbox, dueItems)
        (self.join, self.refusedStates) = (join, refusedStates)
    }

    /// Everything is compared with the hub again.
    func startOver() {
        refusedStates.forgetAll()
        nextPoll = 0
    }

    /// Reads new changes from the hub into the mirrors. Returns false if there are none.
    func pull() throws -> Bool {
        let session = try journal.session()
        // A request shows whether the hub can be reached again, so it is sent if the connection is
        // not up.
        let (head, mustAskHub) = state.withLock { state in
            defer { state.mustAskHub = false }
            return (state.head, state.mustAskHub || state.connection != .up)
        }
        let now = cl_clock_monotonic_ns()
        let isAcknowledged =
            try volume.journal.read { try $0.hub.outboxCount() } == 0 || outbox.lastSent == 0
        guard
            session.cursor < head || now >= nextPoll || session.isFresh || !isAcknowledged
                || mustAskHub
        else { return false }
        var isMore = true
        var count = 0
        while isMore, !threads.isEnding {
            let session = try journal.session()
            let sent = cl_clock_realtime_ns()
            let told = state.withLock { $0.head }
            let (answer, standing) = try client.changes(
                account.volume, after: session.cursor, run: session.run,
                limit: HubLimits.changes, epoch: session.volumeEpoch,
                withTrash: session.needsTrash)
            journal.clock.learn(
                sent: sent, received: answer.time, answered: answer.time,
                came: cl_clock_realtime_ns())
            volume.retention.hear(hubTime: answer.time)
            if try standings.learn(standing) { outbox.startOver() }
            guard answer.deviceEpoch == session.epoch else { throw copied }
            count += answer.changes.count
            let due = try take(answer, after: session.cursor, told: told)
            if session.isFresh { try join.install(due: due) }
            isMore = answer.next < answer.head
        }
        threads.change { state.withLock { $0.connection = .up } }
        nextPoll = cl_clock_monotonic_ns() + Timestamp.span(seconds: settings.pollSeconds)
        if try journal.session().isFresh { try join.complete(dueItems) }
        return try !journal.session().isFresh && takeRefusedStates() || count > 0
    }

    /// - Parameter told: The highest head that the hub had told before this was requested.
    private func take(_ answer: ChangesAnswer, after: UInt64, told: UInt64) throws -> [Identifier] {
        let place = RefusedStates.Place(after: after, next: answer.next)
        let objections = try volume.journal.read { try $0.objections(to: answer) }
        let page = Page(
            entries: try answer.changes.compactMap { change in
                switch change {
                case .item(let state):
                    try refusedStates.refuses(
                        state, in: place, objections[state.id], volume.journal)
                        ? nil : .item(state.withSharedAttributes)
                case .alias(let id, let target): .alias(id, of: target)
                }
            }, next: answer.next, run: answer.run, head: answer.head,
            acknowledged: answer.acknowledged)
        guard let due = try take(page) else { throw copied }
        state.withLock { state in
            // What was told before cannot be later than the answer, unless it was a lie.
            state.head = state.head == told ? answer.head : max(state.head, answer.head)
            state.cursor = answer.next
        }
        return due
    }

    /// Takes a page, and stores with it which states were refused. Returns the items that are due.
    private func take(_ page: Page) throws(VolumeError) -> [Identifier]? {
        let (sent, refused) = (outbox.lastSent, refusedStates.news)
        let due = try journal.perform { [planner = journal.planner] table in
            if let refused { try RefusedStates.store(refused, table.journal) }
            for case .item(let state) in page.entries { try table.journal.free(versionsOf: state) }
            return try planner.take(page, answered: sent, in: &table)
        }
        refusedStates.stored()
        if due?.isEmpty == false { dueItems.searchAgain() }
        return due
    }

    private var copied: HubFault {
        .refused(Failure(.copied, "The hub has more operations of this device than its journal."))
    }

    /// Asks the hub again for the states that were invalid. Returns whether any item is due.
    private func takeRefusedStates() throws -> Bool {
        var isDue = false
        for place in refusedStates.duePlaces() where !threads.isEnding {
            let session = try journal.session()
            let answer = try client.changes(
                account.volume, after: place.after, limit: HubLimits.changes,
                epoch: session.volumeEpoch, withTrash: true
            ).page
            let accepted = try refusedStates.accepted(answer, in: place, volume.journal)
            // The device's position stays, and nothing is said about its operations.
            let page = Page(
                entries: accepted.map { .item($0.withSharedAttributes) }, next: session.cursor,
                run: session.run, head: session.cursor + (session.isBehind ? 1 : 0),
                acknowledged: 0)
            isDue = try take(page)?.isEmpty == false || isDue
        }
        return isDue
    }
}
