import CLinux
import Journal
import Model

// Decides which documents are recorded when.
extension Recorder {
    /// The documents of one batch share a sync of the disk and a transaction.
    private static let batchMax = 1024

    /// Records the documents that are due. Returns false if there are none.
    func recordDue() -> Bool {
        let now = cl_clock_monotonic_ns()
        for key in takeReady() { state.pending[key]?.due = now }
        guard state.scan == nil, backlog.isEmpty, !pauses.isRecordingPaused, !isOverdue
        else { return false }
        var due: [Int64] = []
        for (key, work) in state.pending.all where work.due <= now {
            due.append(key)
            if due.count == Recorder.batchMax { break }
        }
        guard !due.isEmpty else { return false }
        record(due)
        return true
    }

    /// Records documents that a caller waits for.
    func record(_ focus: [RecorderFocus]) {
        for subject in focus {
            guard let item = try? journal.read({ try item(subject, $0) }) else { continue }
            if case .deleted = subject {
                let deleted = try? journal.read { try $0.deletedItems(in: item.key) }
                let keys = (deleted ?? []).map(\.key).filter { state.pending[$0] != nil }
                for key in keys { state.pending[key]?.since = 0 }
                if !keys.isEmpty { recordNow(keys) }
            } else if item.kind == .directory {
                recordAll()
            } else if state.pending[item.key] != nil || item.changed == 0 {
                // Prior contents need not wait for the writer of the present contents.
                state.pending[item.key]?.since = 0
                recordNow([item.key])
            }
        }
    }

    /// Records everything that can be recorded, in batches.
    func recordAll() {
        var left = Array(state.pending.all.keys)
        while !left.isEmpty, !isOverdue {
            let count = recordNow(left.suffix(Recorder.batchMax).reversed())
            if count == 0 { break }
            left.removeLast(count)
        }
    }

    /// Returns how many of them, from the first on, were handled.
    @discardableResult
    private func recordNow(_ keys: [Int64]) -> Int {
        for key in keys where state.pending[key] == nil {
            state.pending[key] = PendingDocument(now: cl_clock_monotonic_ns())
            state.pending[key]?.isFound = true
        }
        return record(keys)
    }

    /// Records some of the items that the scan found new or changed. Returns false if there are
    /// none.
    func recordPending() -> Bool {
        guard let cursor = pendingCursor, state.scan == nil, !pauses.isRecordingPaused, !isOverdue
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
        let keys = found.filter { state.pending[$0] == nil }
        if !keys.isEmpty { recordNow(keys) }
        return true
    }

    /// The item that has a path, or had it last; nil if there was none.
    private func item(_ focus: RecorderFocus, _ t: Reader) throws -> Item? {
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
