import Model

// What the verbs of the hub and of contents answer.

/// `identity`: everything but `name` left out when signed out.
package struct IdentityReport: Codable, Hashable, Sendable {
    /// The volume's.
    package var name: String
    /// Opaque; the same on all devices of the person for this volume, also while offline.
    package var token: String?
    package var hub: String?
    package var user: String?
    package var device: String?
    package var deviceName: String?
    package var offline: Bool?

    package init(name: String) { self.name = name }
}

package struct DevicesReport: Codable, Hashable, Sendable {
    package struct Device: Codable, Hashable, Sendable {
        package var id: String
        package var name: String
        package var enrolled: Int64
        package var seen: Int64
        package var revoked: Bool
        /// The one that was asked.
        package var here: Bool

        package init(
            id: String, name: String, enrolled: Int64, seen: Int64, revoked: Bool, here: Bool
        ) {
            (self.id, self.name, self.enrolled) = (id, name, enrolled)
            (self.seen, self.revoked, self.here) = (seen, revoked, here)
        }
    }

    package var devices: [Device]

    package init(devices: [Device]) { self.devices = devices }
}

/// In `status` of a volume that belongs to a hub.
package struct HubReport: Codable, Hashable, Sendable {
    package var address: String
    package var user: String
    package var volume: String
    /// connecting, up, offline, down, signed out.
    package var state: String
    /// What is wrong, and what to do; empty when nothing is.
    package var reason: String
    /// The hub's journal, and how far this device knows it.
    package var head: UInt64
    package var cursor: UInt64
    /// Changes of this device that are not at the hub, and those that are on their way there.
    package var unsent: Int
    package var sending: Int
    /// Changes of others that are not in the tree yet, and those that cannot be.
    package var due: Int
    package var stuck: Int
    package var refused: Int
    /// Documents whose bytes are at the hub only.
    package var dataless: Int
    /// Deletions that are held until somebody says that they are meant.
    package var held: Int
    /// Bytes since the daemon started.
    package var bytesUp: Int64
    package var bytesDown: Int64
    /// Bytes a second, now.
    package var rateUp: Int64
    package var rateDown: Int64
    /// A few paths of what is on this device only, and why.
    package var waiting: [Waiting]
    /// What is on its way.
    package var moving: [ActivityReport.Line]
    /// Paths, and why they are not in step.
    package var problems: [String: String]

    package struct Waiting: Codable, Hashable, Sendable {
        package var path: RawText
        /// A few words.
        package var reason: String

        package init(path: RawText, reason: String) { (self.path, self.reason) = (path, reason) }
    }

    package init(
        address: String, user: String, volume: String, state: String, reason: String,
        head: UInt64, cursor: UInt64
    ) {
        (self.address, self.user, self.volume) = (address, user, volume)
        (self.state, self.reason, self.head, self.cursor) = (state, reason, head, cursor)
        (unsent, sending, due, stuck, refused, dataless, held) = (0, 0, 0, 0, 0, 0, 0)
        (bytesUp, bytesDown, rateUp, rateDown) = (0, 0, 0, 0)
        (waiting, moving, problems) = ([], [], [:])
    }
}

package struct ActivityReport: Codable, Hashable, Sendable {
    package struct Line: Codable, Hashable, Sendable {
        package var path: String
        /// up or down.
        package var direction: String
        package var done: UInt64
        package var total: UInt64

        package init(path: String, direction: String, done: UInt64, total: UInt64) {
            (self.path, self.direction) = (path, direction)
            (self.done, self.total) = (done, total)
        }
    }

    package var lines: [Line]
    /// Bytes and requests since the daemon started.
    package var bytesUp: Int64
    package var bytesDown: Int64
    package var requests: Int64

    package init(lines: [Line], bytesUp: Int64, bytesDown: Int64, requests: Int64) {
        self.lines = lines
        (self.bytesUp, self.bytesDown, self.requests) = (bytesUp, bytesDown, requests)
    }
}

/// `brake`: a mass deletion that is held; 0 when none is.
package struct BrakeReport: Codable, Hashable, Sendable {
    package var deletions: Int
    package var items: Int

    package init(deletions: Int, items: Int) { (self.deletions, self.items) = (deletions, items) }
}

package struct EvictedReport: Codable, Hashable, Sendable {
    package struct Kept: Codable, Hashable, Sendable {
        package var path: RawText
        package var reason: String

        package init(path: RawText, reason: String) { (self.path, self.reason) = (path, reason) }
    }

    package var items: Int
    package var bytes: Int64
    package var kept: [Kept]

    package init(items: Int, bytes: Int64, kept: [Kept]) {
        (self.items, self.bytes, self.kept) = (items, bytes, kept)
    }
}
