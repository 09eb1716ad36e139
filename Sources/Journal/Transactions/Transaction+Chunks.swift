import Model

extension Transaction {
    /// Adds a chunk, or sets the new place of a known one.
    package func setPlace(_ chunk: Digest, _ place: ChunkLocation) throws(VolumeError) {
        try run(Change.set, [.digest(chunk)] + place.values)
    }

    /// Removes chunks. Ignores those that are not known.
    package func removeChunks(_ chunks: some Sequence<Digest>) throws(VolumeError) {
        for chunk in chunks { try run(Change.remove, [.digest(chunk)]) }
    }

    /// Like `setPlace`, but only for known chunks: a chunk that was removed in the meantime stays
    /// removed.
    package func movePlaces(_ moves: some Sequence<(Digest, ChunkLocation)>) throws(VolumeError) {
        for (chunk, place) in moves { try run(Change.move, place.values + [.digest(chunk)]) }
    }

    /// - Throws: `.invalid` when the stash already has a file of that name.
    package func insert(_ stashed: StashEntry) throws(VolumeError) {
        try run(Change.stash, stashed.values)
    }

    /// Adds the row, or replaces all fields of the row with that name.
    package func update(_ stashed: StashEntry) throws(VolumeError) {
        try run(Change.restash, stashed.values)
    }

    /// Removes all rows whose name begins with `prefix`, which must end with an ASCII character.
    package func removeStashed(prefix: String) throws(VolumeError) {
        var end = Array(prefix.utf8)
        guard let last = end.popLast() else { return }
        end.append(last + 1)
        try run(
            "DELETE FROM stash WHERE name >= ? AND name < ?",
            [.text(prefix), .text(String(decoding: end, as: UTF8.self))])
    }

    /// Removes the row with that name, if there is one.
    package func removeStashed(_ name: String) throws(VolumeError) {
        try run("DELETE FROM stash WHERE name = ?", [.text(name)])
    }
}

extension ChunkLocation {
    fileprivate var values: [Value] {
        [
            .integer(Int64(pack)), .bits(offset), .integer(Int64(storedLength)),
            .integer(Int64(length)),
        ]
    }
}

private enum Change {
    static let set = "INSERT OR REPLACE INTO chunks VALUES (?, ?, ?, ?, ?)"
    static let remove = "DELETE FROM chunks WHERE digest = ?"
    static let move = """
        UPDATE chunks SET pack = ?, offset = ?, stored_length = ?, length = ? WHERE digest = ?
        """
    static let stash =
        "INSERT INTO stash (\(StashEntry.columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    static let restash =
        "INSERT OR REPLACE INTO stash (\(StashEntry.columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
}
