import Journal

/// The files that programs have open for writing, as far as their events were processed. The
/// journal has them from the end of the transaction on until their documents are recorded, so that
/// after a loss of power a part of a save is not taken for one.
struct UnfinishedFiles {
    let contents = OpenContents()
    /// The item of each file that is open, by its inode.
    private var open = RevertibleDictionary<UInt64, Int64>()
    /// The files that the journal has, by item.
    private var noted = RevertibleDictionary<Int64, Set<UInt64>>()
    /// What has changed since the last transaction.
    private var begun: Set<UInt64> = []
    private var ended: Set<Int64> = []
    /// Files that the journal has, and that belong to no item.
    private var strays: Set<UInt64> = []

    /// A program has opened a file of this item for writing.
    mutating func begin(_ inode: UInt64, of item: Int64) {
        open[inode] = item
        begun.insert(inode)
    }

    /// Whether a program has a file of this item open for writing.
    func hasOpen(_ item: Int64) -> Bool { noted[item]?.contains { open[$0] != nil } ?? false }

    /// The last program has closed the file.
    mutating func end(_ inode: UInt64) {
        let isNoted = contents.isNoted(inode)
        guard let item = open.removeValue(forKey: inode) else {
            if isNoted { strays.insert(inode) }
            return
        }
        ended.insert(item)
        if isNoted { noted[item, default: []].insert(inode) }
    }

    /// Nothing of this item is left to be recorded.
    mutating func endRecording(of item: Int64) { ended.insert(item) }

    /// Writes the changes to the journal. The files of a pending document stay there.
    mutating func write(_ t: Transaction, isPending: (Int64) -> Bool) throws {
        for inode in begun {
            guard let item = open[inode], noted[item]?.contains(inode) != true else { continue }
            try t.addUnfinished(inode, contents.note(inode))
            noted[item, default: []].insert(inode)
        }
        for item in ended where !isPending(item) {
            guard let files = noted[item] else { continue }
            let left = files.filter { open[$0] != nil || contents.isOpen($0) }
            for inode in files.subtracting(left) { try remove(inode, t) }
            noted[item] = left.isEmpty ? nil : left
        }
        for inode in strays { try remove(inode, t) }
        (begun, ended, strays) = ([], [], [])
    }

    private func remove(_ inode: UInt64, _ t: Transaction) throws {
        try t.removeUnfinished(inode)
        contents.remove(inode)
    }

    mutating func mark() {
        open.mark()
        noted.mark()
    }

    mutating func removeMark() {
        open.removeMark()
        noted.removeMark()
    }

    mutating func revert() {
        open.revert()
        noted.revert()
    }
}
