import CLinux
import Journal
import Model
import SystemCalls

/// Recovers the stash: contents that a killed daemon had moved aside and not recorded.
/// Only the recorder's thread uses it.
struct StashRecovery {
    let writer: JournalWriter
    let roles: DirectoryRoles
    let stash: Stash
    let reports: RecorderReports

    /// Assigns each stash file to its document by its inode, or else by the name that it had. Those
    /// whose document is unknown wait for the scan, and so do those for which the inode and the
    /// name say different things: after a loss of power, the inode may be another document's than
    /// the journal knows.
    func recover(_ entries: [Stash.Entry]) {
        // Stash files that documents in the journal need are assigned already.
        let entries = entries.filter {
            !writer.state.pending.needs($0) && !writer.state.unresolved.contains($0)
        }
        guard !entries.isEmpty else { return }
        do {
            try writer.transact { t in
                var kept: [Stash.Entry] = []
                for entry in entries {
                    // The daemon was killed between linking and replacing the file, so nothing was
                    // displaced.
                    if entry.kind == .displaced, stillHasName(entry) {
                        writer.state.filesToRemove.append(entry.file)
                    } else {
                        kept.append(entry)
                    }
                }
                try give(kept, t) { group in
                    let keys = try owners(of: group[0].inode, t)
                    let spot = group.last { $0.spot != nil }?.spot
                    let named = try spot.flatMap { try owner(of: $0, t) }
                    if let named, keys.isEmpty || keys.contains(named) {
                        return keys.isEmpty ? [named] : keys
                    }
                    if spot == nil, !keys.isEmpty { return keys }
                    writer.state.unresolved += group
                    return []
                }
            }
            writer.removeUnneededStashFiles()
        } catch {
            reports.tell("stash", "The contents of the stash cannot be recovered: \(error).")
        }
    }

    /// Assigns stash files whose document was unknown before the scan. One without a document
    /// becomes a deleted document, so that `fsctl versions --deleted` shows it.
    func resolveLeftovers(_ t: Transaction) throws {
        let entries = writer.state.unresolved
        writer.state.unresolved = []
        try give(entries, t) { group in
            if !writer.state.isCopy, let keys = try owners(of: group, t) { return keys }
            if group.allSatisfy({ $0.kind == .preImages }) {
                // A pre-image log without its file cannot be read.
                writer.state.filesToRemove += group.map(\.file)
                return []
            }
            return [try makeOrphan(group[group.count - 1], t)]
        }
    }

    private func owners(of group: [Stash.Entry], _ t: Reader) throws -> [Int64]? {
        let inode = group[0].inode
        let found = try owners(of: inode, t)
        // The scan has not found the others, so another file may have had their inode before or
        // since.
        let missing = Set(writer.state.missing)
        let present = found.filter { !missing.contains($0) }
        if !present.isEmpty { return present }
        if let package = writer.state.packaged[inode] { return [package] }
        let spot = group.last { $0.spot != nil }?.spot
        if let named = try spot.flatMap({ try owner(of: $0, t) }) { return [named] }
        return found.isEmpty ? nil : found
    }

    /// The keys of the documents whose file is this inode. If there are none, those whose file it
    /// was before another one replaced it.
    private func owners(of inode: UInt64, _ t: Reader) throws -> [Int64] {
        let keys = try t.items(inode: inode).filter { $0.kind == .file }.map(\.key)
        return keys.isEmpty ? writer.state.pending.displaced[inode].map(Array.init) ?? [] : keys
    }

    /// Assigns stash files. All contents of one inode belong together, because pre-image logs are
    /// read through later ones. Each document gets its own in the order in which they were saved.
    private func give(
        _ entries: [Stash.Entry], _ t: Transaction, to owners: ([Stash.Entry]) throws -> [Int64]
    ) throws {
        var keys: [UInt64: [Int64]] = [:]
        for (inode, group) in Dictionary(grouping: entries, by: \.inode) {
            keys[inode] = try owners(group)
        }
        for entry in entries {
            let keys = keys[entry.inode] ?? []
            writer.eventTime = entry.saved
            guard !keys.isEmpty else { continue }
            // The daemon may have been killed after the bytes were moved aside and before that was
            // noted, so other documents may have prior contents in this inode.
            writer.state.pending.transferContent(entry)
            for key in keys {
                writer.state.pending.attach(entry, to: key, isRecovered: true)
                guard var item = try t.item(key), item.changed != 0, item.deleted == nil else {
                    continue
                }
                item.changed = 0
                try t.update(item)
            }
        }
    }

    /// Whether the stash file is a link made for a rename that never happened.
    private func stillHasName(_ entry: Stash.Entry) -> Bool {
        guard let found = try? stash.open(entry.file), let status = try? found.status() else {
            return false
        }
        return status.st_nlink > 1
    }

    /// The document that has, or had last, this name in this directory, or the package that
    /// contains it.
    private func owner(of spot: DirectoryEntry, _ t: Reader) throws -> Int64? {
        switch try roles.location(of: spot.directory, t) {
        case .directory(let parent):
            if let item = try t.item(parent: parent, name: spot.name) { return item.key }
            return try t.deletedItem(parent: parent, name: spot.name)?.key
        case .package(let key, _): return key
        case .ignored, .unknown: return nil
        }
    }

    private func makeOrphan(_ entry: Stash.Entry, _ t: Transaction) throws -> Int64 {
        writer.eventTime = entry.saved
        var parent = Item.root
        if let spot = entry.spot,
            case .directory(let key) = try roles.location(of: spot.directory, t)
        {
            parent = key
        }
        let name = entry.spot?.name ?? Name("recovered \(entry.sequence)")
        return try t.insert(
            Item(
                parent: parent, name: name.bytes.isEmpty ? Name("recovered") : name, kind: .file,
                deleted: cl_clock_realtime_ns()))
    }
}
