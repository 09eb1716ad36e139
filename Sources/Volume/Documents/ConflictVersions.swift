import CLinux
import Journal
import Model

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

/// Finds and resolves the conflict versions of documents, and tells of them.
package struct ConflictVersions: Sendable {
    let history: VersionHistory
    let versions: VersionReader
    private var items: ItemLookup { history.items }
    private var journal: Journal { items.journal }
    private var recorder: Recorder { items.recorder }

    /// The documents with conflict versions at or below a path, sorted by path, without deleted
    /// ones.
    package func list(below path: [Name]) throws(VolumeError) -> [ConflictedDocument] {
        try items.catchUp(with: path, timeoutSeconds: 5)
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
            ConflictedDocument(path: path, history: try history.history(of: $0, reader))
        }
    }

    /// The open conflicts as the journal has them now, without waiting for the recorder and without
    /// the documents' histories, which are long.
    package func open() throws(VolumeError) -> [OpenConflict] {
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
    package func paths() throws(VolumeError) -> [[Name]] {
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

    /// How many documents have conflict versions.
    package func count() throws(VolumeError) -> Int {
        try journal.read { try $0.conflictedItems().count }
    }

    /// The names in a directory that have conflict versions, sorted. Does not wait for the
    /// recorder.
    package func names(in path: [Name]) throws(VolumeError) -> [Name] {
        try journal.read { reader in
            guard let item = try items.item(at: path, reader) else { return [] }
            return try reader.conflictedNames(in: item.key)
        }
    }

    /// The same, but only names with a conflict version that the user may see.
    package func names(in path: [Name], visibleTo user: Requester) throws(VolumeError) -> [Name] {
        if user.isRoot { return try names(in: path) }
        return try journal.read { reader in
            guard let directory = try items.item(at: path, reader) else { return [] }
            return try reader.conflictedNames(in: directory.key).filter { name in
                guard let item = try reader.item(parent: directory.key, name: name) else {
                    return false
                }
                return try history.history(of: item, reader).visible(to: user).versions.contains {
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
        try items.catchUp(with: path, timeoutSeconds: 5)
        try recorder.perform(isNews: true) { recorder, t in
            let item = try items.existing(path, t)
            let known = try t.versions(of: item.key).filter { $0.kind == .conflict }.map(\.id)
            guard versions.allSatisfy(known.contains) else {
                throw ConflictVersions.settledElsewhere(path)
            }
            try t.settle(
                versions, of: item.key, before: item.current, after: nil,
                at: cl_clock_realtime_ns())
        }
        tell(.resolved, versions, path)
    }

    static func settledElsewhere(_ path: [Name]) -> VolumeError {
        VolumeError(
            .notFound,
            "This version of \(path.shown) is no longer in conflict: it was resolved in the "
                + "meantime. `fsctl conflicts` lists the open conflicts.")
    }

    /// Puts an older version of a document in conflict with the current one, so that a person
    /// decides. `base` is the base of a merge of the two.
    ///
    /// - Returns: The conflict version's number.
    package func oppose(_ version: Version, base: Version, at path: [Name], by actor: Actor)
        throws(VolumeError) -> Int
    {
        let manifest = try versions.content(of: version.id).manifest
        let digest = Digest.sha256(manifest.contentForm)
        let opposed = try recorder.perform(isNews: true) { recorder, t in
            var item = try items.existing(path, t)
            if let open = try t.versions(of: item.key).first(where: {
                $0.kind == .conflict && $0.content == digest
            }) {
                return open
            }
            item.latest += 1
            let now = cl_clock_realtime_ns()
            let device = recorder.versionMaker.device
            let opposed = Version(
                number: item.latest, parents: [base.id], kind: .conflict,
                device: device.id, deviceName: device.name, person: device.person(actor.uid),
                program: actor.program,
                session: actor.session,
                name: item.name, size: manifest.size, modified: now, saved: now, content: digest,
                protection: try items.protection(of: item, t).now)
            try t.insert(opposed, of: item.key, manifest: manifest.encoded)
            try t.update(item)
            try ManualMergeVersions.add([opposed.id], t)
            return opposed
        }
        tell(.gained, [opposed.id], path)
        return opposed.number
    }

    /// Conflict versions that are merged only when a person asks for it.
    package func manualMergeVersions() throws(VolumeError) -> Set<Identifier> {
        try journal.read { reader in try ManualMergeVersions.all(reader) }
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
