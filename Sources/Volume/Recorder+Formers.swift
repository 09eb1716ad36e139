import CLinux
import Journal
import Model

// Who gets the contents that were moved aside.
extension Recorder {
    /// Makes or changes the work of a document, and looks at it again soon.
    func touch(_ key: Int64, _ change: (inout Work) -> Void = { _ in }) {
        let now = cl_clock_monotonic_ns()
        var work = memory.works[key] ?? Work(now: now)
        change(&work)
        work.revision += 1
        work.due = now + nanoseconds(pace.settleSeconds)
        work.attempts = 0
        memory.works[key] = work
    }

    /// A content that was moved aside goes to the documents it was part of: the one that had the
    /// name (not when that was only a backup's), those whose past lies in that inode, and the
    /// package it was in.
    func bequeath(_ stash: String?, inode: UInt64, to items: [Item], package: Int64? = nil) throws {
        guard let stash, let entry = Stash.parse(stash) else { return }
        memory.works.leave(entry)
        let isContent = inherit(entry)
        if entry.kind == .displaced { memory.strays[inode] = nil }
        for item in items
        where !isContent || item.latest > 0 || memory.works[item.key]?.save != nil {
            attach(entry, to: item.key)
        }
        // Whether what took its place in the package is whole nobody knows after a crash.
        if let package { attach(entry, to: package, isRecovered: isReplaying) }
    }

    /// The same of what nothing is known of. What happened before the tree was looked at may have
    /// happened in a package, or to a file that was put there while nobody watched and that had
    /// been replaced by the time of that look: then its owner is looked for.
    func bequeathUnknown(_ stash: String?, inode: UInt64) throws {
        try bequeath(stash, inode: inode, to: [])
        guard isBeforeFirstLook, let entry = stash.flatMap(Stash.parse),
            !memory.works.needs(entry)
        else { return }
        memory.unresolved.append(entry)
    }

    /// The past of documents that lay in another file of the tree lies in the stash now. Whether it
    /// is a content of one of them, not only what another is read through.
    @discardableResult
    func inherit(_ entry: Stash.Entry) -> Bool {
        var isContent = false
        for heir in memory.works.heirs[entry.inode] ?? [] where inherit(entry, heir) {
            isContent = true
        }
        return isContent
    }

    private func inherit(_ entry: Stash.Entry, _ heir: Int64) -> Bool {
        guard let formers = memory.works[heir]?.formers else { return false }
        var changed: [Former] = []
        var isContent = false
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
            if !moved.isBase { isContent = true }
            // Old blocks alone do not tell all: what lies between them is still there, and may be
            // overwritten next.
            if entry.kind == .undo { changed.append(.base(entry.inode)) }
        }
        touch(heir) { $0.formers = changed }
        return isContent
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
    }

    /// Two items turned out to be one document.
    func inherit(from twin: Int64, to key: Int64) {
        guard let work = memory.works[twin] else { return }
        touch(key) { known in
            known.formers += work.formers
            known.save = work.save ?? known.save
        }
        memory.works[twin] = nil
    }
}

// What is remembered of former contents is in the journal too, by the transaction that changed it.
extension Recorder {
    /// One transaction of the journal and what comes of it in memory: both or neither.
    func transact(_ body: (Transaction) throws -> Void) throws(VolumeError) {
        memory.mark()
        do throws(VolumeError) {
            try journal.write { t in
                try body(t)
                try writeFormers(t)
            }
        } catch {
            memory.revert()
            throw error
        }
        retriesLeft = Recorder.retriesMax
        memory.removeMark()
        forgetAdopted()
        removeMarks()
        tellVersionNews()
        if !isPerforming { pace.committed() }
    }

    /// Ends what a transaction does to former contents: files that nobody needs go after it.
    func writeFormers(_ t: Transaction) throws {
        for entry in memory.works.takeUnclaimed() {
            // Somebody looks for that inode in the tree still: it is here.
            if entry.kind == .displaced { inherit(entry) }
            if !memory.works.needs(entry), !memory.unresolved.contains(entry) {
                memory.doomed.append(entry.file)
            }
        }
        for key in memory.works.takeChanged() {
            try writeFormers(of: key, memory.works[key]?.formers ?? [], t)
        }
    }

    private func writeFormers(of key: Int64, _ formers: [Former], _ t: Transaction) throws {
        if memory.written[key] != nil { try t.removeStashed(prefix: Former.rowPrefix(key)) }
        memory.written[key] = formers.isEmpty ? nil : formers.count
        for (index, former) in formers.enumerated() {
            try t.insert(former.row(of: key, index: index))
        }
    }

    /// What the last daemon remembered. A document may have thousands of former contents: it gets
    /// all of them at once, because each change of them costs as much as there are.
    func readFormers(_ t: Transaction) throws {
        var known: [Int64: [Former]] = [:]
        for row in try t.stashed() {
            guard let key = row.item, var former = Former(row), let item = try t.item(key) else {
                try t.removeStashed(row.name)
                continue
            }
            // Whether what took its place in the package is whole nobody knows now.
            if item.kind == .package { former.isRecovered = true }
            known[key, default: []].append(former)
        }
        for (key, formers) in known {
            memory.written[key, default: 0] += formers.count
            touch(key) { $0.formers += formers }
        }
    }

    /// In a copy the inodes are others: what referred to one refers to that of the same document.
    func translateCopies(_ t: Reader) throws {
        guard !memory.copies.isEmpty else { return }
        for (key, work) in memory.works.all {
            for (index, former) in work.formers.enumerated() {
                guard case .elsewhere(let trace) = former.place,
                    let item = try memory.copies[trace.inode].flatMap({ try t.item($0) })
                else { continue }
                var moved = trace
                moved.inode = item.inode
                touch(key) { $0.formers[index].place = .elsewhere(moved) }
            }
        }
        memory.copies.removeAll()
    }
}

extension Former {
    /// Whatever that inode of the tree holds.
    static func base(_ inode: UInt64) -> Former {
        let trace = Trace(inode: inode, mode: 0o100644, size: -1, modified: 0, changed: 0)
        return Former(place: .elsewhere(trace), isBase: true)
    }
}
