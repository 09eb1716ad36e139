import HubProtocol
import Model

// A run is a time in which the ledger cannot have been rolled back: the lifetime of one hub process
// with SQLite, or of the server with PostgreSQL. The ledger records which run wrote which part of a
// volume's journal, and a device keeps the run of its cursor. After a rollback another run
// continues the ledger, so a position that the device read before the rollback does not match, even
// if the journal has grown past it.
extension LedgerTransaction {
    /// Returns the run that wrote the journal's entry at this position; nil for entries before the
    /// first recorded run.
    package func run(at position: UInt64, in volume: Identifier) throws -> Identifier? {
        try row(
            """
            SELECT run FROM runs WHERE volume = $1 AND start < $2 ORDER BY start DESC LIMIT 1
            """, [.id(volume), .count(position)])?.id(0)
    }

    /// Records that the present run wrote the entries after `start` up to `head`.
    package func noteRun(of volume: Identifier, after start: UInt64, upTo head: UInt64) throws {
        guard head > start, try self.run(at: head, in: volume) != run else { return }
        try execute(
            "INSERT INTO runs (volume, start, run) VALUES ($1, $2, $3)",
            [.id(volume), .count(start), .id(run)])
    }

    /// Returns whether a device's position belongs to the present journal.
    ///
    /// - Parameter run: The run of the position; nil if the device does not know it.
    package func has(_ position: UInt64, run: Identifier?, in volume: VolumeRow) throws -> Bool {
        if PlantedFault.trustsRestoredHub.isPlanted { return true }
        guard position <= volume.head else { return false }
        guard let run else { return true }
        return try self.run(at: position, in: volume.id) == run
    }
}
