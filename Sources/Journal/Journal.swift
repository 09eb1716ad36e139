internal import GRDB
import Model
import Synchronization

/// A device's journal: its items, versions and chunks. Only one process may open it, and one thread
/// of that process writes.
///
/// Once `write` has returned, a loss of power does not undo the transaction.
package final class Journal: Sendable {
    package let path: String
    let pool: DatabasePool
    private let transactions = Atomic<Int>(0)
    /// Called after a transaction was rolled back because the disk is full. Returns whether it has
    /// freed space.
    package let full = CallbackSlot<@Sendable () -> Bool>()
    private let isRetryable = Atomic(false)
    private let rows = Atomic<Int>(0)
    private let statements = Atomic<Int>(0)

    init(path: String, pool: DatabasePool) {
        self.path = path
        self.pool = pool
    }

    /// The number of writing transactions since the journal was opened. Each costs a sync of the
    /// disk.
    package var transactionCount: Int { transactions.load(ordering: .relaxed) }

    /// The number of rows read since the journal was opened. Tests assert costs with it.
    package var rowCount: Int { rows.load(ordering: .relaxed) }

    /// The number of statements run since the journal was opened, for the same purpose.
    package var statementCount: Int { statements.load(ordering: .relaxed) }

    /// Runs `body` in one transaction, which is rolled back when `body` throws. Must not be called
    /// inside another transaction.
    ///
    /// - Throws: What `body` threw (an error other than `VolumeError` becomes `.system`); `.full`,
    ///   `.damaged`.
    @discardableResult
    package func write<T>(_ body: (Transaction) throws -> T) throws(VolumeError) -> T {
        do {
            let result = try pool.writeWithoutTransaction { database in
                try transact(in: database, body)
            }
            transactions.add(1, ordering: .relaxed)
            return result
        } catch {
            let error = VolumeError(error, journal: path)
            if error.code == .full { findSpace() }
            throw error
        }
    }

    /// Whether the disk was full since the last call and a new attempt may succeed.
    package func takeRetry() -> Bool {
        isRetryable.exchange(false, ordering: .acquiringAndReleasing)
    }

    /// The space of the log can be used again once its contents are in the database.
    private func findSpace() {
        let isFreed = full.current?() ?? false
        let isLogReusable = (try? restartLog()) ?? false
        if isFreed || isLogReusable { isRetryable.store(true, ordering: .releasing) }
    }

    /// Runs `body` on a consistent snapshot, on any thread, while the writer continues.
    ///
    /// - Throws: What `body` threw (an error other than `VolumeError` becomes `.system`);
    ///   `.damaged`.
    package func read<T>(_ body: (Reader) throws -> T) throws(VolumeError) -> T {
        do {
            return try pool.read { database in
                let reader = try Reader(database, path: path)
                defer { close(reader) }
                return try body(reader)
            }
        } catch {
            throw VolumeError(error, journal: path)
        }
    }

    private func transact<T>(
        in database: Database, _ body: (Transaction) throws -> T
    ) throws(VolumeError) -> T {
        var result: T?
        do {
            try database.inTransaction(.immediate) {
                let transaction = try Transaction(database, path: path)
                defer { close(transaction) }
                result = try body(transaction)
                // `body` may have ignored the error with which SQLite rolled back the whole
                // transaction.
                if let failure = transaction.failure { throw failure }
                return .commit
            }
        } catch {
            throw VolumeError(error, journal: path, in: database)
        }
        return result!
    }

    private func close(_ reader: Reader) {
        reader.close()
        rows.add(reader.rowCount, ordering: .relaxed)
        statements.add(reader.statementCount, ordering: .relaxed)
    }
}
