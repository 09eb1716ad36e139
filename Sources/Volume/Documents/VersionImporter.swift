import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// Adds versions that were never current.
package struct VersionImporter: Sendable {
    let items: ItemLookup

    /// What added contents are to the present contents of a document.
    package enum Relation: Sendable {
        /// They are older. The version exists on this device only, because only what was current
        /// or in conflict is sent to the hub.
        case older
        /// The present contents were made from `base`, by a program that has replaced the added
        /// ones without having seen them. They are in conflict, as those of a replaced file are.
        case unseen(base: NamedBase)
        /// They are in conflict, and nobody knows what they and the present ones were made from.
        case conflict
    }

    /// Adds the file or package at `source` to a document as a version. The document's present
    /// contents and `source` stay as they are.
    ///
    /// - Parameters:
    ///   - isDeleted: Adds it to the document that was deleted last at this path.
    ///   - saved: When it was saved, in nanoseconds since 1970; now if that is nil or later.
    /// - Returns: The id of the version; if it would be in conflict, of one with these contents
    ///   that the program had seen, that is current, or that is in conflict already.
    /// - Throws: `.notFound`; `.invalid` if the two are not of the same kind; `.busy` while a
    ///   program writes to `source`; `.full`.
    package func addVersion(
        from source: [Name], at path: [Name], isDeleted: Bool = false,
        as relation: Relation = .older, saved: Int64? = nil, by actor: Actor
    ) throws(VolumeError) -> Identifier {
        if isDeleted {
            try items.catchUp(withFocus: .deleted(from: Array(path.dropLast())), timeoutSeconds: 5)
        } else {
            try items.catchUp(with: path, timeoutSeconds: 5)
        }
        let (manifest, snapshot, protection) = try PackageBuilder.cutAside(source, in: items.tree)
        return try items.recorder.perform(isNews: relation.isConflict) { recorder, t in
            var item = isDeleted ? try self.deleted(path, t) : try items.existing(path, t)
            guard item.kind == .file || item.kind == .package,
                (item.kind == .package) == manifest.isPackage
            else {
                throw VolumeError(
                    .invalid,
                    "\(source.shown) is not the kind of document that \(path.shown) is.")
            }
            let device = recorder.versionMaker.device
            let now = cl_clock_realtime_ns()
            // What was saved at an earlier time was not made from the present contents.
            let parents = saved == nil ? [item.current].compactMap(\.self) : []
            var version = Version(
                number: item.latest + 1, parents: parents, kind: .history,
                device: device.id, deviceName: device.name, person: device.person(actor.uid),
                program: actor.program,
                session: actor.session, name: item.name, size: manifest.size,
                modified: snapshot.modified, saved: min(saved ?? now, now),
                content: CutContent(manifest).digest, protection: protection)
            if relation.isConflict {
                let known = try t.versions(of: item.key)
                if let seen = known.seen(version.content, current: item.current, relation) {
                    return seen.id
                }
                version.becomeConflict(relation, known, current: item.current)
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

extension VersionImporter.Relation {
    fileprivate var isConflict: Bool { if case .older = self { false } else { true } }

    fileprivate var base: NamedBase? { if case .unseen(let base) = self { base } else { nil } }
}

extension [Version] {
    /// The version with these contents, if they need not become a conflict version: a program that
    /// saved from the base knew them or has saved the same, or they are in conflict already.
    fileprivate func seen(
        _ content: Digest, current: Identifier?, _ relation: VersionImporter.Relation
    ) -> Version? {
        last { version in
            version.content == content
                && (version.id == current || version.kind == .conflict
                    || relation.base?.isThat(of: version) ?? false)
        }
    }
}

extension Version {
    /// Makes this a conflict version beside the current one, which is never its parent: then the
    /// hub would take it for a newer version.
    ///
    /// If no version is the base, an older one is named: what both sides have in common then
    /// counts as an equal change of both, while a newer one would make a merge undo changes.
    fileprivate mutating func becomeConflict(
        _ relation: VersionImporter.Relation, _ known: [Version], current: Identifier?
    ) {
        kind = .conflict
        parents = []
        guard let base = relation.base else { return }
        let others = known.filter { $0.id != current }
        let parent =
            others.last { base.isThat(of: $0) }
            ?? others.last { $0.kind != .conflict && $0.modified <= base.modified }
            ?? others.first
        if let parent { parents = [parent.id] }
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
