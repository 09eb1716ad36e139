import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

// Adding versions that were never current.
extension Volume {
    /// Adds the file or package at `source` to a document as an older version. The document's
    /// present contents and `source` stay as they are. The version exists on this device only,
    /// because only current versions are sent to the hub.
    ///
    /// - Parameter isDeleted: Adds it to the document that was deleted last at this path.
    /// - Returns: The id of the version.
    /// - Throws: `.notFound`; `.invalid` if the two are not of the same kind; `.busy` while a
    ///   program writes to `source`; `.full`.
    package func addVersion(
        from source: [Name], at path: [Name], isDeleted: Bool = false, by actor: Actor
    ) throws(VolumeError) -> Identifier {
        if isDeleted {
            try catchUp(withFocus: .deleted(from: Array(path.dropLast())), timeoutSeconds: 5)
        } else {
            try catchUp(with: path, timeoutSeconds: 5)
        }
        let (manifest, snapshot, protection) = try Volume.cutAside(source, in: root)
        return try recorder.perform { recorder, t in
            var item = isDeleted ? try self.deleted(path, t) : try self.existing(path, t)
            guard item.kind == .file || item.kind == .package,
                (item.kind == .package) == manifest.isPackage
            else {
                throw VolumeError(
                    .invalid,
                    "\(source.shown) is not the kind of document that \(path.shown) is.")
            }
            try recorder.store(manifest, from: source, t)
            item.latest += 1
            let version = Version(
                number: item.latest, parents: item.current.map { [$0] } ?? [], kind: .history,
                device: recorder.device.id, deviceName: recorder.device.name,
                person: recorder.device.person(actor.uid), program: actor.program,
                session: actor.session, name: item.name, size: manifest.size,
                modified: snapshot.modified, saved: cl_clock_realtime_ns(),
                content: CutContent(manifest).digest, protection: protection)
            try t.insert(version, of: item.key, manifest: manifest.encoded)
            try t.update(item)
            return version.id
        }
    }

    /// The document that was deleted last at a path, whose directories may be deleted too.
    private func deleted(_ path: [Name], _ reader: Reader) throws -> Item {
        var parents = [Item.root]
        var found: [Item] = []
        for (index, name) in path.enumerated() {
            found = try parents.compactMap { try reader.deletedItem(parent: $0, name: name) }
            guard index < path.count - 1 else { break }
            // A directory with this name may exist again.
            found += try parents.compactMap { try reader.item(parent: $0, name: name) }
            parents = found.map(\.key)
        }
        guard let found = found.max(by: { ($0.deleted ?? 0) < ($1.deleted ?? 0) }) else {
            throw VolumeError(
                .notFound, "No document was deleted at \(path.shown).")
        }
        return found
    }
}

extension Recorder {
    /// Stores the chunks that are not stored yet and notes their places.
    fileprivate func store(_ manifest: Manifest, from source: [Name], _ t: Transaction) throws {
        // Lookups use this transaction.
        snapshot = t
        defer { snapshot = nil }
        var places: [Digest: ChunkPlace] = [:]
        for entry in manifest.entries where entry.kind == .file {
            let path = manifest.isPackage ? source + entry.names : source
            let file: Descriptor
            do throws(Errno) {
                file = try openBeneath(path, from: tree, flags: O_RDONLY | O_NOATIME | O_NONBLOCK)
            } catch {
                throw VolumeError(.busy, "\(path.shown) has changed in the meantime: \(error).")
            }
            let content = FileContent(descriptor: file.raw)
            try store(Set(entry.chunks.map(\.id)), from: content, Int64(entry.size), &places)
        }
        guard try missing(manifest.chunkIDs, places).isEmpty else {
            throw VolumeError(.busy, "\(source.shown) has changed while it was read.")
        }
        if !places.isEmpty { try packs.sync() }
        for (digest, place) in places { try t.setPlace(digest, place) }
    }
}
