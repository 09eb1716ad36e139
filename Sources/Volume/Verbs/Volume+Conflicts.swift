import CLinux
import ChunkStore
import Journal
import Model
import SystemCalls

/// A document with unresolved conflict versions.
package struct ConflictedDocument: Sendable {
    /// From the root.
    package var path: [Name]
    package var history: DocumentHistory
}

/// The versions of a document that are in conflict.
package struct OpenConflict: Hashable, Sendable {
    /// The document's key in the journal.
    package var key: Int64
    package var current: Identifier?
    /// Sorted by id.
    package var others: [Identifier]
}

// Finding and resolving conflict versions.
extension Volume {
    /// The documents with conflict versions at or below a path, sorted by path, without deleted
    /// ones.
    package func conflicts(below path: [Name]) throws(VolumeError) -> [ConflictedDocument] {
        try catchUp(with: path, timeoutSeconds: 5)
        return try journal.read { reader in
            try self.conflicted(below: path, reader).compactMap { found in
                try self.conflictedDocument(found.key, at: found.path, reader)
            }
        }
    }

    private func conflictedDocument(_ key: Int64, at path: [Name], _ reader: Reader) throws
        -> ConflictedDocument?
    {
        try reader.item(key).map {
            ConflictedDocument(path: path, history: try self.history(of: $0, reader))
        }
    }

    /// The open conflicts as the journal has them now, without waiting for the recorder and without
    /// the documents' histories, which are long.
    package func openConflicts() throws(VolumeError) -> [OpenConflict] {
        try journal.read { reader in
            try reader.conflictedItems().compactMap { key in
                try reader.item(key).map {
                    OpenConflict(
                        key: key, current: $0.current, others: try reader.conflicts(of: key))
                }
            }
        }
    }

    /// The document of an open conflict with its history, as the journal has it now.
    package func document(of conflict: OpenConflict) throws(VolumeError) -> ConflictedDocument? {
        try journal.read { reader in
            guard let path = try reader.path(of: conflict.key) else { return nil }
            return try self.conflictedDocument(conflict.key, at: path, reader)
        }
    }

    /// The paths of all documents with conflict versions, sorted, as the journal has them now.
    package func conflictedPaths() throws(VolumeError) -> [[Name]] {
        try journal.read { reader in try self.conflicted(below: [], reader).map(\.path) }
    }

    private func conflicted(below path: [Name], _ reader: Reader) throws -> [(
        key: Int64, path: [Name]
    )] {
        var found: [(key: Int64, path: [Name])] = []
        for key in try reader.conflictedItems() {
            guard let place = try reader.path(of: key), place.starts(with: path) else { continue }
            found.append((key, place))
        }
        return found.sorted { $0.path.lexicographicallyPrecedes($1.path) }
    }

    /// Whether `.conflicts` is listed in directories where it is not empty.
    package var listsConflicts: Bool { recorder.settings.listConflicts }

    /// How many documents have conflict versions.
    package func conflictCount() throws(VolumeError) -> Int {
        try journal.read { try $0.conflictedItems().count }
    }

    /// The names in a directory that have conflict versions, sorted. Does not wait for the
    /// recorder.
    package func conflictedNames(in path: [Name]) throws(VolumeError) -> [Name] {
        try journal.read { reader in
            guard let item = try self.item(at: path, reader) else { return [] }
            return try reader.conflictedNames(in: item.key)
        }
    }

    /// The same, but only names with a conflict version that the user may see.
    package func conflictedNames(in path: [Name], visibleTo user: Requester) throws(VolumeError)
        -> [Name]
    {
        if user.isRoot { return try conflictedNames(in: path) }
        return try journal.read { reader in
            guard let directory = try self.item(at: path, reader) else { return [] }
            return try reader.conflictedNames(in: directory.key).filter { name in
                guard let item = try reader.item(parent: directory.key, name: name) else {
                    return false
                }
                return try self.history(of: item, reader).visible(to: user).versions.contains {
                    $0.kind == .conflict
                }
            }
        }
    }

    /// Resolves conflict versions of a document, here and on all devices: they become history. The
    /// current version stays.
    ///
    /// - Throws: `.notFound`, with nothing done, if one of them is no conflict version of the
    ///   document, for example because another person has resolved it.
    package func settle(_ versions: [Identifier], at path: [Name]) throws(VolumeError) {
        try catchUp(with: path, timeoutSeconds: 5)
        try recorder.perform(isNews: true) { recorder, t in
            let item = try self.existing(path, t)
            let known = try t.versions(of: item.key).filter { $0.kind == .conflict }.map(\.id)
            guard versions.allSatisfy(known.contains) else { throw Volume.settledElsewhere(path) }
            try t.settle(
                versions, of: item.key, before: item.current, after: nil,
                at: cl_clock_realtime_ns())
        }
        tell(.resolved, versions, path)
    }

    /// The versions whose bytes are all on this device.
    package func whole(_ versions: [Identifier]) throws(VolumeError) -> Set<Identifier> {
        try journal.read { reader in Set(try versions.filter { try reader.isWhole($0) }) }
    }

    /// Downloads all bytes of a version.
    ///
    /// - Throws: `.offline`, `.timeout`, `.notFound`, `.damaged`, `.full`.
    package func fetch(_ version: Identifier) throws(VolumeError) {
        let content = try content(of: version)
        guard let key = try journal.read({ try $0.item(ofVersion: version) }) else { return }
        let chunks = Set(content.manifest.entries.flatMap(\.chunks))
        let missing = try journal.read { reader in
            try chunks.filter { try reader.place(of: $0.id) == nil }
        }
        var batch: [Digest: [UInt8]] = [:]
        var size = 0
        for chunk in missing {
            batch[chunk.id] = try bytes(of: chunk, item: key)
            size += Int(chunk.length)
            if size > Volume.batchBytes {
                try keep(batch)
                (batch, size) = ([:], 0)
            }
        }
        if !batch.isEmpty { try keep(batch) }
    }

    private static let batchBytes = 8 << 20

    private func keep(_ chunks: [Digest: [UInt8]]) throws(VolumeError) {
        try recorder.perform { recorder, t in
            var places: [Digest: ChunkPlace] = [:]
            for (id, bytes) in chunks where try t.place(of: id) == nil {
                places[id] = ChunkPlace(
                    try bytes.withUnsafeBytes { try recorder.packs.append(id, $0) })
            }
            try recorder.packs.sync()
            for (id, place) in places { try t.setPlace(id, place) }
        }
    }

    static func settledElsewhere(_ path: [Name]) -> VolumeError {
        VolumeError(
            .notFound,
            "This version of \(path.shown) is no longer in conflict: it was resolved in the "
                + "meantime. `fsctl conflicts` lists the open conflicts.")
    }

    // MARK: Notifications

    /// Sets a callback for conflict versions of a document that were added, resolved or removed. It
    /// is called on any thread.
    package func onVersions(
        _ body: @escaping @Sendable (VersionChange, [Identifier], [Name]) -> Void
    ) {
        recorder.versionsHeard.set(body)
    }

    /// Reports a change of versions that a hub has sent.
    package func tell(_ change: VersionChange, _ versions: [Identifier], _ path: [Name]) {
        recorder.heard(change, versions, path)
    }
}

extension Recorder {
    func heard(_ change: VersionChange, _ versions: [Identifier], _ path: [Name]) {
        guard !versions.isEmpty, let hear = versionsHeard.current else { return }
        hear(change, versions, path)
    }

    /// Reports a change of versions once the transaction is committed.
    func hear(_ change: VersionChange, _ versions: [Identifier], _ path: [Name]) {
        state.versionNews.append((change, versions, path))
    }

    func tellVersionNews() {
        let news = state.versionNews
        state.versionNews = []
        for (change, versions, path) in news { heard(change, versions, path) }
    }
}

extension Reader {
    /// Whether all bytes of a version are on this device: in the tree, or in the chunk store.
    package func isWhole(_ version: Identifier) throws(VolumeError) -> Bool {
        guard let key = try item(ofVersion: version), let item = try item(key) else { return false }
        if item.current == version, item.deleted == nil {
            return try absentVersion(of: key) == nil
        }
        guard let bytes = try manifest(of: version), let manifest = Manifest(encoded: bytes) else {
            return false
        }
        var missing: Set<Digest> = []
        for chunk in manifest.chunkIDs where try place(of: chunk) == nil { missing.insert(chunk) }
        guard !missing.isEmpty else { return true }
        // Chunks that the current version has too are in the tree.
        guard let current = item.current, try absentVersion(of: key) == nil,
            let shown = try self.manifest(of: current).flatMap(Manifest.init(encoded:))
        else { return false }
        return missing.isSubset(of: shown.chunkIDs)
    }
}

extension [Name] {
    /// The path as people write it.
    package var shown: String { map(\.text).joined(separator: "/") }
}

// Undoing a resolution.
extension Volume {
    /// Undoes the last resolution of a document, also one by another device. The resolved versions
    /// are in conflict again, and the version that was current before becomes current again. If the
    /// document was saved since, that former version is in conflict instead.
    ///
    /// - Returns: The numbers of the versions that are in conflict now.
    /// - Throws: `.notFound` if no resolution is known.
    package func undoSettlement(
        at path: [Name], by actor: Actor, visibleTo user: Requester = .root,
        through tree: any Applying
    ) throws(VolumeError) -> [Int] {
        try catchUp(with: path, timeoutSeconds: 5)
        let (item, settlement, versions) = try journal.read { reader in
            let item = try self.existing(path, reader)
            return (
                item, try reader.lastSettlement(of: item.key),
                try self.history(of: item, reader).visible(to: user).versions
            )
        }
        guard let settlement else {
            throw VolumeError(
                .notFound, "\(path.shown) has no resolved conflict that could be undone.")
        }
        var opened = versions.filter { settlement.settled.contains($0.id) }
        if let after = settlement.after, let before = settlement.before,
            let version = versions.first(where: { $0.id == before })
        {
            if item.current == after {
                let content = try content(of: before)
                try replace(
                    Replacement(content.manifest, sources: [before], expected: after, by: actor),
                    at: path, through: tree)
            } else {
                opened.append(version)
            }
        }
        guard !opened.isEmpty else {
            throw VolumeError(
                .notFound, "The resolved versions of \(path.shown) are not kept any more.")
        }
        return try reopen(opened, settlement, at: path)
    }

    /// Adds copies of the versions, because the hub knows that the old ones are resolved.
    private func reopen(_ versions: [Version], _ settlement: Settlement, at path: [Name])
        throws(VolumeError) -> [Int]
    {
        var manifests: [Identifier: Manifest] = [:]
        for version in versions { manifests[version.id] = try content(of: version.id).manifest }
        let encoded = manifests
        let opened = try recorder.perform(isNews: true) { _, t in
            guard var item = try t.item(settlement.item) else { return [Version]() }
            var opened: [Version] = []
            for var version in versions {
                guard let manifest = encoded[version.id] else { continue }
                version.content = Digest.sha256(manifest.contentForm)
                item.latest += 1
                version.parents = [version.id]
                (version.id, version.number) = (.random(), item.latest)
                (version.kind, version.durability) = (.conflict, .disk)
                version.label = nil
                try t.insert(version, of: item.key, manifest: manifest.encoded)
                opened.append(version)
            }
            try t.update(item)
            try t.removeSettlement(settlement.key)
            return opened
        }
        tell(.gained, opened.map(\.id), path)
        return opened.map(\.number)
    }
}
