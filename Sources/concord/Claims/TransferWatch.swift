import Model
import Sync
import Synchronization
import Volume

/// Tells those who watch where contents are of transfers that begin and end, and of what the hub
/// has confirmed.
final class TransferWatch: Sendable {
    private let desk: ClaimService
    private let last = Mutex<Summary?>(nil)

    /// What a client would see. The cursor grows with everything that the hub has confirmed.
    private struct Summary: Equatable {
        let cursor: UInt64
        let unsent: Int
        let sending: Int
        let absent: Int
        let connection: SyncEngine.Connection
        let problems: Set<String>
        let items: Set<Identifier>

        init(_ engine: SyncEngine) throws(VolumeError) {
            let (state, backlog) = (engine.report, try engine.backlog())
            (cursor, connection) = (state.cursor, state.connection)
            (unsent, sending, absent) = (backlog.unsent, backlog.outbox, backlog.absent)
            (problems, items) = (Set(state.problems.keys), Set(state.activity.lines.keys))
        }
    }

    private init(_ desk: ClaimService) { self.desk = desk }

    static func start(_ desk: ClaimService, _ volume: Volume, _ membership: Membership) {
        let watch = TransferWatch(desk)
        membership.onTransfers { watch.look(at: $0) }
        volume.hydration.moved.set { [weak desk] paths in
            guard let desk, desk.areContentsWatched else { return }
            for path in paths.isEmpty ? [[]] : paths { desk.tell(contentsOf: path) }
        }
    }

    private func look(at engine: SyncEngine) {
        guard desk.areContentsWatched else { return last.withLock { $0 = nil } }
        guard let now = try? Summary(engine) else { return }
        let isNew = last.withLock { last in
            defer { last = now }
            return last != now
        }
        if isNew { desk.tell(contentsOf: []) }
    }
}
