import Journal
import Model

/// Undoes resolutions of conflicts.
package struct Settlements: Sendable {
    let history: VersionHistory
    let versions: VersionReader
    let conflicts: ConflictVersions
    let replacer: ContentReplacer
    private var items: ItemLookup { history.items }

    /// Undoes the last resolution of a document, also one by another device. The resolved versions
    /// are in conflict again, and the version that was current before becomes current again. If the
    /// document was saved since, that former version is in conflict instead.
    ///
    /// - Returns: The numbers of the versions that are in conflict now.
    /// - Throws: `.notFound` if no resolution is known.
    package func undoLast(
        at path: [Name], by actor: Actor, visibleTo user: Requester = .root,
        through tree: any Applying
    ) throws(VolumeError) -> [Int] {
        try items.catchUp(with: path, timeoutSeconds: 5)
        let (item, settlement, visible) = try items.journal.read { reader in
            let item = try items.existing(path, reader)
            return (
                item, try reader.lastSettlement(of: item.key),
                try history.history(of: item, reader).visible(to: user).versions
            )
        }
        guard let settlement else {
            throw VolumeError(
                .notFound, "\(path.shown) has no resolved conflict that could be undone.")
        }
        var opened = visible.filter { settlement.settled.contains($0.id) }
        if let after = settlement.after, let before = settlement.before,
            let version = visible.first(where: { $0.id == before })
        {
            if item.current == after {
                let content = try versions.content(of: before)
                try replacer.replace(
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
    private func reopen(_ resolved: [Version], _ settlement: Settlement, at path: [Name])
        throws(VolumeError) -> [Int]
    {
        var manifests: [Identifier: Manifest] = [:]
        for version in resolved {
            manifests[version.id] = try versions.content(of: version.id).manifest
        }
        let encoded = manifests
        let opened = try items.recorder.perform(isNews: true) { _, t in
            guard var item = try t.item(settlement.item) else { return [Version]() }
            var opened: [Version] = []
            for var version in resolved {
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
        conflicts.tell(.gained, opened.map(\.id), path)
        return opened.map(\.number)
    }
}
