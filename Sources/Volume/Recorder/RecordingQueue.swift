import CLinux
import Journal
import Model
import Synchronization

/// Decides which documents are recorded when. Only the recorder's thread uses it, except `isReady`.
final class RecordingQueue {
    private let writer: JournalWriter
    private let processor: EventProcessor
    private let versionRecorder: VersionRecorder
    private let pauses: WorkPauses
    private let closing: ClosingTime
    /// Documents that can be recorded now.
    private let ready = Mutex<[Int64]>([])

    init(
        writer: JournalWriter, processor: EventProcessor, versionRecorder: VersionRecorder,
        pauses: WorkPauses, closing: ClosingTime
    ) {
        self.writer = writer
        self.processor = processor
        self.versionRecorder = versionRecorder
        self.pauses = pauses
        self.closing = closing
    }

    /// The document can be recorded now.
    func isReady(_ key: Int64) { ready.withLock { $0.append(key) } }

    /// The documents of one batch share a sync of the disk and a transaction.
    private static let batchMax = 1024

    private func takeReady() -> [Int64] {
        ready.withLock { ready in
            defer { ready = [] }
            return ready
        }
    }

    /// Records the documents that are due. Returns false if there are none.
    func recordDue() -> Bool {
        let now = cl_clock_monotonic_ns()
        for key in takeReady() { writer.state.pending[key]?.due = now }
        guard writer.state.scan == nil, processor.backlog.isEmpty, !pauses.isRecordingPaused,
            !closing.isOverdue
        else { return false }
        var due: [Int64] = []
        for (key, work) in writer.state.pending.all where work.due <= now {
            due.append(key)
            if due.count == RecordingQueue.batchMax { break }
        }
        guard !due.isEmpty else { return false }
        versionRecorder.record(due, processNews: processor.processNews)
        return true
    }

    /// Records documents that a caller waits for.
    func record(_ focus: [RecorderFocus]) {
        for subject in focus {
            guard let item = try? writer.journal.read({ try item(subject, $0) }) else { continue }
            if case .deleted = subject {
                let deleted = try? writer.journal.read { try $0.deletedItems(in: item.key) }
                let keys = (deleted ?? []).map(\.key).filter { writer.state.pending[$0] != nil }
                for key in keys { writer.state.pending[key]?.isAwaited = true }
                if !keys.isEmpty { recordNow(keys) }
            } else if item.kind == .directory {
                recordAll()
            } else if writer.state.pending[item.key] != nil || item.changed == 0 {
                // Prior contents need not wait for the writer of the present contents.
                writer.state.pending[item.key]?.isAwaited = true
                recordNow([item.key])
            }
        }
    }

    /// Records everything that can be recorded, in batches.
    func recordAll() {
        var left = Array(writer.state.pending.all.keys)
        while !left.isEmpty, !closing.isOverdue {
            let count = recordNow(left.suffix(RecordingQueue.batchMax).reversed())
            if count == 0 { break }
            left.removeLast(count)
        }
    }

    /// Returns how many of them, from the first on, were handled.
    @discardableResult
    private func recordNow(_ keys: [Int64]) -> Int {
        for key in keys where writer.state.pending[key] == nil {
            writer.state.pending[key] = PendingDocument(now: cl_clock_monotonic_ns())
            writer.state.pending[key]?.isFound = true
        }
        return versionRecorder.record(keys, processNews: processor.processNews)
    }

    /// Records some of the items that the scan found new or changed. Returns false if there are
    /// none.
    func recordPending() -> Bool {
        guard let cursor = writer.pendingCursor, writer.state.scan == nil,
            !pauses.isRecordingPaused, !closing.isOverdue
        else { return false }
        guard
            let found = try? writer.journal.read({
                try $0.pendingItems(after: cursor, limit: RecordingQueue.batchMax)
            })
        else { return false }
        guard let last = found.last else {
            writer.pendingCursor = nil
            return false
        }
        writer.pendingCursor = last
        let keys = found.filter { writer.state.pending[$0] == nil }
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
