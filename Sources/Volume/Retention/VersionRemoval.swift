import Journal
import Model

/// Removes versions that nothing needs, and says why others must stay. Only the recorder's thread
/// uses it.
struct VersionRemoval {
    let writer: JournalWriter
    let sweeper: PackSweeper

    /// A version that may be removed, and since when its document has not shown it.
    struct Candidate {
        var item: Int64
        var version: Identifier
        var time: Int64
    }

    /// Versions by document, and the bytes in the packs that only they use.
    struct Choice {
        var versions: [Int64: [Identifier]] = [:]
        var bytes: Int64 = 0
    }

    /// Chooses the oldest versions until `bytes` are freed; all if `bytes` is nil.
    func chooseVersions(
        _ bytes: Int64?, among candidates: (Reader) throws -> [Candidate]
    ) throws(VolumeError) -> Choice {
        try writer.journal.read { reader in
            var stored = try self.usedChunks(reader)
            var choice = Choice()
            if bytes != nil, stored.isEmpty { return choice }
            for chunk in stored.values where chunk.uses == 0 { choice.bytes += chunk.bytes }
            for candidate in try candidates(reader).sorted(by: { $0.time < $1.time })
            where choice.bytes < bytes ?? .max {
                choice.bytes += try stored.release(candidate.version, reader)
                choice.versions[candidate.item, default: []].append(candidate.version)
            }
            return choice
        }
    }

    /// The chunks in the packs with their sizes and the number of versions that use them.
    func usedChunks(_ reader: Reader) throws -> [Digest: StoredChunk] {
        var stored: [Digest: StoredChunk] = [:]
        try reader.forEachChunk { stored[$0] = StoredChunk(bytes: Int64($1.storedLength)) }
        guard !stored.isEmpty else { return [:] }
        try reader.forEachManifest { _, _, bytes in
            for id in Manifest(encoded: bytes)?.chunkIDs ?? [] { stored[id]?.uses += 1 }
        }
        return stored
    }

    /// Removes versions, and all chunks in the packs that no version uses.
    func remove(_ choice: Choice) throws(VolumeError) -> RemovedForSpace {
        var gone = RemovedForSpace()
        // Several documents share a transaction, because each transaction waits for the disk.
        var keys = Array(choice.versions.keys)
        while !keys.isEmpty {
            gone.versions += try writer.journal.write { t in
                try keys.suffix(256).reduce(0) {
                    try $0 + remove(choice.versions[$1] ?? [], of: $1, t)
                }
            }
            keys.removeLast(min(256, keys.count))
        }
        gone.bytes = try sweeper.sweep(isThorough: true)
        return gone
    }

    /// Calls `body` with each past version and the reason why it must stay, or nil if it may be
    /// removed. The current version of a document that is not deleted is left out.
    func forEachVersion(
        of item: Item, _ reader: Reader,
        _ body: (Candidate, PurgeReport.Reason?) throws -> Void
    ) throws {
        let versions = try reader.versions(of: item.key)
        let check = try RemovalCheck(item, versions, reader)
        for (index, version) in versions.enumerated() {
            let isShown = version.kind == .current || version.id == item.current
            if isShown, item.deleted == nil { continue }
            let next = index + 1 < versions.count ? versions[index + 1].saved : item.deleted
            try body(
                Candidate(
                    item: item.key, version: version.id, time: next ?? version.saved),
                reason(toKeep: version, of: item, check))
        }
    }

    private func reason(toKeep version: Version, of item: Item, _ check: RemovalCheck)
        -> PurgeReport.Reason?
    {
        let work = writer.state.pending[item.key]
        switch check.obstacle(to: version) {
        // An unrecorded conflict may have been made from this version.
        case nil:
            let isAlone =
                work?.priorContents.allSatisfy { $0.base == nil && !$0.becomesConflict }
                ?? true
            return isAlone ? nil : .unrecorded
        case .lastOfDeleted where check.mayRemoveRow:
            return work == nil ? nil : .unrecorded
        case let obstacle?: return .obstacle(obstacle)
        }
    }

    /// Removes versions and returns how many; a deleted document without versions loses its row
    /// too.
    private func remove(_ ids: [Identifier], of key: Int64, _ t: Transaction) throws -> Int {
        guard let item = try t.item(key) else { return 0 }
        let versions = try t.versions(of: key)
        let check = try RemovalCheck(item, versions, t)
        let all = Set(ids)
        let going = versions.filter {
            all.contains($0.id) && reason(toKeep: $0, of: item, check) == nil
        }
        try remove(going, of: item, hasRest: writer.state.pending[item.key] != nil, t)
        return going.count
    }

    /// Removes versions. The row of a deleted document without versions is removed too, unless some
    /// of its contents are not recorded yet (`hasRest`) or the hub has not been told of its
    /// deletion.
    func remove(_ versions: [Version], of item: Item, hasRest: Bool, _ t: Transaction)
        throws
    {
        for version in versions { try t.remove(version: version.id) }
        if item.deleted != nil, !hasRest, try t.versions(of: item.key).isEmpty,
            try !t.isParent(item), try RemovalCheck(item, [], t).mayRemoveRow
        {
            writer.state.pending[item.key] = nil
            try t.removeRow(item.key)
        } else if let current = item.current, versions.contains(where: { $0.id == current }) {
            var item = item
            item.current = nil
            // Its present contents must be recorded again, also after a crash.
            if item.deleted == nil { item.changed = 0 }
            try t.update(item)
        }
    }
}

/// A chunk in the packs.
struct StoredChunk {
    var bytes: Int64
    var uses = 0
}

extension [Digest: StoredChunk] {
    /// Removes a version's use of its chunks. Returns the bytes of those that no version uses any
    /// more.
    mutating func release(_ version: Identifier, _ reader: Reader) throws -> Int64 {
        var bytes: Int64 = 0
        let manifest = try reader.manifest(of: version)
        for id in manifest.flatMap(Manifest.init(encoded:))?.chunkIDs ?? [] {
            self[id]?.uses -= 1
            if let chunk = self[id], chunk.uses == 0 { bytes += chunk.bytes }
        }
        return bytes
    }
}
