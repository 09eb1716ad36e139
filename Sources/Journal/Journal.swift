internal import GRDB
import Model
import Synchronization

/// A device's journal: which items, versions and chunks there are. One process has it open; one
/// thread of it writes.
///
/// After `write` has returned, a loss of power does not undo it.
package final class Journal: Sendable {
    package let path: String
    let pool: DatabasePool
    private let transactions = Atomic<Int>(0)
    /// Called when a transaction was rolled back because the disk is full; returns whether it has
    /// freed space.
    package let full = Hook<@Sendable () -> Bool>()
    private let isRetryable = Atomic(false)
    private let rows = Atomic<Int>(0)

    init(path: String, pool: DatabasePool) {
        self.path = path
        self.pool = pool
    }

    /// How many writing transactions were committed since opening; each costs a sync of the disk.
    package var transactionCount: Int { transactions.load(ordering: .relaxed) }

    /// How many rows were read since opening, for tests of cost.
    package var rowCount: Int { rows.load(ordering: .relaxed) }

    /// Runs `body` in one transaction, which is rolled back when `body` throws. Not to be called
    /// inside another.
    ///
    /// - Throws: What `body` threw (an error that is no `VolumeError` becomes `.system`); `.full`,
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

    /// Whether the disk was full since the last call and there is room for another try.
    package func takeRetry() -> Bool {
        isRetryable.exchange(false, ordering: .acquiringAndReleasing)
    }

    /// The log's own space serves again once its contents are in the database.
    private func findSpace() {
        let isFreed = full.current?() ?? false
        let isLogReusable = (try? restartLog()) ?? false
        if isFreed || isLogReusable { isRetryable.store(true, ordering: .releasing) }
    }

    /// Runs `body` on a consistent snapshot, on any thread, beside a writer.
    ///
    /// - Throws: What `body` threw (an error that is no `VolumeError` becomes `.system`);
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
                // `body` may have swallowed the error with which SQLite rolled everything back.
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
    }
}
