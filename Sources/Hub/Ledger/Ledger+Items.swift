import HubProtocol
import Model
import Reconcile

extension LedgerTransaction {
    package func item(_ id: Identifier, in volume: Identifier) throws -> ItemState? {
        let found = try row(
            "SELECT state, sequence FROM items WHERE volume = $1 AND id = $2",
            [.id(volume), .id(id)])
        return try found.map { try state($0.bytes(0), id, sequence: $0.count(1)) }
    }

    /// - Parameter sequence: The row's sequence number. It replaces the one in the encoded state,
    ///   because announcing an item again changes only the row.
    package func state(_ bytes: [UInt8], _ id: Identifier, sequence: UInt64) throws -> ItemState {
        guard var state = ItemState(encoded: bytes) else {
            throw VolumeError(
                .damaged,
                "The ledger's row of item \(id) is damaged: run concord hub check, and restore a "
                    + "backup.")
        }
        state.sequence = sequence
        return state
    }

    /// Announces an item and all alive items below it again under a new sequence number.
    ///
    /// - Returns: The number of these items.
    func resendAll(_ id: Identifier, in volume: Identifier, sequence: UInt64) throws -> Int {
        try execute(
            """
            WITH RECURSIVE told (id) AS (
                VALUES ($2)
                UNION SELECT items.id FROM told CROSS JOIN items
                WHERE items.volume = $1 AND items.parent = told.id AND items.alive = 1
            )
            UPDATE items SET sequence = $3 WHERE volume = $1 AND id IN (SELECT id FROM told)
            """, [.id(volume), .id(id), .count(sequence)])
    }

    package func alias(of id: Identifier, in volume: Identifier) throws -> Identifier? {
        try row(
            "SELECT target FROM aliases WHERE volume = $1 AND id = $2", [.id(volume), .id(id)])?
            .id(0)
    }

    package func holder(of key: NameKey, in parent: Identifier, volume: Identifier) throws
        -> Identifier?
    {
        try sorted(
            """
            SELECT id FROM items
            WHERE volume = $1 AND parent = $2 AND name_key = $3 AND alive = 1
            """, [.id(volume), .id(parent), .bytes(key.bytes)]
        ).first
    }

    package func children(of parent: Identifier, in volume: Identifier) throws -> [Identifier] {
        try sorted(
            "SELECT id FROM items WHERE volume = $1 AND parent = $2", [.id(volume), .id(parent)])
    }

    /// Sorts here instead of by `ORDER BY id`, because SQLite would then scan the whole volume in
    /// the order of its primary key.
    private func sorted(_ query: String, _ arguments: [SQLValue]) throws -> [Identifier] {
        try rows(query, arguments).map { try $0.id(0) }
            .sorted { ($0.high, $0.low) < ($1.high, $1.low) }
    }

    /// - Parameter encoded: The item's encoding, if the caller has it already.
    package func put(_ item: ItemState, encoded: [UInt8]? = nil, in volume: Identifier) throws {
        try execute(
            """
            INSERT INTO items (volume, id, sequence, parent, name_key, alive, state)
            VALUES ($1, $2, $3, $4, $5, $6, $7)
            ON CONFLICT (volume, id) DO UPDATE
            SET sequence = $3, parent = $4, name_key = $5, alive = $6, state = $7
            """,
            [
                .id(volume), .id(item.id), .count(item.sequence), .id(item.placement.parent),
                .bytes(item.nameKey.bytes), .integer(item.life.isAlive ? 1 : 0),
                .bytes(encoded ?? item.encoded),
            ])
    }

    /// The bytes of an item's stored state; 0 if it has none.
    package func stateBytes(of id: Identifier, in volume: Identifier) throws -> Int {
        let found = try row(
            "SELECT length(state) FROM items WHERE volume = $1 AND id = $2", [.id(volume), .id(id)])
        return Int(try found?.integer(0) ?? 0)
    }

    package func setAlias(
        of id: Identifier, to target: Identifier, in volume: Identifier, sequence: UInt64
    ) throws {
        try execute(
            """
            INSERT INTO aliases (volume, id, target, sequence) VALUES ($1, $2, $3, $4)
            ON CONFLICT (volume, id) DO UPDATE SET target = $3, sequence = $4
            """, [.id(volume), .id(id), .id(target), .count(sequence)])
    }

    // MARK: Revisions

    package func revision(_ id: Identifier, in volume: Identifier) throws -> Revision? {
        let found = try row(
            "SELECT state FROM revisions WHERE volume = $1 AND id = $2", [.id(volume), .id(id)])
        return try found.map {
            guard let revision = Revision(encoded: try $0.bytes(0)) else {
                throw VolumeError(
                    .damaged,
                    "The ledger's row of version \(id) is damaged: run concord hub check, and "
                        + "restore a backup.")
            }
            return revision
        }
    }

    /// The stored contents of a version, for another version with the same contents.
    ///
    /// - Throws: `.notFound`.
    package func content(of revision: Identifier, in volume: Identifier) throws
        -> RevisionContent
    {
        guard let manifest = try manifest(of: revision, in: volume),
            let chunks = try chunks(of: revision, in: volume)
        else { throw Failure(.notFound, "The hub does not have this version any more.") }
        return RevisionContent(manifest: manifest, chunks: chunks)
    }

    package func manifest(of revision: Identifier, in volume: Identifier) throws -> [UInt8]? {
        try row(
            "SELECT manifest FROM revisions WHERE volume = $1 AND id = $2",
            [.id(volume), .id(revision)])?.bytes(0)
    }

    package func chunks(of revision: Identifier, in volume: Identifier) throws -> [Digest]? {
        let found = try row(
            "SELECT chunks FROM revisions WHERE volume = $1 AND id = $2",
            [.id(volume), .id(revision)])
        return try found.flatMap { PackedIDs(bytes: try $0.bytes(0))?.ids }
    }

    /// - Returns: False, and nothing is added, if a version has the id already.
    @discardableResult
    package func addRevision(
        _ revision: Revision, of item: Identifier, content: RevisionContent,
        in volume: Identifier, at time: Int64
    ) throws -> Bool {
        let added = try execute(
            """
            INSERT INTO revisions
            (volume, id, item, device, size, sequence, added, state, manifest, chunks)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
            ON CONFLICT (volume, id) DO NOTHING
            """,
            [
                .id(volume), .id(revision.id), .id(item), .id(revision.moment.device),
                .count(revision.size), .count(revision.sequence), .integer(time),
                .bytes(revision.encoded), .bytes(content.manifest.bytes),
                .bytes(content.chunks.bytes),
            ])
        guard added > 0 else { return false }
        try hold(revision.id, by: revision.moment.device, in: volume)
        return true
    }

    /// Adds to the account's usage, or subtracts from it. It stops at zero and at the largest
    /// number: an overflow would make all later writes of the account fail.
    package func charge(_ account: Identifier, _ bytes: Int64) throws {
        guard bytes != 0 else { return }
        let (limit, end): (Int64, Int64) = bytes > 0 ? (.max - bytes, .max) : (-bytes, 0)
        try execute(
            """
            UPDATE accounts SET used = CASE WHEN used \(bytes > 0 ? ">" : "<") $1
            THEN $2 ELSE used + $3 END WHERE id = $4
            """, [.integer(limit), .integer(end), .integer(bytes), .id(account)])
    }

    /// Calculates the bytes that are stored for the account: the chunks of its versions, each
    /// counted once in a volume, their manifests and lists of chunks, the states of items and
    /// versions, and the places that items have left.
    package func size(ofAccount account: Identifier) throws -> UInt64 {
        let chunks = try row(
            """
            SELECT coalesce(sum(chunks.length), 0) FROM chunks
            JOIN volumes ON volumes.id = chunks.volume
            WHERE volumes.account = $1 AND chunks.uses > 0
            """, [.id(account)])
        let lists = try row(
            """
            SELECT coalesce(sum(
                length(revisions.manifest) + length(revisions.chunks) + length(revisions.state)), 0)
            FROM revisions JOIN volumes ON volumes.id = revisions.volume
            WHERE volumes.account = $1
            """, [.id(account)])
        let items = try row(
            """
            SELECT coalesce(sum(length(items.state)), 0)
            FROM items JOIN volumes ON volumes.id = items.volume WHERE volumes.account = $1
            """, [.id(account)])
        let places = try PastTable.size(ofAccount: account, self)
        return try [chunks, lists, items].reduce(places) { sum, found in
            min(UInt64(Int64.max), sum + (try found?.count(0) ?? 0))
        }
    }

    /// Returns the bytes of stored chunks that no version names.
    package func unusedBytes(ofAccount account: Identifier) throws -> UInt64 {
        try row(
            """
            SELECT coalesce(sum(chunks.length), 0) FROM chunks
            JOIN volumes ON volumes.id = chunks.volume
            WHERE volumes.account = $1 AND chunks.uses = 0 AND chunks.state <> 2
            """, [.id(account)])?.count(0) ?? 0
    }

    package func setUsed(of account: Identifier, _ bytes: UInt64) throws {
        try execute(
            "UPDATE accounts SET used = $1 WHERE id = $2", [.count(bytes), .id(account)])
    }

    package func hold(_ revision: Identifier, by device: Identifier, in volume: Identifier) throws {
        try execute(
            """
            INSERT INTO holdings (volume, revision, device) VALUES ($1, $2, $3)
            ON CONFLICT (volume, revision, device) DO NOTHING
            """, [.id(volume), .id(revision), .id(device)])
    }

    package func release(_ revision: Identifier, by device: Identifier, in volume: Identifier)
        throws
    {
        try execute(
            "DELETE FROM holdings WHERE volume = $1 AND revision = $2 AND device = $3",
            [.id(volume), .id(revision), .id(device)])
    }

    /// Returns the number of devices that have the version, are not revoked, and whose account is
    /// a member of the volume.
    package func holders(of revision: Identifier, in volume: Identifier) throws -> Int {
        let found = try row(
            """
            SELECT count(*) FROM holdings JOIN devices ON devices.id = holdings.device
            JOIN members
            ON members.volume = holdings.volume AND members.account = devices.account
            WHERE holdings.volume = $1 AND holdings.revision = $2 AND devices.revoked IS NULL
            """, [.id(volume), .id(revision)])
        return Int(try found?.integer(0) ?? 0)
    }
}
