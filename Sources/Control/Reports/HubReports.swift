import Model

// The results of the verbs about the hub and about contents.

/// The result of `identity`. If the volume is signed out, all fields except `name` are left out.
package struct IdentityReport: Codable, Hashable, Sendable {
    /// The volume's name.
    package var name: String
    /// An opaque token that is the same on all devices of the person for this volume, also while
    /// offline.
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
        /// Whether this is the device that was asked.
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

/// The result of `members` and `member`. It is empty if this account has left the volume.
package struct MembersReport: Codable, Hashable, Sendable {
    package struct Member: Codable, Hashable, Sendable {
        package var user: String
        /// One of: owner, editor, reader.
        package var role: String
        package var since: Int64
        /// Whether this is the account of the device that was asked.
        package var here: Bool
        /// The path of the folder that is the whole volume for the member; left out for others.
        package var folder: String?

        package init(
            user: String, role: String, since: Int64, here: Bool, folder: String? = nil
        ) {
            (self.user, self.role, self.since, self.here) = (user, role, since, here)
            self.folder = folder
        }
    }

    package var members: [Member]

    package init(members: [Member]) { self.members = members }
}

/// The result of `volumes`: the volumes that this account may use.
package struct VolumesReport: Codable, Hashable, Sendable {
    package struct Volume: Codable, Hashable, Sendable {
        package var name: String
        /// The user who owns it, if it is another one.
        package var owner: String?
        /// One of: owner, editor, reader.
        package var role: String
        /// Whether this is the volume that was asked.
        package var here: Bool

        package init(name: String, owner: String?, role: String, here: Bool) {
            (self.name, self.owner, self.role, self.here) = (name, owner, role, here)
        }
    }

    package var volumes: [Volume]

    package init(volumes: [Volume]) { self.volumes = volumes }
}

/// The part of `status` about the hub, if the volume belongs to one.
package struct HubReport: Codable, Hashable, Sendable {
    package var address: String
    package var user: String
    package var volume: String
    /// The user who owns the volume, if it is another one.
    package var owner: String?
    /// What this account may do: owner, editor or reader.
    package var role: String?
    /// The number of the volume's members.
    package var members: Int?
    /// One of: connecting, up, offline, down, signed out, removed.
    package var state: String
    /// What is wrong and what to do; empty if nothing is wrong.
    package var reason: String
    /// The head of the hub's journal, and the position up to which this device has read it.
    package var head: UInt64
    package var cursor: UInt64
    /// The numbers of this device's changes that are not at the hub, and of those that are being
    /// sent.
    package var unsent: Int
    package var sending: Int
    /// The numbers of others' changes that are not in the tree yet, and of those that cannot be put
    /// there.
    package var due: Int
    package var stuck: Int
    package var refused: Int
    /// The number of documents whose contents are only at the hub.
    package var dataless: Int
    /// The number of deletions that are held back until a person confirms them.
    package var held: Int
    /// The bytes since the daemon started.
    package var bytesUp: Int64
    package var bytesDown: Int64
    /// The present rates in bytes per second.
    package var rateUp: Int64
    package var rateDown: Int64
    /// A few paths that exist only on this device, with the reasons.
    package var waiting: [Waiting]
    /// The transfers in progress.
    package var moving: [ActivityReport.Line]
    /// The paths that are not synchronised, with the reasons.
    package var problems: [String: String]

    package struct Waiting: Codable, Hashable, Sendable {
        package var path: RawText
        /// The reason in a few words.
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
    /// The bytes and requests since the daemon started.
    package var bytesUp: Int64
    package var bytesDown: Int64
    package var requests: Int64

    package init(lines: [Line], bytesUp: Int64, bytesDown: Int64, requests: Int64) {
        self.lines = lines
        (self.bytesUp, self.bytesDown, self.requests) = (bytesUp, bytesDown, requests)
    }
}

/// The result of `brake`: a mass deletion that is held back; zeros if there is none.
package struct BrakeReport: Codable, Hashable, Sendable {
    package var deletions: Int
    package var items: Int
    /// The number of documents that are missing from the working tree since it was mounted, and
    /// that are not treated as deleted.
    package var missing: Int

    package init(deletions: Int, items: Int, missing: Int) {
        (self.deletions, self.items, self.missing) = (deletions, items, missing)
    }
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

/// The result of `pins`.
package struct PinsReport: Codable, Hashable, Sendable {
    package struct Pin: Codable, Hashable, Sendable {
        package var path: RawText
        package var directory: Bool
        /// False for what is not kept although a directory above it is.
        package var pinned: Bool
        /// How many documents are still to be downloaded because of this, and their bytes; nil if
        /// that was not asked.
        package var missing: Int?
        package var missingBytes: Int64?

        package init(
            path: RawText, directory: Bool, pinned: Bool, missing: Int?, missingBytes: Int64?
        ) {
            (self.path, self.directory, self.pinned) = (path, directory, pinned)
            (self.missing, self.missingBytes) = (missing, missingBytes)
        }
    }

    package var pins: [Pin]

    package init(pins: [Pin]) { self.pins = pins }
}
