import HubProtocol
import Model

package struct VolumeRow: Hashable, Sendable {
    package let id: Identifier
    package let account: Identifier
    package let name: String
    package var epoch: Identifier
    package let chunkKey: [UInt8]
    package let nameKey: [UInt8]
    package var head: UInt64
    package var collection: UInt64
    /// The last fencing token that was given in the volume; 0 if there was none.
    package var fence: UInt64 = 0
}

extension LedgerTransaction {
    private static var columns: String {
        "id, account, name, epoch, chunk_key, name_key, head, collection, fence"
    }

    private func volume(_ row: LedgerRow) throws -> VolumeRow {
        VolumeRow(
            id: try row.id(0), account: try row.id(1), name: try row.text(2),
            epoch: try row.id(3), chunkKey: try row.bytes(4), nameKey: try row.bytes(5),
            head: try row.count(6), collection: try row.count(7), fence: try row.count(8))
    }

    package func volumes() throws -> [VolumeRow] {
        try rows("SELECT \(Self.columns) FROM volumes ORDER BY id", []).map(volume)
    }

    /// The volumes that the account owns.
    package func volumes(of account: Identifier) throws -> [VolumeRow] {
        try rows(
            "SELECT \(Self.columns) FROM volumes WHERE account = $1 ORDER BY name", [.id(account)]
        ).map(volume)
    }

    package func volume(_ id: Identifier) throws -> VolumeRow? {
        try row("SELECT \(Self.columns) FROM volumes WHERE id = $1", [.id(id)]).map(volume)
    }

    /// Adds a volume whose account is its owner.
    package func addVolume(_ volume: VolumeRow, at time: Int64) throws {
        try execute(
            """
            INSERT INTO volumes
            (id, account, name, epoch, chunk_key, name_key, head, collection, created)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
            """,
            [
                .id(volume.id), .id(volume.account), .text(volume.name), .id(volume.epoch),
                .bytes(volume.chunkKey), .bytes(volume.nameKey), .count(volume.head),
                .count(volume.collection), .integer(time),
            ])
        try membership.setMember(volume.account, of: volume.id, .owner, at: time)
    }

    package func setHead(of volume: Identifier, _ head: UInt64) throws {
        try execute("UPDATE volumes SET head = $1 WHERE id = $2", [.count(head), .id(volume)])
    }

    /// Begins a new epoch, so that devices no longer rely on what they know of the volume's
    /// journal.
    package func renewEpoch(of volume: Identifier) throws -> Identifier {
        let epoch = Identifier.random()
        try execute("UPDATE volumes SET epoch = $1 WHERE id = $2", [.id(epoch), .id(volume)])
        return epoch
    }

    // MARK: Facts

    package func fact(_ name: String) throws -> Int64? {
        try row("SELECT value FROM facts WHERE name = $1", [.text(name)])?.integer(0)
    }

    package func setFact(_ name: String, _ value: Int64) throws {
        try execute(
            """
            INSERT INTO facts (name, value) VALUES ($1, $2)
            ON CONFLICT (name) DO UPDATE SET value = $2
            """, [.text(name), .integer(value)])
    }

    package func removeFact(_ name: String) throws {
        try execute("DELETE FROM facts WHERE name = $1", [.text(name)])
    }
}
