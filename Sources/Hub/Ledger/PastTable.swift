import HubProtocol
import Model
import Reconcile

/// An item as it was in a directory.
package struct PastItem: Hashable, Sendable {
    package let id: Identifier
    package let kind: ItemKind
    /// Its name then.
    package let name: String
    /// Its current version now, and the id of its contents.
    package let current: Identifier?
    package let content: Digest?
    /// Whether it was deleted since.
    package let isDeleted: Bool
    /// Whether it has another name or is in another directory now.
    package let isElsewhere: Bool
    /// The hub knows that it existed, but not where it was, so this is where it is now.
    package let isAssumed: Bool
}

/// A part of what was in a directory.
package struct PastPage: Sendable {
    package var items: [PastItem] = []
    /// Positions at which an item came into the directory, or left it.
    package var changes: [UInt64] = []
    /// From which position on those items are in the directory that are in it now.
    package var starts: [Identifier: UInt64] = [:]
    /// The rows that were read, and the bytes of their states.
    package var count = 0
    package var bytes = 0
    /// Where the next part begins; nil if this is the last one.
    package var next: PastCursor?
}

/// The last row of a part of a directory's past.
package enum PastCursor: Hashable, Sendable {
    /// Of the items that are in the directory now.
    case item(key: NameKey, alive: Int64, id: Identifier)
    /// Of the places that items have left.
    case place(stop: UInt64, item: Identifier)
}

/// Where the items of a volume were at a position of its journal, and which versions were current.
///
/// The rows of `items` say since when each item is where it is. A place that it leaves becomes a
/// row of `past_places`. So a creation and a save cost nothing, and a move costs one row.
package struct PastTable {
    let transaction: any LedgerTransaction
    let volume: Identifier

    package init(_ transaction: any LedgerTransaction, volume: Identifier) {
        (self.transaction, self.volume) = (transaction, volume)
    }

    /// The bytes of a row of `past_places` besides the name, for the quota.
    private static let rowBytes = 96
    /// The places that are kept of one item.
    static let placesPerItem = 1000
    /// The bytes of states that are read at once.
    private static let bytesAtOnce = 4 << 20

    // MARK: Recording

    /// Records the place that an item leaves, before another state of it is stored.
    ///
    /// - Returns: How many bytes are stored more.
    func note(_ old: ItemState, before new: ItemState, at sequence: UInt64) throws -> Int64 {
        let stays =
            old.placement.parent == new.placement.parent
            && old.name.utf8.elementsEqual(new.name.utf8)
            && (old.life.isAlive || !new.life.isAlive)
        guard !stays || old.placedSequence != new.placedSequence else { return 0 }
        let start = try self.start(of: old)
        let stop = old.trashedAt ?? sequence
        let here = stays ? start : new.life.isAlive ? sequence : stop
        try transaction.executeLater(
            "UPDATE items SET here = $3 WHERE volume = $1 AND id = $2",
            [
                .id(volume), .id(old.id), here == new.placedSequence ? .null : .count(here),
            ])
        return stays || start >= stop ? 0 : try add(old, start, stop)
    }

    private func add(_ item: ItemState, _ start: UInt64, _ stop: UInt64) throws -> Int64 {
        let name = Array(item.name.utf8)
        let added = try transaction.execute(
            """
            INSERT INTO past_places (volume, item, stop, start, parent, name)
            VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (volume, item, stop) DO NOTHING
            """,
            [
                .id(volume), .id(item.id), .count(stop), .count(start),
                .id(item.placement.parent), .bytes(name),
            ])
        guard added > 0 else { return 0 }
        let removed = try transaction.rows(
            """
            DELETE FROM past_places WHERE volume = $1 AND item = $2 AND stop <= (
                SELECT stop FROM past_places WHERE volume = $1 AND item = $2
                ORDER BY stop DESC LIMIT 1 OFFSET $3)
            RETURNING length(name)
            """, [.id(volume), .id(item.id), .integer(Int64(PastTable.placesPerItem))])
        return try removed.reduce(Int64(name.count + PastTable.rowBytes)) {
            $0 - (try $1.integer(0)) - Int64(PastTable.rowBytes)
        }
    }

    /// The bytes that are stored for the places of an account.
    static func size(
        ofAccount account: Identifier, _ transaction: any LedgerTransaction
    ) throws -> UInt64 {
        try transaction.row(
            """
            SELECT coalesce(sum(length(past_places.name) + \(rowBytes)), 0)
            FROM past_places JOIN volumes ON volumes.id = past_places.volume
            WHERE volumes.account = $1
            """, [.id(account)])?.count(0) ?? 0
    }

    /// Records that a version became current that is not the newest one.
    func setCurrent(_ revision: Identifier, of item: Identifier, at sequence: UInt64) throws {
        try transaction.executeLater(
            """
            INSERT INTO past_currents (volume, item, sequence, revision) VALUES ($1, $2, $3, $4)
            ON CONFLICT (volume, item, sequence) DO UPDATE SET revision = $4
            """, [.id(volume), .id(item), .count(sequence), .id(revision)])
    }

    // MARK: Items

    /// Since when an item is where it is, or was until it was deleted.
    private func start(of item: ItemState) throws -> UInt64 {
        let found = try transaction.row(
            "SELECT here FROM items WHERE volume = $1 AND id = $2", [.id(volume), .id(item.id)])
        guard let found, !found.isNull(0) else { return item.placedSequence }
        return try found.count(0)
    }

    /// The position up to which the hub did not record the places that items left.
    package func firstKnown() throws -> UInt64 {
        try transaction.row("SELECT unplaced FROM volumes WHERE id = $1", [.id(volume)])?
            .count(0) ?? 0
    }

    /// The directory and the name that an item had; nil if it was not there, or the hub does not
    /// know where.
    package func place(of item: ItemState, at position: UInt64) throws
        -> (parent: Identifier, name: String)?
    {
        if item.id == .root { return (.root, "") }
        if try start(of: item) <= position {
            return item.isThere(at: position) ? (item.placement.parent, item.name) : nil
        }
        let found = try transaction.row(
            """
            SELECT start, parent, name FROM past_places
            WHERE volume = $1 AND item = $2 AND stop > $3 ORDER BY stop LIMIT 1
            """, [.id(volume), .id(item.id), .count(position)])
        guard let found, try found.count(0) <= position else { return nil }
        return (try found.id(1), String(decoding: try found.bytes(2), as: UTF8.self))
    }

    /// The version of a document that was current; nil if it had none, or it was removed.
    package func current(of item: Identifier, at position: UInt64) throws -> Revision? {
        func last(_ id: String, _ table: String) throws -> (at: UInt64, id: Identifier)? {
            try transaction.row(
                """
                SELECT sequence, \(id) FROM \(table)
                WHERE volume = $1 AND item = $2 AND sequence <= $3 ORDER BY sequence DESC LIMIT 1
                """, [.id(volume), .id(item), .count(position)]
            ).map { (try $0.count(0), try $0.id(1)) }
        }
        let newest = try last("id", "revisions")
        if let other = try last("revision", "past_currents"), other.at >= newest?.at ?? 0,
            let revision = try transaction.revision(other.id, in: volume)
        {
            return revision
        }
        return try newest.flatMap { try transaction.revision($0.id, in: volume) }
    }

    // MARK: Directories

    /// Whether more than `limit` items are in a directory or have left it.
    package func hasMore(than limit: Int, in directory: Identifier) throws -> Bool {
        var count: Int64 = 0
        for table in ["items", "past_places"] {
            let found = try transaction.row(
                """
                SELECT count(*) FROM (
                    SELECT 1 FROM \(table) WHERE volume = $1 AND parent = $2 LIMIT $3
                ) AS counted
                """, [.id(volume), .id(directory), .integer(Int64(limit + 1))])
            count += try found?.integer(0) ?? 0
        }
        return count > Int64(limit)
    }

    /// Reads a part of what was in a directory. A part may be empty although others follow,
    /// because what is in the directory now may not have been there.
    ///
    /// - Parameter limit: The most rows that are read.
    package func page(
        of directory: Identifier, at position: UInt64, after cursor: PastCursor?, limit: Int
    ) throws -> PastPage {
        switch cursor {
        case nil:
            return try items(of: directory, position, (NameKey([]), -1, .root), limit)
        case .item(let key, let alive, let id):
            return try items(of: directory, position, (key, alive, id), limit)
        case .place(let stop, let item):
            return try places(of: directory, position, (stop, item), limit)
        }
    }

    private func items(
        of directory: Identifier, _ position: UInt64,
        _ after: (key: NameKey, alive: Int64, id: Identifier), _ limit: Int
    ) throws -> PastPage {
        func rows(_ columns: String, _ limit: Int) throws -> [LedgerRow] {
            try transaction.rows(
                """
                SELECT id, name_key, alive, \(columns) FROM items
                WHERE volume = $1 AND parent = $2 AND (name_key, alive, id) > ($3, $4, $5)
                ORDER BY name_key, alive, id LIMIT $6
                """,
                [
                    .id(volume), .id(directory), .bytes(after.key.bytes), .integer(after.alive),
                    .id(after.id), .integer(Int64(limit)),
                ])
        }
        let sizes = try rows("length(state)", limit + 1)
        var (count, bytes) = (0, 0)
        for row in sizes.prefix(limit) {
            let more = Int(try row.integer(3))
            guard count == 0 || bytes + more <= PastTable.bytesAtOnce else { break }
            (count, bytes) = (count + 1, bytes + more)
        }
        let isAssuming = try position < firstKnown()
        let first = { (column: String, table: String, order: String) in
            """
            (SELECT \(column) FROM \(table) WHERE \(table).volume = items.volume
            AND \(table).item = items.id ORDER BY \(order) LIMIT 1)
            """
        }
        let known =
            isAssuming
            ? first("sequence", "revisions", "sequence") + ", "
                + first("start", "past_places", "stop") : "NULL, NULL"
        var page = PastPage(count: count, bytes: bytes)
        for row in try rows("state, sequence, here, \(known)", count) {
            let item = try transaction.state(
                row.bytes(3), row.id(0), sequence: row.count(4))
            // The root has itself as its parent.
            guard item.id != .root else { continue }
            let start = row.isNull(5) ? item.placedSequence : try row.count(5)
            page.starts[item.id] = start
            page.changes += [start] + [item.trashedAt].compactMap(\.self)
            guard item.isThere(at: position) else { continue }
            let isKnown = start <= position
            if !isKnown {
                let version = row.isNull(6) ? UInt64.max : try row.count(6)
                let place = row.isNull(7) ? UInt64.max : try row.count(7)
                guard version <= position, place > position else { continue }
            }
            page.items.append(
                PastItem(item, named: item.name, isElsewhere: false, isAssumed: !isKnown))
        }
        if count < sizes.count, count > 0 {
            let last = sizes[count - 1]
            page.next = .item(
                key: NameKey(try last.bytes(1)), alive: try last.integer(2), id: try last.id(0))
        } else {
            page.next = .place(stop: 0, item: .root)
        }
        return page
    }

    private func places(
        of directory: Identifier, _ position: UInt64, _ after: (stop: UInt64, item: Identifier),
        _ limit: Int
    ) throws -> PastPage {
        let rows = try transaction.rows(
            """
            SELECT item, stop, start, name FROM past_places
            WHERE volume = $1 AND parent = $2 AND (stop, item) > ($3, $4)
            ORDER BY stop, item LIMIT $5
            """,
            [
                .id(volume), .id(directory), .count(after.stop), .id(after.item),
                .integer(Int64(limit + 1)),
            ])
        var page = PastPage()
        for row in rows.prefix(limit) {
            page.count += 1
            let (id, stop, start) = (try row.id(0), try row.count(1), try row.count(2))
            page.changes += [start, stop]
            guard start <= position, position < stop,
                let item = try transaction.item(id, in: volume)
            else { continue }
            let name = try row.bytes(3)
            page.items.append(
                PastItem(
                    item, named: String(decoding: name, as: UTF8.self),
                    isElsewhere: item.placement.parent != directory
                        || !item.name.utf8.elementsEqual(name),
                    isAssumed: false))
        }
        if rows.count > page.count, let last = rows.prefix(limit).last {
            page.next = .place(stop: try last.count(1), item: try last.id(0))
        }
        return page
    }

    /// At which positions versions of documents that are in a directory were received.
    ///
    /// - Returns: Nil if there are more than `limit`.
    package func versions(in directory: Identifier, upTo limit: Int) throws
        -> [(item: Identifier, position: UInt64)]?
    {
        let rows = try transaction.rows(
            """
            SELECT items.id, revisions.sequence FROM items CROSS JOIN revisions
            WHERE items.volume = $1 AND items.parent = $2
                AND revisions.volume = $1 AND revisions.item = items.id LIMIT $3
            """, [.id(volume), .id(directory), .integer(Int64(limit + 1))])
        return rows.count > limit ? nil : try rows.map { (try $0.id(0), try $0.count(1)) }
    }
}

extension PastItem {
    fileprivate init(_ item: ItemState, named name: String, isElsewhere: Bool, isAssumed: Bool) {
        self.init(
            id: item.id, kind: item.kind, name: name, current: item.current?.id,
            content: item.current?.content,
            isDeleted: !item.life.isAlive, isElsewhere: isElsewhere, isAssumed: isAssumed)
    }
}

extension ItemState {
    /// The position at which it was deleted.
    fileprivate var trashedAt: UInt64? {
        if case .trashed(_, let sequence) = life { sequence } else { nil }
    }

    /// Whether it was not deleted yet.
    fileprivate func isThere(at position: UInt64) -> Bool { position < trashedAt ?? .max }
}
