import HubProtocol
import Model
import Reconcile

/// A directory that was restored, and the batch of deletions whose items in it are to be restored.
struct Revival: Hashable, Sendable {
    let directory: Identifier
    let batch: OperationID
    /// The last item that was looked at, in the order of name keys and ids.
    var key = NameKey([])
    var item = Identifier.root
}

/// Restores what is in very large directories in small transactions, after the operation that has
/// restored the directory. What is left to do is in the ledger, so it is continued after the hub
/// was stopped. The same for the contents of directories that came into a shared folder or left it
/// (`Crossing`).
struct Revivals {
    let hub: Hub

    func run() async throws {
        let volumes = try await hub.ledger.read { transaction in
            try transaction.rows(
                "SELECT volume FROM revivals UNION SELECT volume FROM crossings", []
            ).map { try $0.id(0) }
        }
        for volume in volumes {
            var isMore = true
            while isMore, !Task.isCancelled { isMore = try await step(in: volume) }
        }
    }

    /// - Returns: Whether something is left to do.
    private func step(in id: Identifier) async throws -> Bool {
        guard let volume = try await hub.ledger.read({ try $0.volume(id) }) else { return false }
        let (time, steps) = (hub.clock(), hub.limits.steps)
        let isMore = try await hub.turns.take(volume.account) {
            try await hub.ledger.write(.volume(id)) {
                try Revivals.step(in: id, $0, at: time, steps)
            }
        }
        let now = try await hub.ledger.read { try $0.volume(id)?.head } ?? 0
        hub.headsChanged.store(true, ordering: .relaxed)
        hub.feeds.announce(now, of: id)
        hub.ledger.announce(now, of: id)
        return isMore
    }

    /// Does the work of one transaction.
    ///
    /// - Returns: Whether something is left to do.
    static func step(
        in id: Identifier, _ transaction: any LedgerTransaction, at time: Int64,
        _ steps: StepLimits
    ) throws -> Bool {
        guard let volume = try transaction.volume(id) else { return false }
        var table = LedgerTable(transaction, volume: id, time: time)
        table.steps = steps
        table.sequence = volume.head + 1
        var isMore = true
        while isMore, table.work < steps.work { isMore = try goOn(in: &table) }
        try transaction.charge(volume.account, table.takeGrowth())
        try JournalTimes(transaction, volume: id)
            .advance(after: volume.head, to: table.sequence, at: time)
        return isMore
    }

    /// - Returns: Whether something is left to do.
    private static func goOn(in table: inout LedgerTable) throws -> Bool {
        let directories = table.directories
        guard var revival = try directories.firstRevival() else {
            return try table.goOnWithCrossings()
        }
        let page =
            try table.item(revival.directory)?.life.isAlive == true
            ? try directories.children(after: revival, limit: table.steps.read) : []
        guard let last = page.last else {
            try directories.remove(revival)
            return true
        }
        for (id, _) in page {
            guard let item = try table.item(id), item.placement.parent == revival.directory
            else { continue }
            if case .trashed(let batch, _) = item.life {
                guard batch == revival.batch, try table.alias(of: id) == nil else { continue }
                try table.revive(item, sequence: table.sequence)
            }
            // A directory that came back before may still have something of the batch in it.
            guard item.kind == .directory else { continue }
            try directories.set(Revival(directory: id, batch: revival.batch))
        }
        (revival.item, revival.key) = last
        try directories.set(revival)
        return true
    }
}
