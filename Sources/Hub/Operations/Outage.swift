import Logging
import Model
import Synchronization

/// Whether the ledger's database, or the server with the blobs, can be used. The beginning and the
/// end of an outage are logged, and not each request in between.
final class Outage: Sendable {
    private let isDown = Atomic<Bool>(false)

    /// - Parameter error: An error with the code `.offline`.
    func begin(_ error: VolumeError, _ log: Logger) {
        guard !isDown.exchange(true, ordering: .relaxed) else { return }
        log.error("requests are answered by 503 until this is over: \(error)")
    }

    /// Notes that both can be used.
    func end(_ log: Logger) {
        guard isDown.exchange(false, ordering: .relaxed) else { return }
        log.notice("requests are answered again")
    }
}
