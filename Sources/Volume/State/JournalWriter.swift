import CLinux
import Journal
import Model

/// The recorder's door to the journal. A transaction changes the journal and the recorder's state
/// together: if it fails, both are as before. Each transaction that changes prior contents also
/// writes them to the journal. Only the recorder's thread uses it.
final class JournalWriter {
    let journal: Journal
    private let stash: Stash
    let barrier: WriteBarrier
    var state: RecorderState
    /// Whether the present transaction describes names that may not be on the disk yet.
    var describesNames = false
    /// The journal as it was when the current batch of recordings began.
    private var snapshot: Reader?
    /// The time of the event that is being processed, in nanoseconds since 1970.
    var eventTime: Int64 = 0
    /// The key up to which changed items (`changed = 0`) were searched; nil at the end.
    var pendingCursor: Int64? = 0
    /// Called after each committed transaction.
    var didCommit: () -> Void = {}

    init(journal: Journal, stash: Stash, settings: Settings, debounce: Debounce) {
        self.journal = journal
        self.stash = stash
        barrier = WriteBarrier(directory: stash.directory)
        let marks = barrier.commitsParts ? OpenMarks(directory: stash.directory) : nil
        state = RecorderState(
            pending: PendingTable(debounce: debounce, postponeSeconds: settings.postponeSeconds),
            unfinished: UnfinishedFiles(marks: marks))
    }

    /// Runs one transaction of the journal. If it fails, the state in memory is reverted too.
    func transact(_ body: (Transaction) throws -> Void) throws(VolumeError) {
        state.mark()
        describesNames = false
        do throws(VolumeError) {
            try noteOpenFiles()
            try journal.write { t in
                try body(t)
                try writePriorContents(t)
                try state.unfinished.write(t) { [pending = state.pending] in pending[$0] != nil }
                guard describesNames else { return }
                // Adds the files that were opened after `noteOpenFiles` was called.
                if barrier.commitsParts { try state.unfinished.contents.noteAll(t) }
                try barrier.pass()
            }
        } catch {
            state.revert()
            throw error
        }
        state.removeMark()
        didCommit()
    }

    /// To be called before `barrier.pass`, which may make durable what programs are writing.
    func noteOpenFiles() throws(VolumeError) {
        let contents = state.unfinished.contents
        guard barrier.commitsParts, contents.hasUnnoted else { return }
        do throws(VolumeError) { try journal.write { try contents.noteAll($0) } } catch {
            contents.revert()
            throw error
        }
        contents.removeMark()
    }

    /// Reads the journal as it was when the batch began. One snapshot serves the whole batch,
    /// because opening one costs more than the reading.
    func look<T>(_ body: (Reader) throws -> T) throws(VolumeError) -> T {
        guard let snapshot else { return try journal.read(body) }
        do {
            return try body(snapshot)
        } catch let error as VolumeError {
            throw error
        } catch {
            throw VolumeError(.system, "\(error)")
        }
    }

    /// Runs `body`, in which `look` reads one snapshot of the journal.
    func readBatch(_ body: () throws(VolumeError) -> Void) throws(VolumeError) {
        try journal.read { try looking(at: $0, body) }
    }

    /// Runs `body`, in which `look` uses this snapshot or transaction.
    func looking(at reader: Reader, _ body: () throws(VolumeError) -> Void) throws(VolumeError) {
        snapshot = reader
        defer { snapshot = nil }
        try body()
    }

    /// Reads one version without reading the whole history, which is long where a program saves
    /// every second.
    func version(_ id: Identifier?, of item: Item) throws(VolumeError) -> Version? {
        guard let id, let found = try look({ try $0.version(id: id) }), found.item == item.key
        else { return nil }
        return found.version
    }

    /// The path of an item, for people.
    func shown(_ item: Item) -> String {
        (try? look { try $0.path(of: item.key) })?.shown ?? item.name.text
    }

    /// Removes the stash files that committed transactions have made superfluous.
    func removeUnneededStashFiles() {
        for name in state.filesToRemove { stash.remove(name) }
        state.filesToRemove = []
    }

    // MARK: Scans

    /// Compares the whole tree with the journal, before further events are processed.
    func startScan() {
        state.scan = .whole
        pendingCursor = 0
    }

    /// Scans one subtree again, before further events are processed.
    func rescan(_ key: Int64) {
        if state.scan == nil { state.scan = Scan(waiting: [], isWhole: false) }
        state.scan?.waiting.append(key)
        pendingCursor = 0
    }

    /// Compares single names again, with what is below them.
    func rescan(_ names: [Scan.Entry]) {
        guard !names.isEmpty else { return }
        if state.scan == nil { state.scan = Scan(waiting: [], isWhole: false) }
        state.scan?.names += names
        pendingCursor = 0
    }

    // MARK: Prior contents in the journal

    /// Writes the changed prior contents to the journal. Stash files that no document needs are
    /// removed after the transaction.
    func writePriorContents(_ t: Transaction) throws {
        for entry in state.pending.takeUnclaimed() {
            // Documents that expect this inode in the tree find it in the stash now.
            if entry.kind == .displaced { state.pending.transferContent(entry) }
            if !state.pending.needs(entry), !state.unresolved.contains(entry) {
                state.filesToRemove.append(entry.file)
            }
        }
        for key in state.pending.takeChanged() {
            try writePriorContents(of: key, state.pending[key]?.priorContents ?? [], t)
        }
    }

    private func writePriorContents(
        of key: Int64, _ priorContents: [PriorContent], _ t: Transaction
    ) throws {
        if state.written[key] != nil { try t.removeStashed(prefix: PriorContent.rowPrefix(key)) }
        state.written[key] = priorContents.isEmpty ? nil : priorContents.count
        for (index, prior) in priorContents.enumerated() {
            try t.insert(prior.row(of: key, index: index))
        }
    }

    /// Reads the prior contents that the last daemon has left. A document may have thousands; it
    /// gets all of them at once, because each change costs as much as there are.
    func readPriorContents(_ t: Transaction) throws {
        var known: [Int64: [PriorContent]] = [:]
        for row in try t.stashed() {
            guard let key = row.item, var prior = PriorContent(row), let item = try t.item(key)
            else {
                try t.removeStashed(row.name)
                continue
            }
            // It is unknown now whether its replacement in the package is complete.
            if item.kind == .package { prior.isRecovered = true }
            known[key, default: []].append(prior)
        }
        for (key, priorContents) in known {
            state.written[key, default: 0] += priorContents.count
            state.pending.touch(key) { $0.priorContents += priorContents }
        }
    }
}
