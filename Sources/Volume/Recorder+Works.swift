import CLinux
import Journal
import Model

// Which documents are cut when.
extension Recorder {
    /// Documents cut in one go share a sync of the disk and a transaction.
    private static let batchMax = 128

    /// Cuts the documents whose time has come; false when there are none.
    func recordDue() -> Bool {
        let now = cl_clock_monotonic_ns()
        guard now >= pausedUntil else { return false }
        var due: [Int64] = []
        for (key, work) in works where work.due <= now {
            due.append(key)
            if due.count == Recorder.batchMax { break }
        }
        guard !due.isEmpty else { return false }
        record(due)
        return true
    }

    /// Somebody asks about these documents: they are cut before he is answered.
    func record(paths: [[Name]]) {
        for path in paths {
            guard let item = try? journal.read({ try item(at: path, $0) }) else { continue }
            if item.kind == .directory {
                recordAll(below: item.key)
            } else if works[item.key] != nil || item.changed == 0 {
                recordNow([item.key])
            }
        }
    }

    /// Everything that can be recorded, in batches.
    func recordAll(below directory: Int64? = nil) {
        _ = directory
        var seen: Set<Int64> = []
        while true {
            let batch = works.keys.filter { !seen.contains($0) }.prefix(Recorder.batchMax)
            if batch.isEmpty { break }
            seen.formUnion(batch)
            recordNow(Array(batch))
        }
    }

    private func recordNow(_ keys: [Int64]) {
        for key in keys where works[key] == nil {
            works[key] = Work(since: cl_clock_monotonic_ns(), due: 0)
        }
        record(keys)
    }

    /// Items that the scan found new or changed, a few at a time; false when there are none.
    func recordPending() -> Bool {
        guard let cursor = pendingCursor, scan == nil, cl_clock_monotonic_ns() >= pausedUntil
        else { return false }
        guard let found = try? journal.read({ try $0.pendingItems(after: cursor, limit: 64) })
        else { return false }
        guard let last = found.last else {
            pendingCursor = nil
            return false
        }
        pendingCursor = last
        let keys = found.filter { works[$0] == nil }
        if !keys.isEmpty { recordNow(keys) }
        return true
    }

    /// The item that a path leads to; nil when there is none.
    func item(at path: [Name], _ t: Reader) throws -> Item? {
        var item = try t.item(Item.root)
        for name in path {
            guard let parent = item else { return nil }
            if parent.kind == .package { return parent }
            item = try t.item(parent: parent.key, name: name)
        }
        return item
    }

    /// Looks again later: after a second, then after two, at most after a minute.
    func postpone(_ key: Int64) {
        guard var work = works[key] else { return }
        work.attempts += 1
        let seconds = Double(min(60, 1 << min(work.attempts - 1, 6)))
        work.due = cl_clock_monotonic_ns() + nanoseconds(seconds)
        works[key] = work
    }
}
