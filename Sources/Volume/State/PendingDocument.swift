import Model

/// A pending document: what the recorder still has to record of it.
struct PendingDocument {
    /// Its prior contents that are not recorded yet, oldest first.
    var priorContents: [PriorContent] = []
    /// Who saved the contents that the tree holds, and when; nil if they are no new save.
    var save: Save?
    /// Who created the file, or had it open when the daemon was killed, if no program has saved it
    /// under this name since.
    var author: Save?
    /// Whether a program has it open for writing.
    var isWriting = false
    /// The change was found by the scan, so what the file held before was not moved aside.
    var isFound = false
    /// Grows with each change of this value, so that a recording notices changes made while it
    /// read.
    var revision: UInt64 = 0
    /// When the document became pending, and when to record it; monotonic nanoseconds.
    let since: Int64
    var due: Int64
    var attempts = 0
    /// A caller waits for the document.
    var isAwaited = false
    /// Why it was not recorded the last time; nil if it changed since.
    var obstacle: WaitReason?

    struct Save: Hashable {
        var actor: Actor
        /// Nanoseconds since 1970.
        var time: Int64
    }

    init(now: Int64) { (since, due) = (now, now) }
}

// What the events and changes from the hub make of a document's contents. A document's prior
// contents are in the order in which the document had them, so that versions get that order.
extension PendingDocument {
    /// The present contents, which are about to be replaced, become the newest prior content.
    mutating func replace(by place: PriorContent.Place, isUnsaved: Bool = false) {
        var prior = PriorContent(place: place, save: save)
        prior.isUnsaved = isUnsaved && save == nil
        priorContents.append(prior)
        save = nil
    }

    /// Adds a content that a killed daemon had moved aside. It is older than anything that was
    /// moved aside since the volume was opened.
    mutating func insert(recovered entry: Stash.Entry) {
        let newer = priorContents.firstIndex { prior in
            prior.entry.map { $0.sequence > entry.sequence } ?? true
        }
        priorContents.insert(
            PriorContent(place: .stash(entry), isRecovered: true),
            at: newer ?? priorContents.count)
    }

    /// Prior contents that were in another file of the tree are in the stash now. Returns whether
    /// the stash file is a content of the document, and not only needed to read others.
    mutating func moveToStash(_ entry: Stash.Entry) -> Bool {
        var changed: [PriorContent] = []
        var isContent = false
        for prior in priorContents {
            guard case .elsewhere(let snapshot) = prior.place, snapshot.inode == entry.inode else {
                changed.append(prior)
                continue
            }
            var moved = prior
            moved.place = .stash(entry)
            // The file was written after it had ceased to be the document's.
            if snapshot.size >= 0, snapshot.modified != entry.modified { moved.isBase = true }
            changed.append(moved)
            if !moved.isBase { isContent = true }
            // A pre-image log is not complete: its other bytes are still in the file, and may be
            // overwritten next.
            if entry.kind == .preImages { changed.append(.base(entry.inode)) }
        }
        priorContents = changed
        return isContent
    }

    /// Whether its newest pre-image log of an inode is read through the present contents of that
    /// inode.
    func readsThrough(_ inode: UInt64) -> Bool {
        let last = priorContents.lastIndex { $0.inode == inode && $0.entry?.kind == .preImages }
        guard let last else { return false }
        return !priorContents[last...].contains {
            $0.inode == inode && $0.entry?.kind != .preImages
        }
    }

    /// A pre-image log and the older ones that are read through it; without a log, those that are
    /// read through the present contents of the inode.
    func logs(of inode: UInt64, readThrough log: Stash.Entry?) -> [Stash.Entry] {
        let index = priorContents.lastIndex { $0.entry != nil && $0.entry == log }
        let earlier = priorContents[..<(index ?? priorContents.endIndex)]
            .filter { $0.inode == inode }.compactMap(\.entry)
        let whole = earlier.lastIndex { $0.kind != .preImages }
        let last = index.flatMap { priorContents[$0].entry }
        return earlier[(whole.map { $0 + 1 } ?? 0)...] + (last.map { [$0] } ?? [])
    }

    /// A program that had opened the file for writing has closed it without a change, so the copy
    /// that was made at open equals the present contents.
    mutating func takeBackCopy(of inode: UInt64) {
        isWriting = false
        guard let last = priorContents.last, last.entry?.kind == .copied, last.inode == inode,
            !last.isBase, !last.becomesConflict, !last.isRecovered
        else { return }
        priorContents.removeLast()
        save = last.save ?? save
    }

    /// A program writes to a file that was just moved to the stash. The copy of its contents until
    /// now comes before it.
    mutating func insert(copy entry: Stash.Entry, ofDisplaced inode: UInt64) {
        let index = priorContents.firstIndex {
            $0.entry?.kind == .displaced && $0.inode == inode
        }
        guard let index else { return }
        var before = priorContents[index]
        before.place = .stash(entry)
        priorContents[index].save = nil
        priorContents.insert(before, at: index)
    }

    /// A program has saved a file that was moved to the stash. If it did so after the file was
    /// replaced (`isLate`), that save becomes a conflict version.
    mutating func note(_ save: Save, ofDisplaced inode: UInt64, isLate: Bool) {
        if isLate {
            // Its creator removed it while it was open: a temporary file.
            priorContents.removeAll { $0.isUnsaved && $0.inode == inode }
        }
        for index in priorContents.indices
        where priorContents[index].entry?.kind == .displaced && priorContents[index].inode == inode
        {
            if isLate { priorContents[index].isSuperseded = true }
            priorContents[index].isUnsaved = false
            priorContents[index].save = save
        }
    }

    /// The newest prior content was not seen by the program that replaced it.
    mutating func noteUnseen(base: Identifier?, mergesOnlyManually: Bool) {
        guard let last = priorContents.indices.last else { return }
        priorContents[last].isUnseen = true
        priorContents[last].mergesOnlyManually = mergesOnlyManually
        priorContents[last].base = base
    }

    /// A version from the hub has replaced the document's contents. What is not recorded was made
    /// from the version that was current until then, and becomes conflict versions.
    mutating func supersede(version: Identifier?) {
        for index in priorContents.indices
        where !priorContents[index].isBase && !priorContents[index].isLate {
            priorContents[index].base = version
            priorContents[index].isLate = true
        }
        save = nil
        isWriting = false
    }
}
