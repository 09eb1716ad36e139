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
        memory.works[key]!.due = due
        memory.works[key]!.attempts = 0
        memory.touched.insert(key)
    }

    /// A content that was moved aside goes to the documents it was part of: the one that had the name (not when that was
    /// only a backup's), those whose past lies in that inode, and the package it was in.
    func bequeath(_ stash: String?, inode: UInt64, to items: [Item], package: Int64? = nil) throws {
        guard let stash, let entry = Stash.parse(stash) else { return }
        let heirs = memory.heirs.removeValue(forKey: inode) ?? []
        memory.strays[inode] = nil
        var users = 0
        for heir in heirs where inherit(entry, heir) { users += 1 }
        for item in items
        where users == 0 || item.latest > 0 || memory.works[item.key]?.save != nil {
            attach(entry, to: item.key)
            users += 1
        }
        if let package {
            attach(entry, to: package)
            users += 1
        }
        if users == 0 { memory.doomed.append(stash) }
        if users > 1 { memory.stashUsers[stash] = users }
    }

    /// The past of a document that lay in another file of the tree lies in the stash now.
    private func inherit(_ entry: Stash.Entry, _ heir: Int64) -> Bool {
        guard let formers = memory.works[heir]?.formers else { return false }
        let index = formers.lastIndex { $0.entry == nil && $0.inode == entry.inode }
        guard let index else { return false }
        touch(heir) { $0.formers[index].place = .stash(entry) }
        note(entry, of: heir)
        return true
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
            memory.doomed.append(entry.file)
        case .elsewhere(let trace):
            remove(key, from: &memory.heirs, trace.inode)
            if memory.heirs[trace.inode] == nil { memory.strays[trace.inode] = nil }
        }
    }

    private func remove(_ key: Int64, from keys: inout [UInt64: Set<Int64>], _ inode: UInt64) {
        keys[inode]?.remove(key)
        if keys[inode]?.isEmpty == true { keys[inode] = nil }
    }

    func forgetWork(_ key: Int64) {
        guard let work = memory.works.removeValue(forKey: key) else { return }
        memory.touched.insert(key)
        for former in work.formers { drop(former, of: key) }
    }
}
