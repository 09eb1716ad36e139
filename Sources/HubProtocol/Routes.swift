import Model

/// The paths of a hub's endpoints. `Hub.docc/Protocol.md` describes the whole protocol.
package enum Routes {
    package static let enrol = "/v1/enrol"
    package static let signOut = "/v1/signout"
    package static let devices = "/v1/devices"
    package static let selfEpoch = "/v1/devices/self/epoch"
    package static let selfSplit = "/v1/devices/self/split"
    package static let selfToken = "/v1/devices/self/token"
    /// Pages for browsers, which devices do not use, and those of volumes.
    package static let pages = "/web"
    package static let volumePages = pages + "/v"
    /// What visitors see who have a link, which devices do not use.
    package static let links = "/s"
    /// WebDAV, which devices do not use.
    package static let webDAV = "/dav"
    package static let volumes = "/v1/volumes"
    package static let health = "/healthz"
    package static let metrics = "/metrics"
    package static let description = "/openapi.json"

    package static func device(_ device: Identifier) -> String { "\(devices)/\(device)" }

    package static func volume(_ volume: Identifier, _ call: VolumeCall) -> String {
        "\(volumes)/\(volume)/\(call.rawValue)"
    }
}

/// The endpoints of one volume: the last component of their paths.
package enum VolumeCall: String, Sendable, CaseIterable {
    case have, chunks, read, commit, changes, manifests, feed, holding, durability, wanted, members,
        leases, links, grants
}

/// The HTTP headers that Concord defines.
package enum HubHeader {
    /// The volume's epoch as the device knows it, 32 hexadecimal digits. The hub's answers have its
    /// present epoch.
    package static let epoch = "Concord-Epoch"
    /// The run of the position that a device sends as `after`, 32 hexadecimal digits.
    package static let run = "Concord-Run"
    /// An id of 32 hexadecimal digits that each process of a device chooses at random when it
    /// starts. By it the hub notices that a device's store was copied and that both copies are
    /// mounted.
    package static let process = "Concord-Process"
    /// The process that a hint named. A process that sends this header proves that it is alive and
    /// is the original device.
    package static let otherProcess = "Concord-Other-Process"
    /// The role of the device's account in the volume, in the answers of `changes`: a `Role`.
    package static let role = "Concord-Role"
    /// The number of the volume's members, in the answers of `changes`.
    package static let members = "Concord-Members"
    /// The versions whose chunks `read` and `have` ask for, separated by commas. A member of a
    /// folder gets only chunks of versions that the request names.
    package static let versions = "Concord-Versions"
    /// The collection in which the answer of `have` is valid. The device sends it with the commit.
    package static let collection = "Concord-Collection"
}

package enum ContentType {
    package static let json = "application/json"
    package static let lines = "application/x-ndjson"
    package static let binary = "application/octet-stream"
}

/// The largest requests that a hub accepts. It answers a larger one with 413, and refuses an
/// operation that is too large without the others of its request.
package enum HubLimits {
    /// The ids in one body of `have`, `read`, `manifests`, `holding` and `durability`.
    package static let ids = 8192
    package static let chunksPerUpload = 1000
    /// The versions that one header names, so that a proxy does not refuse it as too long.
    package static let versionsNamed = 128
    package static let uploadBytes = 8 << 20
    /// The longest chunk, uncompressed; a frame's bytes have the same limit. A chunk that is longer
    /// than `uploadBytes` is uploaded alone.
    package static let chunkBytes = 16 << 20
    /// The bytes of a JSON body.
    package static let bodyBytes = 16 << 20
    /// The commas and opening brackets in a JSON body, which are about as many as its values. The
    /// largest body that a device sends has a tenth of this.
    package static let bodyValues = 1 << 20
    /// The bytes of a body that is sent without a token.
    package static let unauthenticatedBytes = 4 << 10
    package static let operations = 1000
    /// The changes in one page. The hub sends fewer if the device asks for fewer.
    package static let changes = 1000
    /// The changes that a device takes in one page, which has more than `changes` if a single
    /// operation has changed more.
    package static let changesTogether = 1 << 19
    /// The bytes of the states in one page. A page exceeds it only if a single operation has
    /// changed more.
    package static let pageBytes = 4 << 20
    /// The bytes of all states that one operation may change, because they are in one page.
    package static let operationBytes = 128 << 20
    /// The bytes of one item's encoded state, with its attributes and conflict versions.
    package static let stateBytes = 1 << 20
    /// The UTF-8 bytes of a path component, a device's name or a volume's name.
    package static let nameBytes = 255
    package static let nameKeyBytes = 64
    package static let targetBytes = 4095
    /// The bytes of an encoded manifest.
    package static let manifestBytes = 8 << 20
    package static let chunksPerRevision = 250_000
    /// How often a manifest may name chunks, repetitions included. A few bytes can stand for so
    /// many, and each takes 48 bytes in memory.
    package static let references = 1 << 21
    /// How often all manifests that a device decodes together may name chunks.
    package static let referencesTogether = 2 * references
    /// The bytes of manifests that a device takes from one answer. It asks for the rest in another
    /// call.
    package static let manifestsTogether = 64 << 20
    /// The bytes of an answer that a device takes, unless it is a list or a page of changes.
    package static let answerBytes = 1 << 20
    /// The logical size of a document, with holes. Sums over thousands of documents still fit 63
    /// bits.
    package static let documentBytes: UInt64 = 1 << 50
    package static let attributes = 256
    /// The conflict versions of one item.
    package static let conflicts = 256
    /// The conflict versions that one resolution names.
    package static let resolved = 1000
    package static let attributeNameBytes = 257
    package static let attributeBytes = 64 << 10
    package static let noteBytes = 1024
    /// The volumes of an account, and the devices that it may have before one of them can be split.
    package static let volumes = 1000
    package static let devices = 1000
    /// The members of a volume, and the volumes of others of which an account is a member.
    package static let members = 1000
    /// The volumes of one owner of which a user is a member.
    package static let membersOfOneOwner = 50
    package static let parents = 16
    /// The links of one account in a volume.
    package static let links = 1000
    /// The characters of a link's password, at least.
    package static let linkPasswordLength = 8
    /// The bytes of the path of a link's document that the hub tells.
    package static let linkPathBytes = 16 << 10
    /// The bytes of the path of a folder that the hub tells.
    package static let folderPathBytes = 16 << 10
    /// The documents of a volume that are open on one device, and the leases of a volume that a
    /// device is told of.
    package static let leases = 128
    package static let leasesTogether = 4096
    /// The steps of one request about grants.
    package static let grants = 128
}
