import Model

extension Transaction {
    /// Adds a chunk, or moves one that is known.
    package func setPlace(_ chunk: Digest, _ place: ChunkPlace) throws(VolumeError) {
        try run(Change.set, [.digest(chunk)] + place.values)
    }

    /// Those not known are passed over.
    package func removeChunks(_ chunks: some Sequence<Digest>) throws(VolumeError) {
        for chunk in chunks { try run(Change.remove, [.digest(chunk)]) }
    }

    /// Like `setPlace` for known chunks; one that has been removed meanwhile stays removed.
    package func movePlaces(_ moves: some Sequence<(Digest, ChunkPlace)>) throws(VolumeError) {
        for (chunk, place) in moves { try run(Change.move, place.values + [.digest(chunk)]) }
    }

    /// - Throws: `.invalid` when the stash has that name already.
    package func insert(_ stashed: Stashed) throws(VolumeError) {
        try run(Change.stash, stashed.values)
    }

    /// Adds it, or writes all fields of the one with that name.
    package func update(_ stashed: Stashed) throws(VolumeError) {
        try run(Change.restash, stashed.values)
    }

    /// All whose name begins so; it ends in an ASCII character.
    package func removeStashed(prefix: String) throws(VolumeError) {
        var end = Array(prefix.utf8)
        guard let last = end.popLast() else { return }
        end.append(last + 1)
        try run(
            "DELETE FROM stash WHERE name >= ? AND name < ?",
            [.text(prefix), .text(String(decoding: end, as: UTF8.self))])
    }

    /// Nothing happens when it is not there.
    package func removeStashed(_ name: String) throws(VolumeError) {
        try run("DELETE FROM stash WHERE name = ?", [.text(name)])
    }
}

extension ChunkPlace {
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
    static let stash = "INSERT INTO stash (\(Stashed.columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    static let restash =
        "INSERT OR REPLACE INTO stash (\(Stashed.columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
}
