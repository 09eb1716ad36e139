import CLinux
import Model

/// The pending documents, and the indexes of the stash files and inodes that they need. All changes
/// go through the subscript, which keeps the indexes in step.
struct PendingTable {
    private let debounce: Debounce
    private let postponeSeconds: Double
    private var documents = RevertibleDictionary<Int64, PendingDocument>()
    /// The documents that need a stash file, by its name.
    private var users: [String: Set<Int64>] = [:]
    /// The documents that have a prior content in a file elsewhere in the tree, by its inode.
    private(set) var dependents: [UInt64: Set<Int64>] = [:]
    /// The documents whose files were moved to the stash, by inode. Programs may still write to
    /// these.
    private(set) var displaced: [UInt64: Set<Int64>] = [:]
    /// Documents whose rows of prior contents in the journal are out of date.
    private(set) var changed: Set<Int64> = []
    /// Stash files that are no longer needed, or that were not assigned to a document.
    private var left: [Stash.Entry] = []
    private var marked: (changed: Set<Int64>, left: [Stash.Entry])?

    init(debounce: Debounce, postponeSeconds: Double) {
        (self.debounce, self.postponeSeconds) = (debounce, postponeSeconds)
    }

    var all: [Int64: PendingDocument] { documents.values }

    subscript(key: Int64) -> PendingDocument? {
        get { documents[key] }
        set {
            let old = documents[key]?.priorContents ?? []
            documents[key] = newValue
            let new = newValue?.priorContents ?? []
            if old != new { index(key, old, new) }
        }
    }

    func needs(_ entry: Stash.Entry) -> Bool { users[entry.file] != nil }

    /// The stash file to which an inode was moved.
    func entry(ofDisplaced inode: UInt64) -> Stash.Entry? {
        guard let owner = displaced[inode]?.first else { return nil }
        return documents[owner]?.priorContents.lazy.compactMap(\.entry).first {
            $0.kind == .displaced && $0.inode == inode
        }
    }

    /// Notes a stash file that is removed unless a document needs it when the transaction ends.
    mutating func leave(_ entry: Stash.Entry) { left.append(entry) }

    // MARK: Changing documents

    /// Creates or changes a pending document, and has it recorded soon.
    mutating func touch(_ key: Int64, _ change: (inout PendingDocument) -> Void = { _ in }) {
        let now = cl_clock_monotonic_ns()
        var work = self[key] ?? PendingDocument(now: now)
        change(&work)
        work.revision += 1
        work.due = now + Timestamp.span(seconds: debounce.settleSeconds)
        work.attempts = 0
        work.obstacle = nil
        self[key] = work
    }

    /// Has the document recorded later: after a moment, then after twice that, at most after a
    /// minute.
    mutating func postpone(_ key: Int64, because reason: WaitReason) {
        guard var work = self[key] else { return }
        work.attempts += 1
        work.obstacle = reason
        let seconds = min(60, postponeSeconds * Double(1 << min(work.attempts - 1, 10)))
        work.due = cl_clock_monotonic_ns() + Timestamp.span(seconds: seconds)
        self[key] = work
    }

    /// Prior contents that were in another file of the tree are in the stash now. Returns whether
    /// the stash file is a content of a document, and not only needed to read others.
    @discardableResult
    mutating func transferContent(_ entry: Stash.Entry) -> Bool {
        var isContent = false
        for dependent in dependents[entry.inode] ?? [] where self[dependent] != nil {
            touch(dependent) { if $0.moveToStash(entry) { isContent = true } }
        }
        return isContent
    }

    /// Merges a pending document into another, because both are one document.
    mutating func transferContent(from twin: Int64, to key: Int64) {
        guard let work = self[twin] else { return }
        touch(key) { known in
            known.priorContents += work.priorContents
            // The end of the writing was noted for the item that had the inode then.
            if work.save != nil { known.isWriting = work.isWriting }
            known.save = work.save ?? known.save
        }
        self[twin] = nil
    }

    /// Keeps a document's present file readable for its pre-image logs, because the document is
    /// about to get another inode or none.
    mutating func follow(_ key: Int64, inode: UInt64) {
        guard inode != 0, self[key]?.readsThrough(inode) == true else { return }
        touch(key) { $0.priorContents.append(.base(inode)) }
    }

    /// Adds a stash file as the newest of a document's prior contents.
    mutating func attach(
        _ entry: Stash.Entry, to key: Int64, isRecovered: Bool = false, isUnsaved: Bool = false
    ) {
        touch(key) {
            if isRecovered { return $0.insert(recovered: entry) }
            $0.replace(by: .stash(entry), isUnsaved: isUnsaved)
        }
    }

    /// Documents that have waited for so long, and why; at most `count`.
    func waiting(seconds: Double, atMost count: Int) -> [Int64: WaitReason] {
        let long = cl_clock_monotonic_ns() - Timestamp.span(seconds: seconds)
        var found: [Int64: WaitReason] = [:]
        for (key, work) in documents.values where work.since < long {
            guard let reason = work.obstacle else { continue }
            found[key] = reason
            if found.count == count { break }
        }
        return found
    }

    // MARK: Transactions

    mutating func mark() {
        documents.mark()
        marked = (changed, left)
    }

    mutating func removeMark() {
        documents.removeMark()
        marked = nil
    }

    mutating func revert() {
        for (key, work) in documents.before ?? [:] { self[key] = work }
        if let marked { (changed, left) = marked }
        removeMark()
    }

    mutating func takeUnclaimed() -> [Stash.Entry] {
        defer { left = [] }
        return left.filter { !needs($0) }
    }

    mutating func takeChanged() -> Set<Int64> {
        defer { changed = [] }
        return changed
    }

    /// Updates only the part that differs: a document may have thousands of prior contents, and
    /// usually one is added or removed.
    private mutating func index(_ key: Int64, _ old: [PriorContent], _ new: [PriorContent]) {
        changed.insert(key)
        let start = zip(old, new).prefix { $0 == $1 }.count
        let rest = min(old.count, new.count) - start
        let end = zip(old.reversed(), new.reversed()).prefix(rest).prefix { $0 == $1 }.count
        let removed = old[start..<(old.count - end)]
        forget(key, removed)
        if !removed.isEmpty {
            // Several prior contents may lie in one inode, so what the others need is entered
            // again.
            let inodes = Set(removed.map(\.inode))
            let kept = new[..<start] + new[(new.count - end)...]
            note(key, kept.filter { inodes.contains($0.inode) })
        }
        note(key, Array(new[start..<(new.count - end)]))
        for entry in removed.lazy.compactMap(\.entry) where !needs(entry) { left.append(entry) }
    }

    private mutating func forget(_ key: Int64, _ priorContents: ArraySlice<PriorContent>) {
        for prior in priorContents {
            switch prior.place {
            case .stash(let entry):
                remove(key, from: &users, entry.file)
                if entry.kind == .displaced { remove(key, from: &displaced, entry.inode) }
            case .elsewhere(let snapshot): remove(key, from: &dependents, snapshot.inode)
            }
        }
    }

    private mutating func note(_ key: Int64, _ priorContents: [PriorContent]) {
        for prior in priorContents {
            switch prior.place {
            case .stash(let entry):
                users[entry.file, default: []].insert(key)
                if entry.kind == .displaced { displaced[entry.inode, default: []].insert(key) }
            case .elsewhere(let snapshot): dependents[snapshot.inode, default: []].insert(key)
            }
        }
    }

    private func remove<ID>(_ key: Int64, from keys: inout [ID: Set<Int64>], _ id: ID) {
        keys[id]?.remove(key)
        if keys[id]?.isEmpty == true { keys[id] = nil }
    }
}
