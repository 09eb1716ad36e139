import Model

// The protections that directories have had.
extension Transaction {
    /// Adds a period to those of a directory, unless the directory is protected so already. If
    /// there are too many, the oldest ones become one in which only the owner was admitted.
    ///
    /// - Parameter former: The mode before, for a directory whose former protection is unknown.
    package func setProtection(
        ofDirectory key: Int64, _ protection: Protection, since time: Int64, former: UInt16 = 0
    ) throws(VolumeError) {
        let known = try periods(of: key)
        guard known.last?.protection != protection else { return }
        if known.isEmpty, former != 0, former != protection.mode {
            var before = protection
            before.mode = former
            try insert(key, .min, before)
        }
        // Events come in their order, and a scan comes after them.
        try insert(key, max(time, known.last.map { $0.since + 1 } ?? .min), protection)
        guard known.count >= DirectoryOwners.most else { return }
        try run(
            "DELETE FROM directory_owners WHERE item = ? AND since = ?",
            [.integer(key), .integer(known[0].since)])
        try insert(key, known[1].since, known[1].protection.ownerOnly)
    }

    private func insert(_ key: Int64, _ time: Int64, _ protection: Protection) throws(VolumeError) {
        try run(
            """
            INSERT OR REPLACE INTO directory_owners
            (item, since, owner, owner_group, permissions, access_list) VALUES (?, ?, ?, ?, ?, ?)
            """,
            [
                .integer(key), .integer(time), .integer(Int64(protection.owner)),
                .integer(Int64(protection.group)), .integer(Int64(protection.mode)),
                .bytes(protection.accessList),
            ])
    }
}

private enum DirectoryOwners {
    /// How many periods of a directory are kept.
    static let most = 64
}

extension Reader {
    /// How a directory and those above it were protected.
    package func protections(ofDirectory key: Int64) throws(VolumeError) -> DirectoryProtections {
        var directories: [[DirectoryProtections.Period]] = []
        var seen: Set<Int64> = []
        var next = key
        while next != 0, seen.insert(next).inserted {
            directories.append(try periods(of: next))
            next =
                try first("SELECT parent FROM items WHERE key = ?", [.integer(next)]) {
                    $0.integer(0)
                } ?? 0
        }
        return DirectoryProtections(directories)
    }

    fileprivate func periods(of key: Int64) throws(VolumeError) -> [DirectoryProtections.Period] {
        try all(
            """
            SELECT since, owner, owner_group, permissions, access_list FROM directory_owners
            WHERE item = ? ORDER BY since
            """, [.integer(key)]
        ) { columns in
            Protection(columns: columns, from: 1).map {
                DirectoryProtections.Period(since: columns.integer(0), protection: $0)
            }
        }.compactMap(\.self)
    }
}
