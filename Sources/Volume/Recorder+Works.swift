import CLinux
import Journal
import Model

// Which documents are cut when.
extension Recorder {
    /// Documents cut in one go share a sync of the disk and a transaction.
    private static let batchMax = 1024

    /// Cuts the documents whose time has come; false when there are none.
    func recordDue() -> Bool {
        let now = cl_clock_monotonic_ns()
        for key in takeReady() { memory.works[key]?.due = now }
        guard memory.scan == nil, backlog.isEmpty, !isRecordingPaused, !isOverdue
        else { return false }
        var due: [Int64] = []
        for (key, work) in memory.works.all where work.due <= now {
            due.append(key)
            if due.count == Recorder.batchMax { break }
        }
        guard !due.isEmpty else { return false }
        record(due)
        return true
    }

    /// Somebody asks about these documents: they are cut before he is answered.
    func record(_ focus: [Focus]) {
        for subject in focus {
            guard let item = try? journal.read({ try item(subject, $0) }) else { continue }
            if case .deleted = subject {
                let deleted = try? journal.read { try $0.deletedItems(in: item.key) }
                let keys = (deleted ?? []).map(\.key).filter { memory.works[$0] != nil }
                for key in keys { memory.works[key]?.since = 0 }
                if !keys.isEmpty { recordNow(keys) }
            } else if item.kind == .directory {
                recordAll()
            } else if memory.works[item.key] != nil || item.changed == 0 {
                // Former contents need not wait for the writer of the current one.
                memory.works[item.key]?.since = 0
                recordNow([item.key])
            }
        }
    }

    /// Everything that can be recorded, in batches.
    func recordAll() {
        var left = Array(memory.works.all.keys)
        while !left.isEmpty, !isOverdue {
            let count = recordNow(left.suffix(Recorder.batchMax).reversed())
            if count == 0 { break }
            left.removeLast(count)
        }
    }

    /// How many of them, from the first on, were looked at.
    @discardableResult
    private func recordNow(_ keys: [Int64]) -> Int {
        for key in keys where memory.works[key] == nil {
            memory.works[key] = Work(now: cl_clock_monotonic_ns())
            memory.works[key]?.isFound = true
        }
        return record(keys)
    }

    /// Items that the scan found new or changed, a few at a time; false when there are none.
    func recordPending() -> Bool {
        guard let cursor = pendingCursor, memory.scan == nil, !isRecordingPaused, !isOverdue
        else { return false }
        guard
            let found = try? journal.read({
                try $0.pendingItems(after: cursor, limit: Recorder.batchMax)
            })
        else { return false }
        guard let last = found.last else {
            pendingCursor = nil
            return false
        }
        pendingCursor = last
        let keys = found.filter { memory.works[$0] == nil }
        if !keys.isEmpty { recordNow(keys) }
        return true
    }

    /// The item that a path leads to, or led to last; nil when there was none.
    private func item(_ focus: Focus, _ t: Reader) throws -> Item? {
        let path: [Name]
        switch focus {
        case .item(let key): return try t.item(key)
        case .path(let names), .deleted(from: let names): path = names
        }
        var item = try t.item(Item.root)
        for name in path {
            guard let parent = item else { return nil }
            if parent.kind == .package { return parent }
            item =
                try t.item(parent: parent.key, name: name)
                ?? t.deletedItem(parent: parent.key, name: name)
        }
        return item
    }
}
