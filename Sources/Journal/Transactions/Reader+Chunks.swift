import Model

extension Reader {
    package func place(of chunk: Digest) throws(VolumeError) -> ChunkLocation? {
        try first(Select.place, [.digest(chunk)]) { ChunkLocation(columns: $0, from: 0) }
    }

    /// Calls `body` with every chunk, in the order of digests. `body` may write.
    package func forEachChunk(_ body: (Digest, ChunkLocation) throws -> Void) throws {
        try forEachPage(
            Select.page, [], from: .bytes([]), cursor: { .digest($0.id) },
            { (columns) throws(VolumeError) in
                (id: try columns.digest(0), place: ChunkLocation(columns: columns, from: 1))
            },
            { try body($0.id, $0.place) })
    }

    /// The files that wait in the stash, oldest first.
    package func stashed() throws(VolumeError) -> [StashEntry] {
        try all(Select.stashed, [], StashEntry.init(columns:))
    }

    package func stashed(name: String) throws(VolumeError) -> StashEntry? {
        try first(Select.stashedName, [.text(name)], StashEntry.init(columns:))
    }
}

extension ChunkLocation {
    fileprivate init(columns: Columns, from first: Int32) {
        self.init(
            pack: UInt32(truncatingIfNeeded: columns.integer(first)),
            offset: columns.bits(first + 1),
            storedLength: UInt32(truncatingIfNeeded: columns.integer(first + 2)),
            length: UInt32(truncatingIfNeeded: columns.integer(first + 3)))
    }
}

private enum Select {
    static let place = "SELECT pack, offset, stored_length, length FROM chunks WHERE digest = ?"
    static let page = """
        SELECT digest, pack, offset, stored_length, length FROM chunks
        WHERE digest > ? ORDER BY digest LIMIT ?
        """
    static let stashed = "SELECT \(StashEntry.columns) FROM stash ORDER BY recorded, name"
    static let stashedName = "SELECT \(StashEntry.columns) FROM stash WHERE name = ?"
}
