import Model

extension SyncEngine {
    /// What others may know.
    package struct State: Sendable {
        package var isOffline: Bool
        package var connection = Connection.connecting
        /// The highest journal number of the hub that was heard of.
        package var head: UInt64 = 0
        package var cursor: UInt64 = 0
        /// Somebody waits: a pause after a failure ends.
        package var isUrgent = false
        /// The hub's journal may be another one: it is asked at once.
        var isDoubtful = false
        /// Contents came that items had waited for.
        var isDueAgain = false
        package var brake: Brake?
        /// Why an item is not in step, by its path.
        package var problems: [String: String] = [:]
        /// Deletions that were held are meant.
        package var isBrakeReleased = false
        package var activity = Activity()
        /// On how many devices a version is, as the hub said last.
        var holders: [Identifier: Int] = [:]
        /// Versions of which somebody wants to know that.
        var wanted: Set<Identifier> = []
    }

    package enum Connection: Hashable, Sendable {
        case connecting
        case up
        case offline
        case down(String)
        case signedOut(String)
    }

    /// A mass deletion that is held.
    package struct Brake: Hashable, Sendable {
        package var count: Int
        package var items: Int
    }

    package var report: State { state.withLock { $0 } }

    package var traffic: Traffic { client.traffic }

    /// Bytes a second; nil: as fast as it goes.
    package var limits: (up: Int?, down: Int?) { (upThrottle.rate, hub.throttle.rate) }

    package func limit(up: Int?, down: Int?) {
        upThrottle.set(up)
        hub.throttle.set(down)
    }

    package func releaseBrake() {
        state.withLock { $0.isBrakeReleased = true }
        poke()
    }
}

/// Bytes that go and come, by document.
package struct Activity: Hashable, Sendable {
    package enum Direction: String, Hashable, Sendable { case up, down }

    package struct Line: Hashable, Sendable {
        package var path: String
        package var direction: Direction
        package var done: UInt64
        package var total: UInt64
    }

    /// By item.
    package var lines: [Identifier: Line] = [:]
}
