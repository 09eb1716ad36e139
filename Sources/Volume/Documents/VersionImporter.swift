import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// Adds versions that were never current.
package struct VersionImporter: Sendable {
    let items: ItemLookup

    /// Adds the file or package at `source` to a document as an older version. The document's
    /// present contents and `source` stay as they are. The version exists on this device only,
    /// because only current versions are sent to the hub.
    ///
    /// - Parameters:
    ///   - isDeleted: Adds it to the document that was deleted last at this path.
    ///   - base: The contents that the document's present contents were made from, by a program
    ///     that has replaced `source` without having seen it. The version is then in conflict, as
    ///     that of a replaced file would be, and is sent to the hub.
    /// - Returns: The id of the version; with `base`, of one with these contents that the program
    ///   had seen, or that is in conflict already.
    /// - Throws: `.notFound`; `.invalid` if the two are not of the same kind; `.busy` while a
    ///   program writes to `source`; `.full`.
    package func addVersion(
        from source: [Name], at path: [Name], isDeleted: Bool = false,
        unseenBy base: NamedBase? = nil,
        by actor: Actor
    ) throws(VolumeError) -> Identifier {
        if isDeleted {
            try items.catchUp(withFocus: .deleted(from: Array(path.dropLast())), timeoutSeconds: 5)
        } else {
            try items.catchUp(with: path, timeoutSeconds: 5)
        }
        let (manifest, snapshot, protection) = try PackageBuilder.cutAside(source, in: items.tree)
        return try items.recorder.perform(isNews: base != nil) { recorder, t in
            var item = isDeleted ? try self.deleted(path, t) : try items.existing(path, t)
            guard item.kind == .file || item.kind == .package,
                (item.kind == .package) == manifest.isPackage
            else {
                throw VolumeError(
                    .invalid,
                    "\(source.shown) is not the kind of document that \(path.shown) is.")
            }
            let device = recorder.versionMaker.device
            var version = Version(
                number: item.latest + 1, parents: item.current.map { [$0] } ?? [], kind: .history,
                device: device.id, deviceName: device.name, person: device.person(actor.uid),
                program: actor.program,
                session: actor.session, name: item.name, size: manifest.size,
                modified: snapshot.modified, saved: cl_clock_realtime_ns(),
                content: CutContent(manifest).digest, protection: protection)
            if let base {
                let known = try t.versions(of: item.key)
                if let seen = known.seen(version.content, current: item.current, base) {
                    return seen.id
                }
                version.becomeConflict(madeBeside: base, known)
                recorder.hear(.gained, [version.id], path)
            }
            try recorder.store(manifest, from: source, t)
            item.latest += 1
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

extension [Version] {
    /// The version with these contents, if they need not become a conflict version: a program that
    /// saved from `base` knew them or has saved the same, or they are in conflict already.
    fileprivate func seen(_ content: Digest, current: Identifier?, _ base: NamedBase) -> Version? {
        last { version in
            version.content == content
                && (version.id == current || version.kind == .conflict
                    || base.isThat(of: version))
        }
    }
}

extension Version {
    /// Makes this a conflict version beside a save that was made from `base`. If no version is
    /// that, an older one is named: what both sides have in common then counts as an equal change
    /// of both, while a newer one would make a merge undo changes.
    fileprivate mutating func becomeConflict(madeBeside base: NamedBase, _ known: [Version]) {
        let parent =
            known.last { base.isThat(of: $0) }
            ?? known.last { $0.kind != .conflict && $0.modified <= base.modified }
            ?? known.first
        kind = .conflict
        parents = parent.map { [$0.id] } ?? []
        if let recorded = known.last(where: { $0.content == content }) {
            (device, deviceName) = (recorded.device, recorded.deviceName)
            (person, program) = (recorded.person, recorded.program)
            (session, saved) = (recorded.session, recorded.saved)
        } else {
            (person, program, session) = ("", "", nil)
        }
    }
}

extension Recorder {
    /// Stores the chunks that are not stored yet and notes their places.
    fileprivate func store(_ manifest: Manifest, from source: [Name], _ t: Transaction) throws {
        var places: [Digest: ChunkLocation] = [:]
        try writer.looking(at: t) { () throws(VolumeError) in
            try store(manifest, from: source, &places)
        }
        for (digest, place) in places { try t.setPlace(digest, place) }
    }

    private func store(
        _ manifest: Manifest, from source: [Name], _ places: inout [Digest: ChunkLocation]
    ) throws(VolumeError) {
        for entry in manifest.entries where entry.kind == .file {
            let path = manifest.isPackage ? source + entry.names : source
            let file: Descriptor
            do throws(Errno) {
                file = try openBeneath(path, from: tree, flags: O_RDONLY | O_NOATIME | O_NONBLOCK)
            } catch {
                throw VolumeError(.busy, "\(path.shown) has changed in the meantime: \(error).")
            }
            let content = FileContent(descriptor: file.raw)
            try chunks.store(Set(entry.chunks.map(\.id)), from: content, Int64(entry.size), &places)
        }
        guard try chunks.missing(manifest.chunkIDs, places).isEmpty else {
            throw VolumeError(.busy, "\(source.shown) has changed while it was read.")
        }
        if !places.isEmpty { try packs.sync() }
    }
}
