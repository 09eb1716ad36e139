import CLinux
import Journal
import Model

// Who gets the contents that were moved aside.
extension Recorder {
    /// Makes or changes the work of a document, and looks at it again soon.
    func touch(_ key: Int64, _ change: (inout Work) -> Void = { _ in }) {
        let now = cl_clock_monotonic_ns()
        let due = now + nanoseconds(settings.settleSeconds)
        change(&memory.works[key, default: Work(now: now)])
        memory.works[key]!.revision += 1
        memory.changed.insert(key)
        memory.works[key]!.due = due
        memory.works[key]!.attempts = 0
    }

    /// A content that was moved aside goes to the documents it was part of: the one that had the
    /// name (not when that was only a backup's), those whose past lies in that inode, and the
    /// package it was in.
    func bequeath(_ stash: String?, inode: UInt64, to items: [Item], package: Int64? = nil) throws {
        guard let stash, let entry = Stash.parse(stash) else { return }
        // Former contents that it is, and those that are read through it.
        var (users, bases) = (0, 0)
        for heir in memory.heirs[inode] ?? [] {
            let count = inherit(entry, heir)
            users += count.contents
            bases += count.bases
        }
        if entry.kind == .displaced { memory.strays[inode] = nil }
        for item in items
        where users == 0 || item.latest > 0 || memory.works[item.key]?.save != nil {
            attach(entry, to: item.key)
            users += 1
        }
        if let package {
            attach(entry, to: package)
            users += 1
        }
        if users + bases == 0 { memory.doomed.append(stash) }
        if users + bases > 1 { memory.stashUsers[stash] = users + bases }
    }

    /// The past of a document that lay in another file of the tree lies in the stash now. How many
    /// of its formers that is.
    func inherit(_ entry: Stash.Entry, _ heir: Int64) -> (contents: Int, bases: Int) {
        guard let formers = memory.works[heir]?.formers else { return (0, 0) }
        var changed: [Former] = []
        var count = (contents: 0, bases: 0)
        for former in formers {
            guard case .elsewhere(let trace) = former.place, trace.inode == entry.inode else {
                changed.append(former)
                continue
            }
            var moved = former
            moved.place = .stash(entry)
            // It was written there after it had left the document.
            if trace.size >= 0, trace.modified != entry.modified { moved.isBase = true }
            changed.append(moved)
            if moved.isBase { count.bases += 1 } else { count.contents += 1 }
            // Old blocks alone do not tell all: what lies between them is still there, and may be
            // overwritten next.
            if entry.kind == .undo { changed.append(.base(entry.inode)) }
        }
        if entry.kind != .undo { remove(heir, from: &memory.heirs, entry.inode) }
        touch(heir) { $0.formers = changed }
        note(entry, of: heir)
        return count
    }

    /// The document is about to show another inode or none: old blocks of the one it has go on
    /// needing that one.
    func follow(_ item: Item) {
        guard item.inode != 0, let formers = memory.works[item.key]?.formers,
            let undo = formers.lastIndex(where: {
                $0.inode == item.inode && $0.entry?.kind == .undo
            }),
            !formers[undo...].contains(where: { $0.inode == item.inode && $0.entry?.kind != .undo })
        else { return }
        memory.heirs[item.inode, default: []].insert(item.key)
        touch(item.key) { $0.formers.append(.base(item.inode)) }
    }

    /// The newest of a document's former contents.
    func attach(_ entry: Stash.Entry, to key: Int64, isRecovered: Bool = false) {
        touch(key) { work in
            guard !isRecovered else {
                // Older than anything that was moved aside since the volume was opened.
                let newer = work.formers.firstIndex { former in
                    former.entry.map { $0.sequence > entry.sequence } ?? true
                }
                work.formers.insert(
                    Former(place: .stash(entry), isRecovered: true),
                    at: newer ?? work.formers.count)
                return
            }
            work.formers.append(Former(place: .stash(entry), save: work.save))
            work.save = nil
        }
        note(entry, of: key)
    }

    private func note(_ entry: Stash.Entry, of key: Int64) {
        guard entry.kind == .displaced else { return }
        memory.displaced[entry.inode, default: []].insert(key)
    }

    /// A document is done with a former content.
    func drop(_ former: Former, of key: Int64) {
        switch former.place {
        case .stash(let entry):
            if entry.kind == .displaced { remove(key, from: &memory.displaced, entry.inode) }
            if let users = memory.stashUsers[entry.file], users > 1 {
                memory.stashUsers[entry.file] = users - 1
                return
            }
            memory.stashUsers[entry.file] = nil
            // Somebody else looks for that inode in the tree still: it is here.
            var users = 0
            for heir in memory.heirs[entry.inode] ?? [] where heir != key && entry.kind != .undo {
                let count = inherit(entry, heir)
                users += count.contents + count.bases
            }
            if users > 1 { memory.stashUsers[entry.file] = users }
            if users == 0 { memory.doomed.append(entry.file) }
        case .elsewhere(let trace):
            remove(key, from: &memory.heirs, trace.inode)
        }
    }

    private func remove(_ key: Int64, from keys: inout [UInt64: Set<Int64>], _ inode: UInt64) {
        keys[inode]?.remove(key)
        if keys[inode]?.isEmpty == true { keys[inode] = nil }
    }

    /// Two items turned out to be one document.
    func inherit(from twin: Int64, to key: Int64) {
        guard let work = memory.works.removeValue(forKey: twin) else { return }
        memory.changed.insert(twin)
        for former in work.formers {
            switch former.place {
            case .stash(let entry):
                remove(twin, from: &memory.displaced, entry.inode)
                note(entry, of: key)
            case .elsewhere(let trace):
                remove(twin, from: &memory.heirs, trace.inode)
                memory.heirs[trace.inode, default: []].insert(key)
            }
        }
        touch(key) { known in
            known.formers += work.formers
            known.save = work.save ?? known.save
        }
    }

    func forgetWork(_ key: Int64) {
        guard let work = memory.works.removeValue(forKey: key) else { return }
        memory.changed.insert(key)
        for former in work.formers { drop(former, of: key) }
    }
}

// What is remembered of former contents is in the journal too, by the transaction that changed it.
extension Recorder {
    func writeFormers(_ t: Transaction) throws {
        for key in memory.changed {
            try writeFormers(of: key, memory.works[key]?.formers ?? [], t)
        }
        memory.changed = []
    }

    func writeFormers(of key: Int64, _ formers: [Former], _ t: Transaction) throws {
        if memory.written.remove(key) != nil { try t.removeStashed(prefix: Former.rowPrefix(key)) }
        guard !formers.isEmpty else { return }
        memory.written.insert(key)
        for (index, former) in formers.enumerated() {
            try t.insert(former.row(of: key, index: index))
        }
    }

    /// What the last daemon remembered. The stash files that are accounted for.
    func readFormers(_ t: Transaction) throws -> Set<String> {
        var known: Set<String> = []
        var users: [String: Int] = [:]
        for row in try t.stashed() {
            guard let key = row.item, let former = Former(row), try t.item(key) != nil else {
                try t.removeStashed(row.name)
                continue
            }
            memory.written.insert(key)
            switch former.place {
            case .stash(let entry):
                known.insert(entry.file)
                users[entry.file, default: 0] += 1
                note(entry, of: key)
            case .elsewhere(let trace):
                memory.heirs[trace.inode, default: []].insert(key)
            }
            touch(key) { $0.formers.append(former) }
        }
        memory.stashUsers = users.filter { $0.value > 1 }
        return known
    }

    /// In a copy the inodes are others: what referred to one refers to that of the same document.
    func translateCopies(_ t: Reader) throws {
        guard !memory.copies.isEmpty else { return }
        for (key, work) in memory.works {
            for (index, former) in work.formers.enumerated() {
                guard case .elsewhere(let trace) = former.place,
                    let item = try memory.copies[trace.inode].flatMap({ try t.item($0) })
                else { continue }
                var moved = trace
                moved.inode = item.inode
                remove(key, from: &memory.heirs, trace.inode)
                memory.heirs[item.inode, default: []].insert(key)
                touch(key) { $0.formers[index].place = .elsewhere(moved) }
            }
        }
        memory.copies = [:]
    }
}

extension Former {
    /// Whatever that inode of the tree holds.
    static func base(_ inode: UInt64) -> Former {
        let trace = Trace(inode: inode, mode: 0o100644, size: -1, modified: 0, changed: 0)
        return Former(place: .elsewhere(trace), isBase: true)
    }
}
