import CLinux
import Journal
import Model

// Decides which documents get contents that were moved aside.
extension Recorder {
    /// Creates or changes a pending document, and records it soon.
    func touch(_ key: Int64, _ change: (inout Work) -> Void = { _ in }) {
        let now = cl_clock_monotonic_ns()
        var work = memory.works[key] ?? Work(now: now)
        change(&work)
        work.revision += 1
        work.due = now + nanoseconds(pace.settleSeconds)
        work.attempts = 0
        memory.works[key] = work
    }

    /// Adds a content that was moved aside to the documents it belongs to: the one that had the
    /// name (unless the file was only a backup), those with a prior content in that inode, and the
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
        // After a crash it is unknown whether its replacement in the package is complete.
        if let package { attach(entry, to: package, isRecovered: isReplaying) }
    }

    /// As `bequeath`, for a directory or file that is not known. Before the first scan, it may be
    /// in a package, or may have been put into the tree while the volume was not mounted and
    /// replaced before the scan. Its document is then looked for after the scan.
    func bequeathUnknown(_ stash: String?, inode: UInt64) throws {
        try bequeath(stash, inode: inode, to: [])
        guard isBeforeFirstLook, let entry = stash.flatMap(Stash.parse),
            !memory.works.needs(entry)
        else { return }
        memory.unresolved.append(entry)
    }

    /// Prior contents that were in another file of the tree are in the stash now. Returns whether
    /// the stash file is a content of a document, and not only needed to read others.
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
            // The file was written after it had ceased to be the document's.
            if trace.size >= 0, trace.modified != entry.modified { moved.isBase = true }
            changed.append(moved)
            if !moved.isBase { isContent = true }
            // A pre-image log is not complete: its other bytes are still in the file, and may be
            // overwritten next.
            if entry.kind == .undo { changed.append(.base(entry.inode)) }
        }
        touch(heir) { $0.formers = changed }
        return isContent
    }

    /// Keeps the document's present file readable for its pre-image logs, because the document is
    /// about to get another inode or none.
    func follow(_ item: Item) {
        guard item.inode != 0, let formers = memory.works[item.key]?.formers,
            let undo = formers.lastIndex(where: {
                $0.inode == item.inode && $0.entry?.kind == .undo
            }),
            !formers[undo...].contains(where: { $0.inode == item.inode && $0.entry?.kind != .undo })
        else { return }
        touch(item.key) { $0.formers.append(.base(item.inode)) }
    }

    /// Adds a stash file as the newest of a document's prior contents.
    func attach(_ entry: Stash.Entry, to key: Int64, isRecovered: Bool = false) {
        touch(key) { work in
            guard !isRecovered else {
                // It is older than anything that was moved aside since the volume was opened.
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

    /// Merges a pending document into another, because both are one document.
    func inherit(from twin: Int64, to key: Int64) {
        guard let work = memory.works[twin] else { return }
        touch(key) { known in
            known.formers += work.formers
            known.save = work.save ?? known.save
        }
        memory.works[twin] = nil
    }
}

// Each transaction that changes prior contents also writes them to the journal.
extension Recorder {
    /// Runs one transaction of the journal. If it fails, the state in memory is reverted too.
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
        room.changed()
        forgetAdopted()
        removeMarks()
        tellVersionNews()
        if !isPerforming { pace.committed() }
    }

    /// Writes the changed prior contents to the journal. Stash files that no document needs are
    /// removed after the transaction.
    func writeFormers(_ t: Transaction) throws {
        for entry in memory.works.takeUnclaimed() {
            // Documents that expect this inode in the tree find it in the stash now.
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

    /// Reads the prior contents that the last daemon has left. A document may have thousands; it
    /// gets all of them at once, because each change costs as much as there are.
    func readFormers(_ t: Transaction) throws {
        var known: [Int64: [Former]] = [:]
        for row in try t.stashed() {
            guard let key = row.item, var former = Former(row), let item = try t.item(key) else {
                try t.removeStashed(row.name)
                continue
            }
            // It is unknown now whether its replacement in the package is complete.
            if item.kind == .package { former.isRecovered = true }
            known[key, default: []].append(former)
        }
        for (key, formers) in known {
            memory.written[key, default: 0] += formers.count
            touch(key) { $0.formers += formers }
        }
    }

    /// In a copied store the inode numbers have changed: replaces the old number of a document's
    /// file by the new one.
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
    /// The present contents of an inode of the tree, whatever they are, as a base for pre-image
    /// logs.
    static func base(_ inode: UInt64) -> Former {
        let trace = Trace(inode: inode, mode: 0o100644, size: -1, modified: 0, changed: 0)
        return Former(place: .elsewhere(trace), isBase: true)
    }
}
