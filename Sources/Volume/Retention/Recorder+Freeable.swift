import CLinux
import Journal
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

extension Recorder {
    /// Measures when there is nothing else to do, the journal has changed, and the last measurement
    /// is long enough ago for the costs to be small.
    func measureFreeable() {
        let count = journal.transactionCount
        let start = cl_clock_monotonic_ns()
        guard settings.freeShare > 0, state.scan == nil, backlog.isEmpty,
            !freeable.isCurrent(at: count), start >= nextMeasuring
        else { return }
        do {
            freeable.set(try freeableBytes(), at: count)
        } catch {
            log.warning("The space that can be freed cannot be measured: \(error)")
        }
        let end = cl_clock_monotonic_ns()
        nextMeasuring = end + max(100 * (end - start), nanoseconds(settings.settleSeconds))
    }

    /// When to measure again; nil while the journal has not changed.
    var measuringDue: Int64? {
        let isDue = settings.freeShare > 0 && !freeable.isCurrent(at: journal.transactionCount)
        return isDue ? nextMeasuring : nil
    }

    func freeableBytes() throws(VolumeError) -> Int64 {
        try journal.read { reader in
            let inPacks = try self.freeableInPacks(reader)
            let inStash = try self.removableContents(reader).reduce(0) { $0 + $1.size }
            let twice = try self.freeableDuplicates(reader)
            return inPacks + inStash + twice
        }
    }

    /// The bytes in the packs that only removable versions use.
    private func freeableInPacks(_ reader: Reader) throws -> Int64 {
        var uses = try usedChunks(reader)
        guard !uses.isEmpty else { return 0 }
        var bytes = uses.values.reduce(0) { $1.uses == 0 ? $0 + $1.bytes : $0 }
        try reader.forEachItem { item in
            guard item.latest > 1 || item.deleted != nil else { return }
            try self.forEachVersion(of: item, reader) { version, reason in
                guard reason == nil else { return }
                bytes += try uses.release(version.version, reader)
            }
        }
        return bytes
    }
}
