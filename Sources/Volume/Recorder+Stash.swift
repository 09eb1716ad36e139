import CLinux
import Journal
import Model
import SystemCalls

// What a daemon that was killed left in the stash: contents that were moved aside and not recorded.
extension Recorder {
    /// Gives each leftover to the document that had its inode when the journal was written last. The others wait until
    /// the scan has learnt the directories that came after that.
    func recoverStash() {
        // What the journal knows somebody to need has its owner.
        let owned = Set(memory.works.values.flatMap { $0.formers.compactMap(\.entry?.file) })
        let entries = leftovers.filter { !owned.contains($0.file) }
        leftovers = []
        place(entries) { entry, t in
            try t.items(inode: entry.inode).filter { $0.kind == .file }.map(\.key)
        }
    }

    /// When the whole tree is known: by the name it had; else it becomes a deleted document of that name, so that
    /// `fsctl versions --deleted` shows it.
    func recoverLeftovers() {
        guard !leftovers.isEmpty else { return }
        // A copy has the inode of the file that it was taken from, and that one may be in the stash by now.
        var owners: [UInt64: [Int64]] = [:]
        let (displaced, copies) = (
            leftovers.filter { $0.kind == .displaced }, leftovers.filter { $0.kind != .displaced }
        )
        place(displaced) { entry, t in
            var keys = try entry.spot.flatMap { try owner(of: $0, t) }.map { [$0] } ?? []
            if keys.isEmpty { keys = [try makeOrphan(entry, t)] }
            owners[entry.inode] = keys
            return keys
        }
        place(copies) { entry, t in
            var keys = try t.items(inode: entry.inode).filter { $0.kind == .file }.map(\.key)
            if keys.isEmpty { keys = owners[entry.inode] ?? [] }
            if keys.isEmpty, entry.kind == .copied { keys = [try makeOrphan(entry, t)] }
            return keys
        }
        leftovers = []
    }

    /// What nobody owns is left over.
    private func place(
        _ entries: [Stash.Entry], _ owners: (Stash.Entry, Transaction) throws -> [Int64]
    ) {
        guard !entries.isEmpty else { return }
        do {
            try journal.write { t in
                for entry in entries {
                    if entry.kind == .displaced, stillHasName(entry) {
                        // Killed between the second name and the replacing: nothing was displaced.
                        memory.doomed.append(entry.file)
                        continue
                    }
                    eventTime = entry.saved
                    let keys = try owners(entry, t)
                    if keys.isEmpty { leftovers.append(entry) } else { try give(entry, to: keys, t) }
                }
                try persist(t)
            }
            removeDoomed()
        } catch {
            memory = Memory()
            tell("stash", "What lies in the stash could not be looked through: \(error).")
        }
    }

    private func give(_ entry: Stash.Entry, to keys: [Int64], _ t: Transaction) throws {
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
