import Model
import Synchronization

extension PackStore {
    /// Copies the records of a pack that are still needed to the end of the store, syncs, and gives
    /// their new places. The pack stays, so the old places hold as well until `remove(pack:)`; the
    /// caller first commits the new ones, and first makes sure that none of its chunks is missing
    /// among them: what the scan cannot find for damage is not copied.
    ///
    /// Throws `.damaged` when a record that is needed does not give its bytes, and `.full`.
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

    /// Deletes a pack. A reader that still has an old place gets `.damaged`, and looks up the new
    /// one.
    package func remove(pack: UInt32) throws(VolumeError) {
        try writer.withLock { writer throws(VolumeError) in try writer.leave(pack) }
        try directory.remove(pack)
    }
}
