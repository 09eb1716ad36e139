import HubProtocol
import Model

// A run is the life of one hub process. The ledger notes which run wrote which part of a volume's
// journal, and a device keeps the run of its cursor. A ledger that was rolled back goes on in
// another run, so the same position is then one of another history, however far it has grown.
extension LedgerTransaction {
    /// The run that wrote the journal's entry at this position; nil before the first that was
    /// noted.
    package func run(at position: UInt64, in volume: Identifier) throws -> Identifier? {
        try row(
            """
            SELECT run FROM runs WHERE volume = $1 AND start < $2 ORDER BY start DESC LIMIT 1
            """, [.id(volume), .count(position)])?.id(0)
    }

    /// Notes that the entries behind `start` are of this run, as far as `head`.
    package func note(
        run: Identifier, of volume: Identifier, after start: UInt64, upTo head: UInt64
    ) throws {
        guard head > start, try self.run(at: head, in: volume) != run else { return }
        try execute(
            "INSERT INTO runs (volume, start, run) VALUES ($1, $2, $3)",
            [.id(volume), .count(start), .id(run)])
    }

    /// Whether a device's position is one of this very journal.
    ///
    /// - Parameter run: Of the position; nil where the device was told none.
    package func has(_ position: UInt64, run: Identifier?, in volume: VolumeRow) throws -> Bool {
        guard position <= volume.head else { return false }
        guard let run else { return true }
        return try self.run(at: position, in: volume.id) == run
    }
}
