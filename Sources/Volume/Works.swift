/// What is left to do, by document; and, in step with it by construction, who needs which bytes.
struct Works {
    private var documents = RevertibleDictionary<Int64, Work>()
    /// Documents that need a stash file.
    private var users: [String: Set<Int64>] = [:]
    /// Documents that need a content of an inode that is elsewhere in the tree.
    private(set) var heirs: [UInt64: Set<Int64>] = [:]
    /// Documents by the inodes of theirs that are in the stash, and that programs may still write.
    private(set) var displaced: [UInt64: Set<Int64>] = [:]
    /// Documents whose former contents are not in the journal as they are here.
    private(set) var changed: Set<Int64> = []
    /// Stash files that somebody has ceased to need, or that never were anybody's.
    private var left: [Stash.Entry] = []
    private var marked: (changed: Set<Int64>, left: [Stash.Entry])?

    var all: [Int64: Work] { documents.values }

    subscript(key: Int64) -> Work? {
        get { documents[key] }
        set {
            let old = documents[key]?.formers ?? []
            documents[key] = newValue
            let new = newValue?.formers ?? []
            if old != new { index(key, old, new) }
        }
    }

    func needs(_ entry: Stash.Entry) -> Bool { users[entry.file] != nil }

    /// Where the bytes of an inode are that the tree has no more.
    func entry(ofDisplaced inode: UInt64) -> Stash.Entry? {
        guard let owner = displaced[inode]?.first else { return nil }
        return documents[owner]?.formers.lazy.compactMap(\.entry).first {
            $0.kind == .displaced && $0.inode == inode
        }
    }

    /// A stash file that is nobody's, unless somebody claims it before the transaction ends.
    mutating func leave(_ entry: Stash.Entry) { left.append(entry) }

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

    private mutating func index(_ key: Int64, _ old: [Former], _ new: [Former]) {
        changed.insert(key)
        for former in old {
            switch former.place {
            case .stash(let entry):
                remove(key, from: &users, entry.file)
                if entry.kind == .displaced { remove(key, from: &displaced, entry.inode) }
            case .elsewhere(let trace): remove(key, from: &heirs, trace.inode)
            }
        }
        for former in new {
            switch former.place {
            case .stash(let entry):
                users[entry.file, default: []].insert(key)
                if entry.kind == .displaced { displaced[entry.inode, default: []].insert(key) }
            case .elsewhere(let trace): heirs[trace.inode, default: []].insert(key)
            }
        }
        for entry in old.lazy.compactMap(\.entry) where !needs(entry) { left.append(entry) }
    }

    private func remove<ID>(_ key: Int64, from keys: inout [ID: Set<Int64>], _ id: ID) {
        keys[id]?.remove(key)
        if keys[id]?.isEmpty == true { keys[id] = nil }
    }
}
