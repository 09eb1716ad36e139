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
/// was stopped.
struct Revivals {
    let hub: Hub

    private static let readAtOnce = 200

    func run() async throws {
        let volumes = try await hub.ledger.read { transaction in
            try transaction.rows("SELECT DISTINCT volume FROM revivals", []).map { try $0.id(0) }
        }
        for volume in volumes {
            var isMore = true
            while isMore, !Task.isCancelled { isMore = try await step(in: volume) }
        }
    }

    /// - Returns: Whether something is left to do.
    private func step(in id: Identifier) async throws -> Bool {
        guard let volume = try await hub.ledger.read({ try $0.volume(id) }) else { return false }
        let time = hub.clock()
        let head = try await hub.turns.take(volume.account) {
            try await hub.ledger.write(.volume(id)) { transaction -> UInt64? in
                guard let volume = try transaction.volume(id) else { return nil }
                var table = LedgerTable(transaction, volume: id, time: time)
                table.sequence = volume.head + 1
                var isMore = true
                while isMore, table.work < Commit.workLimit {
                    isMore = try Revivals.goOn(in: &table)
                }
                try transaction.charge(volume.account, table.takeGrowth())
                try transaction.setHead(of: id, table.sequence)
                try transaction.noteRun(of: id, after: volume.head, upTo: table.sequence)
                return isMore ? table.sequence : nil
            }
        }
        let now = try await hub.ledger.read { try $0.volume(id)?.head } ?? 0
        hub.headsChanged.store(true, ordering: .relaxed)
        hub.feeds.announce(now, of: id)
        hub.ledger.announce(now, of: id)
        return head != nil
    }

    /// - Returns: Whether something is left to do.
    private static func goOn(in table: inout LedgerTable) throws -> Bool {
        let (transaction, volume) = (table.transaction, table.volume)
        guard var revival = try transaction.firstRevival(in: volume) else { return false }
        let page =
            try table.item(revival.directory)?.life.isAlive == true
            ? try transaction.trashed(after: revival, in: volume, limit: readAtOnce) : []
        guard let last = page.last else {
            try transaction.remove(revival, in: volume)
            return true
        }
        for (id, _) in page {
            guard let item = try table.item(id), case .trashed(revival.batch, _) = item.life,
                item.placement.parent == revival.directory, try table.alias(of: id) == nil
            else { continue }
            try table.revive(item, sequence: table.sequence)
            guard item.kind == .directory else { continue }
            try transaction.set(Revival(directory: id, batch: revival.batch), in: volume)
        }
        (revival.item, revival.key) = last
        try transaction.set(revival, in: volume)
        return true
    }
}

extension LedgerTransaction {
    func set(_ revival: Revival, in volume: Identifier) throws {
        try execute(
            """
            INSERT INTO revivals (volume, directory, device, epoch, number, name_key, item)
            VALUES ($1, $2, $3, $4, $5, $6, $7)
            ON CONFLICT (volume, directory) DO UPDATE
            SET device = $3, epoch = $4, number = $5, name_key = $6, item = $7
            """,
            [
                .id(volume), .id(revival.directory), .id(revival.batch.device),
                .integer(Int64(revival.batch.epoch)), .count(revival.batch.number),
                .bytes(revival.key.bytes), .id(revival.item),
            ])
    }

    fileprivate func remove(_ revival: Revival, in volume: Identifier) throws {
        try execute(
            "DELETE FROM revivals WHERE volume = $1 AND directory = $2",
            [.id(volume), .id(revival.directory)])
    }

    fileprivate func firstRevival(in volume: Identifier) throws -> Revival? {
        try row(
            """
            SELECT directory, device, epoch, number, name_key, item FROM revivals
            WHERE volume = $1 LIMIT 1
            """, [.id(volume)]
        ).map {
            Revival(
                directory: try $0.id(0),
                batch: OperationID(
                    device: try $0.id(1), epoch: UInt32(clamping: try $0.count(2)),
                    number: try $0.count(3)),
                key: NameKey(try $0.bytes(4)), item: try $0.id(5))
        }
    }

    /// The trashed items in the directory after the last one that was looked at.
    fileprivate func trashed(after revival: Revival, in volume: Identifier, limit: Int) throws
        -> [(id: Identifier, key: NameKey)]
    {
        try rows(
            """
            SELECT id, name_key FROM items WHERE volume = $1 AND parent = $2 AND alive = 0
            AND name_key >= $3 AND (name_key > $3 OR id > $4) ORDER BY name_key, id LIMIT $5
            """,
            [
                .id(volume), .id(revival.directory), .bytes(revival.key.bytes),
                .id(revival.item), .integer(Int64(limit)),
            ]
        ).map { (try $0.id(0), NameKey(try $0.bytes(1))) }
    }

    /// The number of trashed items in a directory, or `limit` if there are more.
    func trashedCount(in directory: Identifier, of volume: Identifier, upTo limit: Int) throws
        -> Int
    {
        let found = try row(
            """
            SELECT count(*) FROM (
                SELECT 1 FROM items WHERE volume = $1 AND parent = $2 AND alive = 0 LIMIT $3
            ) AS counted
            """, [.id(volume), .id(directory), .integer(Int64(limit))])
        return Int(try found?.integer(0) ?? 0)
    }
}
