import HubProtocol
import Model
import Reconcile

extension LedgerTransaction {
    package func item(_ id: Identifier, in volume: Identifier) throws -> ItemState? {
        try sizedItem(id, in: volume).state
    }

    /// An item, and the bytes of its stored state; 0 if it has none.
    func sizedItem(_ id: Identifier, in volume: Identifier) throws -> (
        state: ItemState?, bytes: Int
    ) {
        guard let found = try rows(.item(id, in: volume)).first else { return (nil, 0) }
        let bytes = try found.bytes(0)
        return (try state(bytes, id, sequence: found.count(1)), bytes.count)
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
        try rows(.alias(id, in: volume)).first?.id(0)
    }

    package func holder(of key: NameKey, in parent: Identifier, volume: Identifier) throws
        -> Identifier?
    {
        try sorted(.holder(of: key, in: parent, volume: volume)).first
    }

    package func children(of parent: Identifier, in volume: Identifier) throws -> [Identifier] {
        try sorted(
            LedgerStatement(
                "SELECT id FROM items WHERE volume = $1 AND parent = $2",
                [.id(volume), .id(parent)]))
    }

    /// Sorts here instead of by `ORDER BY id`, because SQLite would then scan the whole volume in
    /// the order of its primary key.
    private func sorted(_ read: LedgerStatement) throws -> [Identifier] {
        try rows(read).map { try $0.id(0) }
            .sorted { ($0.high, $0.low) < ($1.high, $1.low) }
    }

    /// - Parameters:
    ///   - encoded: The item's encoding, if the caller has it already.
    ///   - former: What is stored of the item now.
    package func put(
        _ item: ItemState, encoded: [UInt8]? = nil, replacing former: ItemState?,
        in volume: Identifier
    ) throws {
        let (encoded, sequence) = (encoded ?? item.encoded, SQLValue.count(item.sequence))
        let statement = LedgerStatement(
            """
            INSERT INTO items (volume, id, sequence, parent, name_key, alive, state)
            VALUES ($1, $2, $3, $4, $5, $6, $7)
            ON CONFLICT (volume, id) DO UPDATE
            SET sequence = $3, parent = $4, name_key = $5, alive = $6, state = $7
            """,
            [
                .id(volume), .id(item.id), sequence, .id(item.placement.parent),
                .bytes(item.nameKey.bytes), .integer(item.life.isAlive ? 1 : 0), .bytes(encoded),
            ])
        var then = [
            LedgerStatement.item(item.id, in: volume): [LedgerRow([.bytes(encoded), sequence])]
        ]
        let row = LedgerRow([.id(item.id)])
        for state in [former, item].compactMap({ $0 }) {
            let read = LedgerStatement.holder(
                of: state.nameKey, in: state.placement.parent, volume: volume)
            guard let holders = then[read] ?? known(read) else { continue }
            then[read] = holders.filter { $0 != row }
        }
        let here = LedgerStatement.holder(
            of: item.nameKey, in: item.placement.parent, volume: volume)
        if item.life.isAlive, let others = then[here] { then[here] = others + [row] }
        try executeLater(statement, changes: nil, then: then)
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
        try executeLater(
            LedgerStatement(
                """
                INSERT INTO aliases (volume, id, target, sequence) VALUES ($1, $2, $3, $4)
                ON CONFLICT (volume, id) DO UPDATE SET target = $3, sequence = $4
                """, [.id(volume), .id(id), .id(target), .count(sequence)]),
            changes: nil, then: [.alias(id, in: volume): [LedgerRow([.id(target)])]])
    }

    // MARK: Revisions

    package func revision(_ id: Identifier, in volume: Identifier) throws -> Revision? {
        try rows(.revision(id, in: volume)).first.map {
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

    /// - Parameter limit: That of the number of the document's versions that was announced.
    /// - Returns: False, and nothing is added, if a version has the id already.
    @discardableResult
    package func addRevision(
        _ revision: Revision, of item: Identifier, content: RevisionContent,
        in volume: Identifier, at time: Int64, countedUpTo limit: Int = 0
    ) throws -> Bool {
        let encoded = revision.encoded
        let statement = LedgerStatement(
            """
            INSERT INTO revisions
            (volume, id, item, device, size, sequence, added, state, manifest, chunks)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
            ON CONFLICT (volume, id) DO NOTHING
            """,
            [
                .id(volume), .id(revision.id), .id(item), .id(revision.moment.device),
                .count(revision.size), .count(revision.sequence), .integer(time),
                .bytes(encoded), .bytes(content.manifest.bytes), .bytes(content.chunks.bytes),
            ])
        let counting = LedgerStatement.versionCount(item, upTo: limit, in: volume)
        var then = [
            LedgerStatement.revision(revision.id, in: volume): [LedgerRow([.bytes(encoded)])]
        ]
        if let count = try known(counting)?.first?.integer(0) {
            then[counting] = [LedgerRow([.integer(min(count + 1, Int64(limit)))])]
        }
        guard try executeLater(statement, changes: 1, then: then) else { return false }
        try hold(revision.id, by: revision.moment.device, in: volume)
        return true
    }

    /// Adds to the account's usage, or subtracts from it. It stops at zero and at the largest
    /// number: an overflow would make all later writes of the account fail.
    package func charge(_ account: Identifier, _ bytes: Int64) throws {
        guard bytes != 0 else { return }
        let (limit, end): (Int64, Int64) = bytes > 0 ? (.max - bytes, .max) : (-bytes, 0)
        let read = LedgerStatement.account(account)
        var then: [LedgerStatement: [LedgerRow]] = [:]
        if let row = known(read)?.first {
            let used = try row.integer(3)
            let isBeyond = bytes > 0 ? used > limit : used < limit
            let new = isBeyond ? end : used + bytes
            then[read] = [LedgerRow([row[0], row[1], row[2], .integer(new)])]
        }
        let statement = LedgerStatement(
            """
            UPDATE accounts SET used = CASE WHEN used \(bytes > 0 ? ">" : "<") $1
            THEN $2 ELSE used + $3 END WHERE id = $4
            """, [.integer(limit), .integer(end), .integer(bytes), .id(account)])
        try executeLater(statement, changes: nil, then: then)
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
        try executeLater(
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

extension LedgerStatement {
    static func item(_ id: Identifier, in volume: Identifier) -> LedgerStatement {
        LedgerStatement(
            "SELECT state, sequence FROM items WHERE volume = $1 AND id = $2",
            [.id(volume), .id(id)])
    }

    static func alias(_ id: Identifier, in volume: Identifier) -> LedgerStatement {
        LedgerStatement(
            "SELECT target FROM aliases WHERE volume = $1 AND id = $2", [.id(volume), .id(id)])
    }

    static func holder(
        of key: NameKey, in parent: Identifier, volume: Identifier
    ) -> LedgerStatement {
        LedgerStatement(
            """
            SELECT id FROM items
            WHERE volume = $1 AND parent = $2 AND name_key = $3 AND alive = 1
            """, [.id(volume), .id(parent), .bytes(key.bytes)])
    }

    static func revision(_ id: Identifier, in volume: Identifier) -> LedgerStatement {
        LedgerStatement(
            "SELECT state FROM revisions WHERE volume = $1 AND id = $2", [.id(volume), .id(id)])
    }

    static func versionCount(
        _ item: Identifier, upTo limit: Int, in volume: Identifier
    ) -> LedgerStatement {
        LedgerStatement(
            """
            SELECT count(*) FROM (
                SELECT 1 FROM revisions WHERE volume = $1 AND item = $2 LIMIT $3
            ) AS counted
            """, [.id(volume), .id(item), .integer(Int64(limit))])
    }
}
