import HubProtocol
import Model
import Reconcile

/// What has left a shared folder, for the devices of its members. It is kept as long as tombstones
/// are, because a device may ask for it at any time.
struct DepartureTable {
    struct Departure: Hashable, Sendable {
        let sequence: UInt64
        let item: Identifier
        let kind: ItemKind
    }

    let transaction: any LedgerTransaction
    let folder: SharedFolder

    init(_ transaction: any LedgerTransaction, _ folder: SharedFolder) {
        (self.transaction, self.folder) = (transaction, folder)
    }

    func add(_ departure: Departure) throws {
        try transaction.execute(
            """
            INSERT INTO departures (volume, folder, item, sequence, kind)
            VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (volume, folder, item) DO UPDATE SET sequence = $4
            """,
            [
                .id(folder.volume), .id(folder.id), .id(departure.item),
                .count(departure.sequence), .integer(Int64(departure.kind.rawValue)),
            ])
    }

    func remove(_ item: Identifier) throws {
        try transaction.execute(
            "DELETE FROM departures WHERE volume = $1 AND folder = $2 AND item = $3",
            [.id(folder.volume), .id(folder.id), .id(item)])
    }

    func rows(after: UInt64, upTo end: UInt64) throws -> [Departure] {
        try transaction.rows(
            """
            SELECT sequence, item, kind FROM departures
            WHERE volume = $1 AND folder = $2 AND sequence > $3 AND sequence <= $4
            ORDER BY sequence
            """, [.id(folder.volume), .id(folder.id), .count(after), .count(end)]
        ).map {
            Departure(
                sequence: try $0.count(0), item: try $0.id(1),
                kind: ItemKind(rawValue: UInt8(clamping: try $0.integer(2))) ?? .file)
        }
    }
}

/// A directory that came into a shared folder, or left it, and whose contents the folder's members
/// have not been told of yet.
struct Crossing: Hashable, Sendable {
    let directory: Identifier
    let folder: Identifier
    let leaves: Bool
    /// The position of the move.
    let sequence: UInt64
    /// The last item that was looked at, in the order of name keys and ids.
    var key = NameKey([])
    var item = Identifier.root
}

struct CrossingTable {
    let transaction: any LedgerTransaction
    let volume: Identifier

    init(_ transaction: any LedgerTransaction, _ volume: Identifier) {
        (self.transaction, self.volume) = (transaction, volume)
    }

    func set(_ crossing: Crossing) throws {
        try transaction.execute(
            """
            INSERT INTO crossings (volume, directory, folder, leaves, sequence, name_key, item)
            VALUES ($1, $2, $3, $4, $5, $6, $7)
            ON CONFLICT (volume, directory, folder) DO UPDATE
            SET leaves = $4, sequence = $5, name_key = $6, item = $7
            """,
            [
                .id(volume), .id(crossing.directory), .id(crossing.folder),
                .integer(crossing.leaves ? 1 : 0), .count(crossing.sequence),
                .bytes(crossing.key.bytes), .id(crossing.item),
            ])
    }

    func remove(_ crossing: Crossing) throws {
        try transaction.execute(
            "DELETE FROM crossings WHERE volume = $1 AND directory = $2 AND folder = $3",
            [.id(volume), .id(crossing.directory), .id(crossing.folder)])
    }

    private func crossing(_ row: LedgerRow) throws -> Crossing {
        Crossing(
            directory: try row.id(0), folder: try row.id(1), leaves: try row.integer(2) == 1,
            sequence: try row.count(3), key: NameKey(try row.bytes(4)), item: try row.id(5))
    }

    private static let columns =
        "SELECT directory, folder, leaves, sequence, name_key, item FROM crossings"

    func first() throws -> Crossing? {
        try transaction.row("\(Self.columns) WHERE volume = $1 LIMIT 1", [.id(volume)])
            .map(crossing)
    }

    /// The crossings of these directories that are not complete.
    func open(_ directories: [Identifier]) throws -> [Crossing] {
        guard try first() != nil else { return [] }
        return try directories.flatMap { directory in
            try transaction.rows(
                "\(Self.columns) WHERE volume = $1 AND directory = $2",
                [.id(volume), .id(directory)]
            ).map(crossing)
        }
    }

    /// The items in the directory, alive and in the trash, after the last one that was looked at.
    func children(after crossing: Crossing, limit: Int) throws -> [(id: Identifier, key: NameKey)] {
        try transaction.rows(
            """
            SELECT id, name_key FROM items WHERE volume = $1 AND parent = $2
            AND name_key >= $3 AND (name_key > $3 OR id > $4) ORDER BY name_key, id LIMIT $5
            """,
            [
                .id(volume), .id(crossing.directory), .bytes(crossing.key.bytes),
                .id(crossing.item), .integer(Int64(limit)),
            ]
        ).map { (try $0.id(0), NameKey(try $0.bytes(1))) }
    }
}
