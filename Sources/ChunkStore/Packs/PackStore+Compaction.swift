import Model
import Synchronization

extension PackStore {
    /// Copies the records that are still needed from a pack to the end of the store, syncs, and
    /// returns their new locations. The pack itself stays, so the old locations are valid until
    /// `remove(pack:)`. Before the caller removes the pack, it must commit the new locations, and
    /// it must check that every chunk that it needs is among them: a record that the scan cannot
    /// find because of damage is not copied.
    ///
    /// Throws `.damaged` when a needed record does not have the right bytes, and `.full`.
    package func compact(
        _ pack: UInt32, keeping isNeeded: (Digest, ChunkLocation) -> Bool
    ) throws(VolumeError) -> [(Digest, ChunkLocation)] {
        try writer.withLock { writer throws(VolumeError) in try writer.leave(pack) }
        guard let bytes = directory.size(of: pack) else {
            throw VolumeError(
                .notFound, "There is no pack \(packName(pack)) in \(directory.path) to compact.")
        }
        var needed: [(Digest, ChunkLocation)] = []
        _ = scan(pack, bytes: bytes, checksPayloads: false) { id, location in
            if isNeeded(id, location) { needed.append((id, location)) }
        }
        var moved: [(Digest, ChunkLocation)] = []
        for (id, location) in needed {
            moved.append((id, try copy(id, from: location)))
        }
        try sync()
        return moved
    }

    private func copy(_ id: Digest, from location: ChunkLocation) throws(VolumeError)
        -> ChunkLocation
    {
        let record: Record
        do throws(RecordFault) {
            record = try self.record(of: id, at: location)
            _ = try plain(of: record)
        } catch {
            throw damage(error, id, location)
        }
        return try writer.withLock { writer throws(VolumeError) in try writer.append(record) }
    }

    /// Deletes a pack. A reader that still uses an old location gets `.damaged` and must look up
    /// the new one.
    package func remove(pack: UInt32) throws(VolumeError) {
        try writer.withLock { writer throws(VolumeError) in try writer.leave(pack) }
        try directory.remove(pack)
    }
}
