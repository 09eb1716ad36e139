import Model

/// Where a hub answers. `Hub.docc/Protocol.md` tells the whole conversation.
package enum Routes {
    package static let enrol = "/v1/enrol"
    package static let signOut = "/v1/signout"
    package static let devices = "/v1/devices"
    package static let selfEpoch = "/v1/devices/self/epoch"
    package static let selfSplit = "/v1/devices/self/split"
    package static let selfToken = "/v1/devices/self/token"
    package static let volumes = "/v1/volumes"
    package static let health = "/healthz"
    package static let metrics = "/metrics"
    package static let description = "/openapi.json"

    package static func device(_ device: Identifier) -> String { "\(devices)/\(device)" }

    package static func volume(_ volume: Identifier, _ call: VolumeCall) -> String {
        "\(volumes)/\(volume)/\(call.rawValue)"
    }
}

/// The last component of what is asked of one volume.
package enum VolumeCall: String, Sendable, CaseIterable {
    case have, chunks, read, commit, changes, manifests, feed, holding, durability, wanted
}

/// Headers of our own.
package enum HubHeader {
    /// The volume's epoch as the device knows it, 32 hexadecimal digits; the hub gives its own
    /// back.
    package static let epoch = "Concord-Epoch"
    /// The run of the position that a device names with `after`, 32 hexadecimal digits.
    package static let run = "Concord-Run"
    /// Chosen at random by each process of a device when it starts, 32 hexadecimal digits: the hub
    /// notices by it when a device's store was copied and both copies are mounted.
    package static let process = "Concord-Process"
    /// The process that a hint named: the one that asks is there, too, and is the device.
    package static let otherProcess = "Concord-Other-Process"
    /// The collection that the answer of `have` holds for: goes with the commit.
    package static let collection = "Concord-Collection"
}

package enum ContentType {
    package static let json = "application/json"
    package static let lines = "application/x-ndjson"
    package static let binary = "application/octet-stream"
}

/// What a hub takes at most. It refuses what is more with 413, and an operation that is more alone.
package enum HubLimits {
    /// Ids in one body of `have`, `read`, `manifests`, `holding` and `durability`.
    package static let ids = 8192
    package static let chunksPerUpload = 1000
    package static let uploadBytes = 8 << 20
    /// The longest chunk, plain; a frame may hold no more either. One that is longer than an
    /// upload's bytes goes alone.
    package static let chunkBytes = 16 << 20
    /// A JSON body.
    package static let bodyBytes = 16 << 20
    /// Commas and opening brackets in it, which are about as many as its values. The fullest body
    /// that a device sends has a tenth.
    package static let bodyValues = 1 << 20
    /// The body of somebody who has no token.
    package static let strangerBytes = 4 << 10
    package static let operations = 1000
    /// Changes in one page; fewer are given when the device asks for fewer.
    package static let changes = 1000
    /// Of the states in one page. More only where one operation has changed more.
    package static let pageBytes = 4 << 20
    /// The attributes and conflict versions of one item, encoded with all else that is known of it.
    package static let stateBytes = 1 << 20
    /// UTF-8, of a component of a path, a device or a volume.
    package static let nameBytes = 255
    package static let nameKeyBytes = 64
    package static let targetBytes = 4095
    /// The encoded form.
    package static let manifestBytes = 8 << 20
    package static let chunksPerRevision = 250_000
    /// The bytes of a document, holes too. Sums of thousands of documents still fit 63 bits.
    package static let documentBytes: UInt64 = 1 << 50
    package static let attributes = 256
    package static let attributeNameBytes = 257
    package static let attributeBytes = 64 << 10
    package static let noteBytes = 1024
    package static let parents = 16
}
