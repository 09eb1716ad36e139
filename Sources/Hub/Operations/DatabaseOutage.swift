import Logging
import Model
import Synchronization

/// Whether the ledger's database can be reached. The beginning and the end of an outage are logged,
/// and not each request in between.
final class DatabaseOutage: Sendable {
    private let isDown = Atomic<Bool>(false)

    /// - Parameter error: An error with the code `.offline`.
    func begin(_ error: VolumeError, _ log: Logger) {
        guard !isDown.exchange(true, ordering: .relaxed) else { return }
        log.error("requests are answered by 503 until the database is back: \(error)")
    }

    /// Notes that the database has answered.
    func end(_ log: Logger) {
        guard isDown.exchange(false, ordering: .relaxed) else { return }
        log.notice("the database of the ledger is back")
    }
}
