import CLinux
import Journal
import Model
import SystemCalls

// What a daemon that was killed left in the stash: contents that were moved aside and not recorded.
extension Recorder {
    /// Gives each leftover to its document: by its inode, else by the name it had; else it becomes a deleted document of
    /// that name, so that `fsctl versions --deleted` shows it.
    func recoverStash(_ entries: [Stash.Entry]) {
        guard !entries.isEmpty else { return }
        do {
            try journal.write { t in
                for entry in entries { try recover(entry, t) }
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
        eventTime = entry.saved
        var keys = try t.items(inode: entry.inode).filter { $0.kind == .file }.map(\.key)
        if keys.isEmpty, let spot = entry.spot { keys = try owner(of: spot, t).map { [$0] } ?? [] }
        guard !keys.isEmpty else {
            // The journal has not seen that file yet: the scan may.
            memory.unresolved.append(entry)
            return
        }
        try give(entry, to: keys, t)
    }

    private func give(_ entry: Stash.Entry, to keys: [Int64], _ t: Transaction) throws {
        if keys.count > 1 { memory.stashUsers[entry.file] = keys.count }
        for key in keys {
            attach(entry, to: key, isRecovered: true)
            guard var item = try t.item(key), item.changed != 0, item.deleted == nil else { continue }
            item.changed = 0
            try t.update(item)
        }
    }

    /// What belongs to nothing that the journal knew before the scan.
    func resolveLeftovers(_ t: Transaction) throws {
        let entries = memory.unresolved
        memory.unresolved = []
        for entry in entries {
            eventTime = entry.saved
            let found = try t.items(inode: entry.inode).filter { $0.kind == .file }.map(\.key)
            if !found.isEmpty {
                try give(entry, to: found, t)
            } else if let package = memory.packaged[entry.inode] {
                attach(entry, to: package, isRecovered: true)
            } else if entry.kind == .undo {
                // Old blocks of a file that is gone are nothing by themselves.
                memory.doomed.append(entry.file)
            } else {
                try give(entry, to: [makeOrphan(entry, t)], t)
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
