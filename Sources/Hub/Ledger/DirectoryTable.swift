import HubProtocol
import Model
import Reconcile

/// Pages of what is in directories, and the directories that are restored in steps.
struct DirectoryTable {
    let transaction: any LedgerTransaction
    let volume: Identifier

    /// The alive items whose name keys are after this one, in the order of the keys.
    func aliveChildren(of parent: Identifier, after key: NameKey, limit: Int) throws
        -> [(id: Identifier, key: NameKey)]
    {
        try transaction.rows(
            """
            SELECT id, name_key FROM items
            WHERE volume = $1 AND parent = $2 AND name_key > $3 AND alive = 1
            ORDER BY name_key LIMIT $4
            """, [.id(volume), .id(parent), .bytes(key.bytes), .integer(Int64(limit))]
        ).map { (try $0.id(0), NameKey(try $0.bytes(1))) }
    }

    func set(_ revival: Revival) throws {
        try transaction.execute(
            """
            INSERT INTO revivals (volume, directory, device, epoch, number, name_key, item)
            VALUES ($1, $2, $3, $4, $5, $6, $7)
            ON CONFLICT (volume, directory, device, epoch, number) DO UPDATE
            SET name_key = $6, item = $7
            """,
            [
                .id(volume), .id(revival.directory), .id(revival.batch.device),
                .integer(Int64(revival.batch.epoch)), .count(revival.batch.number),
                .bytes(revival.key.bytes), .id(revival.item),
            ])
    }

    func remove(_ revival: Revival) throws {
        try transaction.execute(
            """
            DELETE FROM revivals WHERE volume = $1 AND directory = $2
            AND device = $3 AND epoch = $4 AND number = $5
            """,
            [
                .id(volume), .id(revival.directory), .id(revival.batch.device),
                .integer(Int64(revival.batch.epoch)), .count(revival.batch.number),
            ])
    }

    func firstRevival() throws -> Revival? {
        try transaction.row(
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

    /// The items in the directory, alive and trashed, after the last one that was looked at.
    func children(after revival: Revival, limit: Int) throws
        -> [(id: Identifier, key: NameKey)]
    {
        try transaction.rows(
            """
            SELECT id, name_key FROM items WHERE volume = $1 AND parent = $2
            AND name_key >= $3 AND (name_key > $3 OR id > $4) ORDER BY name_key, id LIMIT $5
            """,
            [
                .id(volume), .id(revival.directory), .bytes(revival.key.bytes),
                .id(revival.item), .integer(Int64(limit)),
            ]
        ).map { (try $0.id(0), NameKey(try $0.bytes(1))) }
    }

    /// The number of trashed items in a directory, or `limit` if there are more.
    func trashedCount(in directory: Identifier, upTo limit: Int) throws -> Int {
        let found = try transaction.row(
            """
            SELECT count(*) FROM (
                SELECT 1 FROM items WHERE volume = $1 AND parent = $2 AND alive = 0 LIMIT $3
            ) AS counted
            """, [.id(volume), .id(directory), .integer(Int64(limit))])
        return Int(try found?.integer(0) ?? 0)
    }
}
