import Glibc
import Journal
import Model
import SystemCalls

/// A store that was copied, or moved to another disk. Its files have other inode numbers than the
/// journal says, and what a program did before the copy cannot be told by them. Only the recorder's
/// thread uses it.
struct CopiedStore {
    let writer: JournalWriter
    let roles: DirectoryRoles

    /// The journal keeps this until everything was found again, because the daemon may be killed
    /// before: the inode numbers are forgotten by then, and show no copy any more.
    private static let mark = "copied"

    /// Finds out whether the store was copied since it was last opened, and then forgets the inode
    /// numbers. On a new disk the copied root may have its old number by chance, and other files
    /// each other's, so its time of birth is compared, too.
    func detect(_ t: Transaction) throws -> Bool {
        guard var root = try t.item(Item.root) else { return false }
        let birth = Timestamp(birthOf: roles.tree)?.nanoseconds ?? 0
        let isReborn = root.birth != 0 && birth != 0 && root.birth != birth
        let isCopy = isReborn || root.inode != FileSnapshot(of: roles.tree).inode
        let isUnknown = root.inode == 0
        if root.birth != birth {
            root.birth = birth
            try t.update(root)
        }
        // A daemon that was killed before its first scan has left events that name the root.
        if isUnknown, try t.children(of: root.key).isEmpty {
            root.inode = FileSnapshot(of: roles.tree).inode
            try t.update(root)
        }
        let isNew = !isUnknown && isCopy
        writer.state.isCopy = try isNew || t.value(CopiedStore.mark) != nil
        guard isNew else {
            if writer.state.isCopy { try examineDeleted(t) }
            return false
        }
        try t.set(CopiedStore.mark, to: "1")
        try translatePriorContents(t)
        writer.state.locations.removeAll()
        try t.forgetInodes()
        root.inode = FileSnapshot(of: roles.tree).inode
        try t.update(root)
        try locateItems(t)
        return true
    }

    /// Replaces the old inode numbers of files that hold prior contents of documents.
    private func translatePriorContents(_ t: Reader) throws {
        for (key, work) in writer.state.pending.all {
            for (index, prior) in work.priorContents.enumerated() {
                guard case .elsewhere(var snapshot) = prior.place,
                    let item = try t.items(inode: snapshot.inode).first,
                    let inode = try inode(of: item, t)
                else { continue }
                snapshot.inode = inode
                writer.state.pending.touch(key) {
                    $0.priorContents[index].place = .elsewhere(snapshot)
                }
            }
        }
    }

    /// Finds the items by their paths. What is there may have changed since, so files are compared.
    /// A program may rename something before the scan gets there. Its event names directories by
    /// their new inode numbers, and a scan that sees no event yet recognizes files by theirs.
    private func locateItems(_ t: Transaction) throws {
        var waiting = [Item.root]
        while let key = waiting.popLast() {
            try t.forEachChild(of: key) { item in
                guard item.kind != .symlink, let inode = try inode(of: item, t) else { return }
                var item = item
                item.inode = inode
                if item.kind == .file { item.changed = 0 }
                try t.update(item)
                if item.kind == .directory { waiting.append(item.key) }
            }
        }
    }

    /// A daemon that was killed may not have looked for the bytes of what its scan did not find.
    /// They may be in another document.
    private func examineDeleted(_ t: Reader) throws {
        for item in try t.deletedItems(before: .max) where item.latest > 0 {
            let current = try item.current.flatMap { try t.version(id: $0)?.version }
            guard let current, current.durability != .hub else { continue }
            writer.state.pending.touch(item.key) { $0.isFound = true }
        }
    }

    /// The present inode number of what is at the item's path; nil if nothing of its kind is there.
    private func inode(of item: Item, _ t: Reader) throws -> UInt64? {
        guard let path = try t.path(of: item.key),
            let file = try? openBeneath(path, from: roles.tree, flags: O_PATH | O_NOFOLLOW)
        else { return nil }
        let snapshot = FileSnapshot(of: file.raw)
        let isContainer = item.kind == .directory || item.kind == .package
        return snapshot.isDirectory == isContainer ? snapshot.inode : nil
    }

    /// Removes the mark when everything was found again and nothing waits to be recorded.
    func forgetWhenSettled() {
        let state = writer.state
        guard state.isCopy, state.scan == nil, state.missing.isEmpty, state.unresolved.isEmpty,
            state.pending.all.isEmpty
        else { return }
        try? writer.journal.write { t in
            if try t.value(CopiedStore.mark) != nil { try t.set(CopiedStore.mark, to: nil) }
        }
    }
}
