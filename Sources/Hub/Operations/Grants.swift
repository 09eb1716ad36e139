import Coordination
import HubProtocol
import Model
import Synchronization

/// The documents that only one device may edit, as devices ask for them. The ledger has the grants
/// (`GrantTable`); what this hub has seen of them is in its memory (`GrantWatch`).
package final class Grants: Sendable {
    let watch: Mutex<GrantWatch>
    private let ledger: any Ledger
    private let feeds: Feeds
    private let turns: RoundRobinLock
    private let clock: @Sendable () -> Int64
    private let uptime: @Sendable () -> Int64

    /// - Parameter duration: How long a grant lasts without a sign of life, in nanoseconds.
    init(
        _ ledger: any Ledger, _ feeds: Feeds, _ turns: RoundRobinLock, duration: Int64,
        clock: @escaping @Sendable () -> Int64, uptime: @escaping @Sendable () -> Int64
    ) {
        self.ledger = ledger
        self.feeds = feeds
        self.turns = turns
        self.clock = clock
        self.uptime = uptime
        watch = Mutex(GrantWatch(duration: duration))
    }

    /// Answers the steps of a device in one transaction.
    ///
    /// - Parameter process: The process of the device. A device that does not name its processes
    ///   counts as one.
    /// - Throws: `.malformed`, `.notFound`, `.forbidden`.
    package func answer(
        _ request: GrantRequest, in id: Identifier, from process: Identifier?,
        for caller: Caller
    ) async throws -> GrantAnswer {
        if let objection = request.objection { throw Failure(.malformed, objection) }
        let asker = GrantRow.Holder(
            device: caller.device, process: process ?? caller.device)
        let (volume, ended) = try await endedRows(request, in: id, of: caller, for: asker)
        let time = clock()
        let (answer, head) = try await turns.take(caller.account) {
            try await ledger.write(.volume(volume)) { transaction in
                let view = try transaction.membership.view(id, of: caller, for: .grant)
                let before = view.volume.head
                var steps = GrantSteps(transaction, view: view, asker: asker, at: time)
                let answer = GrantAnswer(
                    results: try request.steps.map { try steps.answer($0, ended) })
                let after = try transaction.volume(volume)?.head ?? before
                return (answer, after > before ? after : nil)
            }
        }
        // A token is a position of the journal, up to which all devices read.
        if let head {
            feeds.announce(head, of: volume)
            ledger.announce(head, of: volume)
        }
        return answer
    }

    /// The volume's own id, and the rows of other devices whose time is over, as they are now.
    private func endedRows(
        _ request: GrantRequest, in id: Identifier, of caller: Caller, for asker: GrantRow.Holder
    ) async throws -> (volume: Identifier, rows: [Identifier: GrantRow]) {
        let items = request.steps.filter { $0.kind == .take }.map(\.item)
        let (volume, rows) = try await ledger.read { transaction in
            let view = try transaction.membership.view(id, of: caller, for: .grant)
            let table = GrantTable(transaction, volume: view.volume.id)
            var visible = view.visibleItems(transaction)
            let rows = try items.reduce(into: [Identifier: GrantRow]()) { rows, item in
                let item = try transaction.canonical(item, in: view.volume.id)
                if try visible.contains(item) { rows[item] = try table.row(of: item) }
            }
            // The grants of deleted documents stay held, and nobody gets them. So they are not
            // watched.
            let alive = try rows.filter { try table.isAlive($0.key) }
            return (view.volume.id, alive)
        }
        let now = uptime()
        let ended = watch.withLock { watch in
            rows.filter { item, row in
                row.isHeld && row.holder.device != asker.device
                    && watch.isOver(
                        row, of: GrantWatch.Document(volume: volume, item: item),
                        askedBy: caller.account, at: now)
            }
        }
        return (volume, ended)
    }
}

/// The steps of one request within its transaction.
private struct GrantSteps {
    let transaction: any LedgerTransaction
    let view: VolumeView
    let table: GrantTable
    let asker: GrantRow.Holder
    let time: Int64
    private var visible: VisibleItems
    private var names: [Identifier: (user: String, name: String)]?

    init(
        _ transaction: any LedgerTransaction, view: VolumeView, asker: GrantRow.Holder,
        at time: Int64
    ) {
        (self.transaction, self.view, self.asker) = (transaction, view, asker)
        self.time = time
        visible = view.visibleItems(transaction)
        table = GrantTable(transaction, volume: view.volume.id)
    }

    private var volume: Identifier { view.volume.id }

    mutating func answer(
        _ step: GrantRequest.Step, _ ended: [Identifier: GrantRow]
    ) throws -> GrantAnswer.Result {
        var result = GrantAnswer.Result(number: step.number)
        let item = try transaction.canonical(step.item, in: volume)
        if step.kind == .release, let token = step.token {
            try table.release(item, token, by: asker, number: step.number)
            return result
        }
        // Nothing is learned or kept about items that the volume, or the caller's folder, does not
        // have. What has left the folder is not renewed, so others get it soon.
        guard try visible.contains(item) else { return result }
        switch (step.kind, step.token) {
        case (.renew, let token?):
            let isRenewed = try table.renew(item, token, by: asker, number: step.number)
            result.token = isRenewed ? token : nil
        case (.resume, let token?):
            let isResumed = try table.resume(item, token, by: asker, number: step.number)
            result.token = isResumed ? token : nil
        default:
            guard try table.isAlive(item) else { return result }
            result.token = try table.take(
                item, by: asker, number: step.number, ended: ended[item], at: time)
        }
        if result.token == nil { try name(&result, item) }
        return result
    }

    /// Says who has a document.
    private mutating func name(_ result: inout GrantAnswer.Result, _ item: Identifier) throws {
        guard let row = try table.row(of: item), row.isHeld, row.holder.device != asker.device
        else { return }
        let known = try names ?? transaction.membership.deviceNames(in: volume)
        names = known
        guard let name = known[row.holder.device] else { return }
        (result.device, result.deviceName) = (row.holder.device, name.name)
        result.user = name.user
    }
}

extension GrantTable {
    fileprivate func isAlive(_ item: Identifier) throws -> Bool {
        try transaction.row(
            "SELECT alive FROM items WHERE volume = $1 AND id = $2", [.id(volume), .id(item)]
        )?.integer(0) == 1
    }
}

extension LedgerTransaction {
    /// The item into which the named one was unified.
    func canonical(_ item: Identifier, in volume: Identifier) throws -> Identifier {
        var (item, seen) = (item, Set<Identifier>())
        while seen.insert(item).inserted, let next = try alias(of: item, in: volume) {
            item = next
        }
        return item
    }
}
