import Journal

/// The files that programs have open for writing, as far as their events were processed. The
/// journal has them from the end of the transaction on until their documents are recorded, so that
/// after a loss of power a part of a save is not taken for one.
struct UnfinishedFiles {
    let contents: OpenContents
    /// The item of each file that is open, by its inode.
    private var open = RevertibleDictionary<UInt64, Int64>()
    /// The files of each item that were open since it was recorded.
    private var files = RevertibleDictionary<Int64, Set<UInt64>>()
    /// What has changed since the last transaction.
    private var begun: Set<UInt64> = []
    private var changed: Set<UInt64> = []
    private var ended: Set<Int64> = []
    /// Files that were closed and belong to no item.
    private var strays: Set<UInt64> = []
    private var marked:
        (begun: Set<UInt64>, changed: Set<UInt64>, ended: Set<Int64>, strays: Set<UInt64>)?

    init(marks: OpenMarks? = nil) { contents = OpenContents(marks: marks) }

    /// A program has opened a file of this item for writing.
    mutating func begin(_ inode: UInt64, of item: Int64) {
        open[inode] = item
        files[item, default: []].insert(inode)
        begun.insert(inode)
    }

    /// A file of this item has changed while it was read for a version. Whether a program has it
    /// open is not known.
    mutating func noteChange(of inode: UInt64, of item: Int64) {
        files[item, default: []].insert(inode)
        changed.insert(inode)
    }

    /// Whether a program has the file open for writing.
    func isOpen(_ inode: UInt64) -> Bool { open[inode] != nil }

    /// The last program has closed the file.
    mutating func end(_ inode: UInt64) {
        if let item = open.removeValue(forKey: inode) {
            ended.insert(item)
        } else {
            strays.insert(inode)
        }
    }

    /// Nothing of this item is left to be recorded.
    mutating func endRecording(of item: Int64) { ended.insert(item) }

    /// Writes the changes to the journal. The files of a pending document stay there.
    mutating func write(_ t: Transaction, isPending: (Int64) -> Bool) throws {
        let new = changed.union(begun.filter { open[$0] != nil })
        for inode in new where !contents.isNoted(inode) {
            try UnfinishedFile.add(inode, contents.note(inode), t)
        }
        for item in ended where !isPending(item) {
            guard let all = files[item] else { continue }
            let left = all.filter { open[$0] != nil || contents.isOpen($0) }
            files[item] = left.isEmpty ? nil : left
            for inode in all.subtracting(left) {
                // It may have been renamed, and be another document now.
                if let owner = try t.items(inode: inode).first(where: { isPending($0.key) }) {
                    files[owner.key, default: []].insert(inode)
                } else {
                    try remove(inode, t)
                }
            }
        }
        for inode in strays where !contents.isOpen(inode) { try remove(inode, t) }
        (begun, changed, ended, strays) = ([], [], [], [])
    }

    private func remove(_ inode: UInt64, _ t: Transaction) throws {
        if contents.isNoted(inode) { try UnfinishedFile.remove(inode, t) }
        contents.remove(inode)
    }

    mutating func mark() {
        open.mark()
        files.mark()
        contents.mark()
        marked = (begun, changed, ended, strays)
    }

    mutating func removeMark() {
        open.removeMark()
        files.removeMark()
        contents.removeMark()
        marked = nil
    }

    /// What the failed transaction has not written is written by the next one.
    mutating func revert() {
        open.revert()
        files.revert()
        contents.revert()
        if let marked { (begun, changed, ended, strays) = marked }
        marked = nil
    }
}
