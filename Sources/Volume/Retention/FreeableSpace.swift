import CLinux
import Journal
import Logging
import Model
import Synchronization
import SystemCalls

/// The last measured number of bytes that can be removed to make room for programs. statfs(2)
/// counts them as free.
final class Freeable: Sendable {
    private let bytesFound = Atomic<Int64>(0)
    /// The journal's transaction count at the measurement; -1 before the first one.
    private let state = Atomic<Int>(-1)

    var bytes: Int64 { bytesFound.load(ordering: .relaxed) }

    func isCurrent(at transactions: Int) -> Bool {
        state.load(ordering: .relaxed) == transactions
    }

    func set(_ bytes: Int64, at transactions: Int) {
        bytesFound.store(bytes, ordering: .relaxed)
        state.store(transactions, ordering: .relaxed)
    }
}

/// Measures how many bytes can be removed. Only the recorder's thread uses it.
final class FreeableSpace {
    private let journal: Journal
    private let settings: Settings
    private let versions: VersionRemoval
    private let contents: StashRemoval
    private let duplicates: DuplicateRemoval
    private let log: Logger
    private let freeable: Freeable
    private var nextMeasuring: Int64 = 0

    init(
        journal: Journal, settings: Settings, versions: VersionRemoval, contents: StashRemoval,
        duplicates: DuplicateRemoval, freeable: Freeable, log: Logger
    ) {
        self.journal = journal
        self.settings = settings
        self.versions = versions
        self.contents = contents
        self.duplicates = duplicates
        self.freeable = freeable
        self.log = log
    }

    /// Measures if the journal has changed and the last measurement is long enough ago for the
    /// costs to be small.
    func measure() {
        let count = journal.transactionCount
        let start = cl_clock_monotonic_ns()
        guard settings.freeShare > 0, !freeable.isCurrent(at: count), start >= nextMeasuring
        else { return }
        do {
            freeable.set(try bytes(), at: count)
        } catch {
            log.warning("The space that can be freed cannot be measured: \(error)")
        }
        let end = cl_clock_monotonic_ns()
        nextMeasuring =
            end + max(100 * (end - start), Timestamp.span(seconds: settings.settleSeconds))
    }

    /// When to measure again; nil while the journal has not changed.
    var due: Int64? {
        let isDue = settings.freeShare > 0 && !freeable.isCurrent(at: journal.transactionCount)
        return isDue ? nextMeasuring : nil
    }

    func bytes() throws(VolumeError) -> Int64 {
        try journal.read { reader in
            let inPacks = try self.bytesInPacks(reader)
            let inStash = try self.contents.removable(reader).reduce(0) { $0 + $1.size }
            let twice = try self.duplicates.freeable(reader)
            return inPacks + inStash + twice
        }
    }

    /// The bytes in the packs that only removable versions use.
    private func bytesInPacks(_ reader: Reader) throws -> Int64 {
        var uses = try versions.usedChunks(reader)
        guard !uses.isEmpty else { return 0 }
        var bytes = uses.values.reduce(0) { $1.uses == 0 ? $0 + $1.bytes : $0 }
        try reader.forEachItem { item in
            guard item.latest > 1 || item.deleted != nil else { return }
            try self.versions.forEachVersion(of: item, reader) { version, reason in
                guard reason == nil else { return }
                bytes += try uses.release(version.version, reader)
            }
        }
        return bytes
    }
}
