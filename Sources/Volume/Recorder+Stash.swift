import CLinux
import Journal
import Model
import SystemCalls

// What a daemon that was killed left in the stash: contents that were moved aside and not recorded.
extension Recorder {
    /// Gives each leftover to its document: by its inode, else by the name it had. What the journal
    /// knows nothing of waits for the scan.
    func recoverStash(_ entries: [Stash.Entry]) {
        // What the journal knows somebody to need has its owner.
        let entries = entries.filter {
            !memory.works.needs($0) && !memory.unresolved.contains($0)
        }
        guard !entries.isEmpty else { return }
        do {
            try transact { t in
                var kept: [Stash.Entry] = []
                for entry in entries {
                    // Killed between the second name and the replacing: nothing was displaced.
                    if entry.kind == .displaced, stillHasName(entry) {
                        memory.doomed.append(entry.file)
                    } else {
                        kept.append(entry)
                    }
                }
                try give(kept, t) { group in
                    let keys = try owners(of: group[0].inode, t)
                    if !keys.isEmpty { return keys }
                    let spot = group.last { $0.spot != nil }?.spot
                    if let spot, let owner = try owner(of: spot, t) { return [owner] }
                    memory.unresolved += group
                    return []
                }
            }
            removeDoomed()
        } catch {
            tell("stash", "What lies in the stash could not be looked through: \(error).")
        }
    }

    /// What belongs to nothing that the journal knew before the scan: else it becomes a deleted
    /// document, so that `fsctl versions --deleted` shows it.
    func resolveLeftovers(_ t: Transaction) throws {
        let entries = memory.unresolved
        memory.unresolved = []
        try give(entries, t) { group in
            if !memory.isCopy, let keys = try owners(of: group, t) { return keys }
            if group.allSatisfy({ $0.kind == .undo }) {
                // Old blocks of a file that is gone are nothing by themselves.
                memory.doomed += group.map(\.file)
                return []
            }
            return [try makeOrphan(group[group.count - 1], t)]
        }
    }

    private func owners(of group: [Stash.Entry], _ t: Reader) throws -> [Int64]? {
        let inode = group[0].inode
        let found = try owners(of: inode, t)
        if !found.isEmpty { return found }
        if let package = memory.packaged[inode] { return [package] }
        let spot = group.last { $0.spot != nil }?.spot
        return try spot.flatMap { try owner(of: $0, t) }.map { [$0] }
    }

    /// The keys of the documents whose file is this inode; where there is none, of those whose
    /// file it was before another one replaced it.
    private func owners(of inode: UInt64, _ t: Reader) throws -> [Int64] {
        let keys = try t.items(inode: inode).filter { $0.kind == .file }.map(\.key)
        return keys.isEmpty ? memory.works.displaced[inode].map(Array.init) ?? [] : keys
    }

    /// All contents of one inode belong together, and old blocks need the later ones to be read
    /// through; each document gets its own in the order in which they came.
    private func give(
        _ entries: [Stash.Entry], _ t: Transaction, to owners: ([Stash.Entry]) throws -> [Int64]
    ) throws {
        var keys: [UInt64: [Int64]] = [:]
        for (inode, group) in Dictionary(grouping: entries, by: \.inode) {
            keys[inode] = try owners(group)
        }
        for entry in entries {
            let keys = keys[entry.inode] ?? []
            eventTime = entry.saved
            guard !keys.isEmpty else { continue }
            // Killed after the bytes were moved aside and before that was noted: others may have
            // their past in them.
            inherit(entry)
            for key in keys {
                attach(entry, to: key, isRecovered: true)
                guard var item = try t.item(key), item.changed != 0, item.deleted == nil else {
                    continue
                }
                item.changed = 0
                try t.update(item)
            }
        }
    }

    /// A link that was made before a rename that never happened.
    private func stillHasName(_ entry: Stash.Entry) -> Bool {
        guard let found = try? stash.open(entry.file), let status = try? found.status() else {
            return false
        }
        return status.st_nlink > 1
    }

    /// The document that has, or had last, that name in that directory; or the package it is in.
    private func owner(of spot: Spot, _ t: Reader) throws -> Int64? {
        switch try location(of: spot.directory, t) {
        case .directory(let parent):
            if let item = try t.item(parent: parent, name: spot.name) { return item.key }
            return try t.deletedItem(parent: parent, name: spot.name)?.key
        case .package(let key, _): return key
        case .ignored, .unknown: return nil
        }
    }

    private func makeOrphan(_ entry: Stash.Entry, _ t: Transaction) throws -> Int64 {
        eventTime = entry.saved
        var parent = Item.root
        if let spot = entry.spot, case .directory(let key) = try location(of: spot.directory, t) {
            parent = key
        }
        let name = entry.spot?.name ?? Name("recovered \(entry.sequence)")
        return try t.insert(
            Item(
                parent: parent, name: name.bytes.isEmpty ? Name("recovered") : name, kind: .file,
                deleted: cl_clock_realtime_ns()))
    }
}
