import CLinux
import Journal
import Model
import SystemCalls

// What a daemon that was killed left in the stash: contents that were moved aside and not recorded.
extension Recorder {
    /// Gives each leftover to the document that had its inode when the journal was written last. The others wait until
    /// the scan has learnt the directories that came after that.
    func recoverStash(_ entries: [Stash.Entry]) {
        // What the journal knows somebody to need has its owner.
        let owned = Set(memory.works.values.flatMap { $0.formers.compactMap(\.entry?.file) })
        let entries = entries.filter { !owned.contains($0.file) }
        guard !entries.isEmpty else { return }
        do {
            try journal.write { t in
                for entry in entries { try recover(entry, t) }
                try persist(t)
            }
            removeDoomed()
        } catch {
            memory = Memory()
            tell("stash", "What lies in the stash could not be looked through: \(error).")
        }
    }

    private func recover(_ entry: Stash.Entry, _ t: Transaction) throws {
        if entry.kind == .displaced, stillHasName(entry) {
            // Killed between the second name and the replacing: nothing was displaced.
            memory.doomed.append(entry.file)
            return
        }
        let keys = try owners(of: entry, t)
        guard !keys.isEmpty else {
            memory.unresolved.append(entry)
            return
        }
        try give(entry, to: keys, t)
    }

    private func owners(of entry: Stash.Entry, _ t: Reader) throws -> [Int64] {
        let keys = try t.items(inode: entry.inode).filter { $0.kind == .file }.map(\.key)
        if keys.isEmpty, let package = memory.packaged[entry.inode] { return [package] }
        return keys
    }

    private func give(_ entry: Stash.Entry, to keys: [Int64], _ t: Transaction) throws {
        eventTime = entry.saved
        // Killed after the bytes were moved aside and before that was noted: others may have their past in them.
        var users = keys.count
        for heir in memory.heirs[entry.inode] ?? [] {
            let count = inherit(entry, heir)
            users += count.contents + count.bases
        }
        if users > 1 { memory.stashUsers[entry.file] = users }
        for key in keys {
            attach(entry, to: key, isRecovered: true)
            guard var item = try t.item(key), item.changed != 0, item.deleted == nil else {
                continue
            }
            item.changed = 0
            try t.update(item)
        }
    }

    /// When the whole tree is known: what belongs to nothing that the journal knew before. By its inode, by the name it
    /// had; else it becomes a deleted document of that name, so that `fsctl versions --deleted` shows it.
    func resolveLeftovers(_ t: Transaction) throws {
        let entries = memory.unresolved
        memory.unresolved = []
        // A copy has the inode of the file that it was taken from, and that one may be in the stash by now.
        var known: [UInt64: [Int64]] = [:]
        for entry in entries where entry.kind == .displaced {
            var keys = try entry.spot.flatMap { try owner(of: $0, t) }.map { [$0] } ?? []
            if keys.isEmpty { keys = try owners(of: entry, t) }
            if keys.isEmpty { keys = [try makeOrphan(entry, t)] }
            known[entry.inode] = keys
            try give(entry, to: keys, t)
        }
        for entry in entries where entry.kind != .displaced {
            var keys = try owners(of: entry, t)
            if keys.isEmpty { keys = known[entry.inode] ?? [] }
            if keys.isEmpty, entry.kind == .copied { keys = [try makeOrphan(entry, t)] }
            // Old blocks of a file that is gone are nothing by themselves.
            if keys.isEmpty { memory.doomed.append(entry.file) } else { try give(entry, to: keys, t) }
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
            // What an editor removed as its backup was the document a moment before.
            if spot.name.bytes.last == UInt8(ascii: "~"),
                let item = try t.item(
                    parent: parent, name: Name(bytes: spot.name.bytes.dropLast()))
            {
                return item.key
            }
            return try t.deletedItem(parent: parent, name: spot.name)?.key
        case .package(let key, _): return key
        case .ignored, .unknown: return nil
        }
    }

    private func makeOrphan(_ entry: Stash.Entry, _ t: Transaction) throws -> Int64 {
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
