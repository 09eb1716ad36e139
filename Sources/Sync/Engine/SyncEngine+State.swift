import Model

extension SyncEngine {
    /// The engine's state that other threads may read.
    package struct State: Sendable {
        package var isOffline: Bool
        package var connection = Connection.connecting
        /// The highest known sequence number of the hub's journal.
        package var head: UInt64 = 0
        package var cursor: UInt64 = 0
        package var standing: Standing
        /// Whether a program or person waits, so that a pause after a failure must end.
        package var isUrgent = false
        /// Whether the hub's journal may have been replaced, so that the hub must be asked at once.
        var mustAskHub = false
        /// Whether something has ended for which items that are due had waited, such as the
        /// download of their contents.
        var isDueAgain = false
        package var brake: Brake?
        /// Why an item is not synchronised, by its path.
        package var problems: [String: String] = [:]
        /// Whether a person has confirmed the held deletions.
        package var isBrakeReleased = false
        package var activity = Activity()
        /// Conflict versions that the hub cannot take for now (`DeviceTable.isHeldBack`).
        var heldBack: Set<Identifier> = []
        /// On how many devices each version is, according to the hub's last answer.
        var holders: [Identifier: Int] = [:]
        /// Versions about which the hub must be asked.
        var wanted: Set<Identifier> = []
    }

    package typealias Connection = HubConnection

    /// A mass deletion that is held back.
    package struct Brake: Hashable, Sendable {
        package var count: Int
        package var items: Int
    }

    package var report: State { state.withLock { $0 } }

    package var traffic: Traffic { client.traffic }

    /// The limits in bytes per second; nil means that there is none.
    package var limits: (up: Int?, down: Int?) { (upThrottle.rate, hub.throttle.rate) }

    package func limit(up: Int?, down: Int?) {
        upThrottle.set(up)
        hub.throttle.set(down)
    }

    /// Switches synchronisation off or on.
    package func setOffline(_ isOffline: Bool) {
        state.withLock { $0.isOffline = isOffline }
        threads.poke()
    }

    package func releaseBrake() {
        state.withLock { $0.isBrakeReleased = true }
        threads.poke()
    }

    /// Returns on how many devices a version is, according to the hub's last answer; nil if the hub
    /// has not been asked. The engine asks soon. The call never blocks.
    package func devices(holding version: Identifier) -> Int? { holders.devices(holding: version) }

    /// The same, but asks the hub now and waits at most this long. After that it returns the last
    /// known answer.
    package func devices(holding version: Identifier, milliseconds: Int64) -> Int? {
        holders.devices(holding: version, milliseconds: milliseconds)
    }
}

/// Whether the hub answers this device.
package enum HubConnection: Hashable, Sendable {
    case connecting
    case up
    case offline
    case down(String)
    case signedOut(String)
    /// The account is not a member of the volume any more, or the volume was removed.
    case removed(String)
}

/// The transfers that are in progress.
package struct Activity: Hashable, Sendable {
    package enum Direction: String, Hashable, Sendable { case up, down }

    package struct Line: Hashable, Sendable {
        package var path: String
        package var direction: Direction
        package var done: UInt64
        package var total: UInt64
    }

    /// The transfers, by item.
    package var lines: [Identifier: Line] = [:]
}
