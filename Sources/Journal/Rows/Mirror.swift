import Model

/// The mirror of an item at the hub: the last state that this device and the hub agreed on, and
/// what the hub has sent since. Both are encoded by the module Reconcile.
package struct MirrorRow: Hashable, Sendable {
    package var id: Identifier
    /// Nil when this device has not sent the item to the hub yet.
    package var base: [UInt8]?
    /// Nil when the hub has sent nothing newer than `base`.
    package var remote: [UInt8]?
    package var state: State
    /// The lowest sequence number of the hub's journal that `remote` contains and the tree does not
    /// show yet; 0 without `remote`.
    package var sequence: UInt64
    /// The item's directory and name according to `base`. It is equal for two items that cannot
    /// exist together in one directory. Nil when the item has no place.
    package var place: [UInt8]?

    package enum State: UInt8, Sendable {
        case settled = 0
        /// `remote` has still to be applied to the tree.
        case due = 1
        /// `remote` is being applied to the tree. What the tree shows in the meantime is not an
        /// edit.
        case underway = 2
        /// `remote` cannot be applied to the tree until something changes on this device.
        case stuck = 3
        /// The hub refused the operation that this device sent.
        case refused = 4
    }

    package init(
        id: Identifier, base: [UInt8]? = nil, remote: [UInt8]? = nil, state: State = .settled,
        sequence: UInt64 = 0, place: [UInt8]? = nil
    ) {
        self.id = id
        self.base = base
        self.remote = remote
        self.state = state
        self.sequence = sequence
        self.place = place
    }
}

/// An operation that has a number and that the hub has not confirmed yet.
package struct OutboxRow: Hashable, Sendable {
    package var number: UInt64
    package var item: Identifier
    package var operation: [UInt8]

    package init(number: UInt64, item: Identifier, operation: [UInt8]) {
        self.number = number
        self.item = item
        self.operation = operation
    }
}

extension HubTables {
    package func mirror(_ id: Identifier) throws(VolumeError) -> MirrorRow? {
        try reader.first(
            "SELECT id, base, remote, state, sequence, place FROM mirror WHERE id = ?",
            [.identifier(id)], MirrorRow.init(columns:))
    }

    package func mirrors(at place: [UInt8]) throws(VolumeError) -> [Identifier] {
        try reader.all("SELECT id FROM mirror WHERE place = ? ORDER BY id", [.bytes(place)]) {
            (columns) throws(VolumeError) in try columns.identifier(0)
        }
    }

    /// A position in a listing of the mirror.
    package struct Position: Hashable, Sendable {
        package var sequence: UInt64
        package var id: Identifier
    }

    /// Items in a state, in the order in which the hub sent them, beginning after `position`.
    package func mirrors(
        _ state: MirrorRow.State, after position: Position? = nil, limit: Int
    ) throws(VolumeError) -> [Position] {
        try reader.all(
            """
            SELECT sequence, id FROM mirror
            WHERE state = ? AND state <> 0 AND (sequence, id) > (?, ?)
            ORDER BY sequence, id LIMIT ?
            """,
            [
                .code(state.rawValue), position.map { .number($0.sequence) } ?? .integer(-1),
                .bytes(position?.id.bytes ?? []), .integer(Int64(limit)),
            ]
        ) { (columns) throws(VolumeError) in
            Position(sequence: columns.number(0), id: try columns.identifier(1))
        }
    }

    /// The lowest sequence number among the items in a state.
    package func firstMirror(_ state: MirrorRow.State) throws(VolumeError) -> UInt64? {
        try reader.first(
            """
            SELECT sequence FROM mirror WHERE state = ? AND state <> 0
            ORDER BY sequence LIMIT 1
            """, [.code(state.rawValue)]
        ) { $0.number(0) }
    }

    package func mirrorCount(_ state: MirrorRow.State) throws(VolumeError) -> Int {
        let sql = "SELECT count(*) FROM mirror WHERE state = ? AND state <> 0"
        return try reader.first(sql, [.code(state.rawValue)]) { Int($0.integer(0)) } ?? 0
    }

    /// Ids of all items that both the hub and this device know, in ascending order, beginning after
    /// `id`.
    package func mirrorIDs(after id: Identifier, limit: Int) throws(VolumeError) -> [Identifier] {
        try reader.all(
            "SELECT id FROM mirror WHERE id > ? ORDER BY id LIMIT ?",
            [.identifier(id), .integer(Int64(limit))]
        ) { (columns) throws(VolumeError) in try columns.identifier(0) }
    }

    package func mirrorCount() throws(VolumeError) -> Int {
        try reader.first("SELECT count(*) FROM mirror", []) { Int($0.integer(0)) } ?? 0
    }

    /// Operations in the order of their numbers, beginning after `number`.
    package func outbox(limit: Int, after number: UInt64 = 0) throws(VolumeError) -> [OutboxRow] {
        try reader.all(
            """
            SELECT number, item, operation FROM outbox WHERE number > ? ORDER BY number LIMIT ?
            """,
            [.number(number), .integer(Int64(limit))]
        ) { (columns) throws(VolumeError) in
            OutboxRow(
                number: columns.number(0), item: try columns.identifier(1),
                operation: columns.bytes(2))
        }
    }

    package func outboxCount() throws(VolumeError) -> Int {
        try reader.first("SELECT count(*) FROM outbox", []) { Int($0.integer(0)) } ?? 0
    }

    /// The operations of an item that the hub has not confirmed, in their order.
    package func outbox(of item: Identifier) throws(VolumeError) -> [[UInt8]] {
        try reader.all(
            "SELECT operation FROM outbox WHERE item = ? ORDER BY number", [.identifier(item)]
        ) { $0.bytes(0) }
    }

    package func isInOutbox(_ item: Identifier) throws(VolumeError) -> Bool {
        try reader.first("SELECT EXISTS (SELECT 1 FROM outbox WHERE item = ?)", [.identifier(item)])
        {
            $0.integer(0) == 1
        } ?? false
    }

    /// Keys of items that have changed since they were last compared for the hub, in ascending
    /// order, beginning after `key`.
    package func unsent(after key: Int64, limit: Int) throws(VolumeError) -> [Int64] {
        try reader.all(
            "SELECT item FROM unsent WHERE item > ? ORDER BY item LIMIT ?",
            [.integer(key), .integer(Int64(limit))]
        ) { $0.integer(0) }
    }

    package func isUnsent(_ key: Int64) throws(VolumeError) -> Bool {
        try reader.first("SELECT EXISTS (SELECT 1 FROM unsent WHERE item = ?)", [.integer(key)]) {
            $0.integer(0) == 1
        } ?? false
    }

    /// When an unsent item was put at its present place, and when its attributes were last changed:
    /// nanoseconds since 1970, nil when unknown.
    package func unsentTimes(_ key: Int64) throws(VolumeError) -> (
        placed: Int64?, attributed: Int64?
    ) {
        try reader.first("SELECT placed, attributed FROM unsent WHERE item = ?", [.integer(key)]) {
            ($0.isNull(0) ? nil : $0.integer(0), $0.isNull(1) ? nil : $0.integer(1))
        } ?? (nil, nil)
    }

    package func unsentCount() throws(VolumeError) -> Int {
        try reader.first("SELECT count(*) FROM unsent", []) { Int($0.integer(0)) } ?? 0
    }

    /// The items with changes that the hub has not confirmed, and those of them that were deleted.
    /// What was created and deleted again before any hub knew of it is no change.
    package func unconfirmedItems() throws(VolumeError) -> (all: Int, deleted: Int) {
        let sql = """
            SELECT count(*), count(deleted) FROM items WHERE id IN (
                SELECT items.id FROM unsent JOIN items ON items.key = unsent.item
                WHERE deleted IS NULL OR EXISTS (SELECT 1 FROM mirror WHERE mirror.id = items.id)
                UNION SELECT item FROM outbox)
            """
        return try reader.first(sql, []) { (Int($0.integer(0)), Int($0.integer(1))) } ?? (0, 0)
    }
}

extension Transaction {
    package func set(_ row: MirrorRow) throws(VolumeError) {
        try run(
            """
            INSERT INTO mirror (id, base, remote, state, sequence, place)
            VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT (id) DO UPDATE SET base = excluded.base, remote = excluded.remote,
            state = excluded.state, sequence = excluded.sequence, place = excluded.place
            """,
            [
                .identifier(row.id), row.base.map { .bytes($0) } ?? .null,
                row.remote.map { .bytes($0) } ?? .null, .code(row.state.rawValue),
                .number(row.sequence), row.place.map { .bytes($0) } ?? .null,
            ])
    }

    package func removeMirror(_ id: Identifier) throws(VolumeError) {
        try run("DELETE FROM mirror WHERE id = ?", [.identifier(id)])
    }

    /// Forgets the hub, except for what was agreed on with it.
    package func leaveHub() throws(VolumeError) {
        for table in HubTables.forgotten { try run("DELETE FROM \(table)", []) }
        try run("DELETE FROM mirror WHERE base IS NULL", [])
        try run("UPDATE mirror SET remote = NULL, state = 0, sequence = 0", [])
    }

    /// Forgets what was agreed on about items that are not here any more.
    package func forgetAgreementsOnMissingItems() throws(VolumeError) {
        try run(
            "DELETE FROM mirror WHERE id NOT IN (SELECT id FROM items WHERE deleted IS NULL)", [])
    }

    package func append(_ row: OutboxRow) throws(VolumeError) {
        try run(
            "INSERT INTO outbox (number, item, operation) VALUES (?, ?, ?)",
            [.number(row.number), .identifier(row.item), .bytes(row.operation)])
    }

    /// Replaces the operation with that number. It must never have been applied.
    package func replace(_ row: OutboxRow) throws(VolumeError) {
        try run(
            "UPDATE outbox SET operation = ? WHERE number = ?",
            [.bytes(row.operation), .number(row.number)])
    }

    package func emptyOutbox() throws(VolumeError) {
        for table in ["outbox", "fences"] { try run("DELETE FROM \(table)", []) }
    }

    package func removeOutbox(upTo number: UInt64) throws(VolumeError) {
        try run("DELETE FROM outbox WHERE number <= ?", [.number(number)])
    }

    /// Assigns the operations of an item to another id. The operations themselves stay as they were
    /// sent.
    package func reassignOutbox(_ id: Identifier, to other: Identifier) throws(VolumeError) {
        try run(
            "UPDATE outbox SET item = ? WHERE item = ?", [.identifier(other), .identifier(id)])
    }

    package func addUnsent(_ key: Int64) throws(VolumeError) {
        try run("INSERT OR IGNORE INTO unsent (item) VALUES (?)", [.integer(key)])
    }

    package func removeUnsent(_ key: Int64) throws(VolumeError) {
        try run("DELETE FROM unsent WHERE item = ?", [.integer(key)])
    }
}

extension MirrorRow {
    fileprivate init(columns: Columns) throws(VolumeError) {
        self.init(
            id: try columns.identifier(0), base: columns.isNull(1) ? nil : columns.bytes(1),
            remote: columns.isNull(2) ? nil : columns.bytes(2), state: try columns.code(3),
            sequence: columns.number(4), place: columns.isNull(5) ? nil : columns.bytes(5))
    }
}
