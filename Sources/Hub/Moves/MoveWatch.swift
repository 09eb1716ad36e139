import Logging
import Model
import Synchronization

/// What a running hub knows of a move of its ledger. The triggers of `ChangeCapture` refuse changes
/// while the move is frozen; this ends the freezing if the mover does not, and the hub when it has
/// left.
final class MoveWatch: Sendable {
    private struct State {
        /// When the hub has seen first that it is frozen.
        var frozen: Int64?
        /// Whether a move has begun and not ended.
        var isUnderWay = false
        /// Why the hub may not be used any more.
        var departure: VolumeError?
    }

    private let state = Mutex(State())
    private let uptime: @Sendable () -> Int64
    /// Yields when the hub has left.
    let departures: AsyncStream<Void>
    private let departs: AsyncStream<Void>.Continuation

    /// For how long a hub stays frozen. A mover needs less than a second, and one that died has to
    /// begin again anyway.
    private static let patience = Timestamp.span(seconds: 30)

    init(uptime: @escaping @Sendable () -> Int64) {
        self.uptime = uptime
        (departures, departs) = AsyncStream.makeStream()
    }

    /// A hub that starts ends the freezing, because it or the mover may have been killed in it. A
    /// mover that is alive sees that the hub was not frozen all the time.
    ///
    /// - Throws: `.invalid` if the hub is at another place.
    static func begin(_ ledger: any Ledger) async throws {
        let record = try await ledger.read { try MoveTable($0).record() }
        if record?.state == .frozen {
            _ = try await ledger.write { try MoveTable($0).change(from: .frozen, to: .leaving) }
        }
        try await ledger.read { try MoveTable($0).checkHubIsHere() }
    }

    var isUnderWay: Bool { state.withLock { $0.isUnderWay } }

    /// Why the hub has to end; nil if it has not been moved away.
    var departure: VolumeError? { state.withLock { $0.departure } }

    /// Looks how far a move is. A running hub calls this when its ledger was changed by another
    /// process, and often while a move is under way.
    func check(_ ledger: any Ledger, _ log: Logger) async throws {
        let record = try await ledger.read { try MoveTable($0).record() }
        let now = uptime()
        let isOver = state.withLock { state in
            if record?.state == .left { state.departure = record?.objection }
            state.isUnderWay = record?.state == .leaving || record?.state == .frozen
            state.frozen = record?.state == .frozen ? state.frozen ?? now : nil
            return state.frozen.map { now - $0 > Self.patience } ?? false
        }
        if record?.state == .left { departs.yield() }
        guard isOver else { return }
        // The mover, if it comes back, sees that the hub was not frozen all the time.
        let isFreed = try await ledger.write {
            try MoveTable($0).change(from: .frozen, to: .leaving)
        }
        state.withLock { $0.frozen = nil }
        if isFreed {
            log.warning("concord hub move has stopped in the middle: commits are answered again")
        }
    }
}
