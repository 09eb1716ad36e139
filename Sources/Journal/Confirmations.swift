import Model

// Which hub has confirmed a version. A confirmation counts only while the volume is signed in to
// the hub that gave it, and while that hub is the one it was then: by the volume's id there and by
// its epoch, both of which are random.
extension Reader {
    /// Whether the volume belongs to a hub, so that a confirmation can count.
    package func hasWitness() throws(VolumeError) -> Bool {
        try first("SELECT EXISTS (SELECT 1 FROM witnesses WHERE is_current = 1)", []) {
            $0.integer(0) == 1
        } ?? false
    }

    /// Versions that some hub has confirmed and the present one has not, in the order of their
    /// keys, behind one of them.
    package func unconfirmedVersions(after key: Int64, limit: Int) throws(VolumeError) -> [(
        key: Int64, id: Identifier
    )] {
        try all(
            """
            SELECT key, id FROM versions
            WHERE durability = 3 AND key > ? AND NOT \(Version.isConfirmed)
            ORDER BY key LIMIT ?
            """, [.integer(key), .integer(Int64(limit))]
        ) { (columns) throws(VolumeError) in
            (key: columns.integer(0), id: try columns.identifier(1))
        }
    }
}

extension Transaction {
    /// The hub's volume, in its present epoch, whose confirmations count from now on.
    package func setWitness(volume: Identifier, epoch: Identifier) throws(VolumeError) {
        let values: [Value] = [.identifier(volume), .identifier(epoch)]
        let isKnown = try first(
            """
            SELECT EXISTS
                (SELECT 1 FROM witnesses WHERE is_current = 1 AND volume = ? AND epoch = ?)
            """, values
        ) { $0.integer(0) == 1 }
        if isKnown == true { return }
        try removeWitness()
        try run(
            """
            INSERT INTO witnesses (volume, epoch, is_current) VALUES (?, ?, 1)
            ON CONFLICT (volume, epoch) DO UPDATE SET is_current = 1
            """, values)
    }

    /// The volume belongs to no hub: no confirmation counts.
    package func removeWitness() throws(VolumeError) {
        try run("UPDATE witnesses SET is_current = 0 WHERE is_current = 1", [])
    }

    /// The present hub has the version.
    package func addConfirmation(_ version: Identifier) throws(VolumeError) {
        try run(
            """
            INSERT OR REPLACE INTO confirmations (version, witness)
            SELECT ?, key FROM witnesses WHERE is_current = 1
            """, [.identifier(version)])
    }

    func removeConfirmation(_ version: Identifier) throws(VolumeError) {
        try run("DELETE FROM confirmations WHERE version = ?", [.identifier(version)])
    }
}
