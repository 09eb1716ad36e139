import Model

/// The body of `POST /v1/enrol`, the only authenticated request that is sent without a token.
package struct EnrolRequest: Codable, Hashable, Sendable {
    /// The code that `concord hub invite` prints. It works once.
    package var code: String
    /// The name of the device that people see.
    package var deviceName: String
    /// The device's id, which the device has chosen at random and keeps.
    package var device: Identifier
    /// The volume that the device will open, if it belongs to another account. If this account may
    /// not open it, the request fails and the code is not used up. Nil for the account's own
    /// volumes.
    package var volume: VolumeRequest?

    package init(
        code: String, deviceName: String, device: Identifier, volume: VolumeRequest? = nil
    ) {
        self.code = code
        self.deviceName = deviceName
        self.device = device
        self.volume = volume
    }
}

/// The answer of `POST /v1/enrol` and of `POST /v1/devices/self/split`.
package struct EnrolAnswer: Codable, Hashable, Sendable {
    /// A secret that the device sends with each request as `Authorization: Bearer TOKEN`.
    package var token: String
    /// The name of the person.
    package var user: String
    /// An opaque id of the account, which is the same on all devices of the person.
    package var account: Identifier
    package var device: Identifier
    /// The device's epoch, which the device sends with its operations.
    package var epoch: UInt32
    package var volumes: [VolumeName]

    package init(
        token: String, user: String, account: Identifier, device: Identifier, epoch: UInt32,
        volumes: [VolumeName]
    ) {
        self.token = token
        self.user = user
        self.account = account
        self.device = device
        self.epoch = epoch
        self.volumes = volumes
    }
}

/// A volume that the account may open.
package struct VolumeName: Codable, Hashable, Sendable {
    package var id: Identifier
    package var name: String
    /// The account's role in the volume. Nil, as from an older hub, means that it is the owner.
    package var role: Role?
    /// The name of the account that owns the volume; nil if it is the account itself.
    package var owner: String?

    package init(id: Identifier, name: String, role: Role? = nil, owner: String? = nil) {
        self.id = id
        self.name = name
        self.role = role
        self.owner = owner
    }
}

/// The body of `POST /v1/devices/self/split`, by which one of two copies of a device becomes a
/// separate device.
package struct SplitRequest: Codable, Hashable, Sendable {
    package var device: Identifier
    package var deviceName: String

    package init(device: Identifier, deviceName: String) {
        self.device = device
        self.deviceName = deviceName
    }
}

/// The answer of `POST /v1/devices/self/epoch`.
package struct EpochAnswer: Codable, Hashable, Sendable {
    package var epoch: UInt32

    package init(epoch: UInt32) { self.epoch = epoch }
}

/// The answer of `POST /v1/devices/self/token`: the device's next token. The previous token ends
/// when this one is renewed, so that a device which stopped before it stored the answer can go on.
package struct TokenAnswer: Codable, Hashable, Sendable {
    package var token: String
    /// When the token ends if it is not used, in nanoseconds since 1970 by the hub's clock. An
    /// older hub does not say it.
    package var expires: Int64?

    package init(token: String, expires: Int64? = nil) {
        self.token = token
        self.expires = expires
    }
}

/// The answer of `GET /v1/devices`.
package struct DeviceList: Codable, Hashable, Sendable {
    package var devices: [DeviceEntry]

    package init(devices: [DeviceEntry]) { self.devices = devices }
}

package struct DeviceEntry: Codable, Hashable, Sendable {
    package var id: Identifier
    package var name: String
    /// Nanoseconds since 1970. `seen` is accurate to the minute.
    package var enrolled: Int64
    package var seen: Int64
    package var isRevoked: Bool
    /// Whether this is the device that sent the request.
    package var isSelf: Bool

    package init(
        id: Identifier, name: String, enrolled: Int64, seen: Int64, isRevoked: Bool, isSelf: Bool
    ) {
        self.id = id
        self.name = name
        self.enrolled = enrolled
        self.seen = seen
        self.isRevoked = isRevoked
        self.isSelf = isSelf
    }
}

/// The body of `POST /v1/volumes`, which opens the account's volume of this name, or creates it.
package struct VolumeRequest: Codable, Hashable, Sendable {
    package var name: String
    /// The name of the account that owns the volume, if that is another one. Then nothing is
    /// created.
    package var owner: String?
    /// The id of a volume of another account that the device has joined before: a folder may have
    /// been renamed since.
    package var id: Identifier?

    package init(name: String, owner: String? = nil, id: Identifier? = nil) {
        self.name = name
        self.owner = owner
        self.id = id
    }
}

package struct VolumeAnswer: Codable, Hashable, Sendable {
    package var id: Identifier
    package var name: String
    /// The volume's epoch. It changes when the hub was restored from a backup.
    package var epoch: Identifier
    /// Two secrets of 32 bytes each: one for the ids of chunks, one for the keys of names.
    package var chunkKey: Base64
    package var nameKey: Base64
    package var head: UInt64
    /// Whether this request created the volume.
    package var created: Bool
    /// The account's role in the volume. Nil, as from an older hub, means that it is the owner.
    package var role: Role?
    /// The name of the account that owns the volume; nil if it is the account itself.
    package var owner: String?

    package init(
        id: Identifier, name: String, epoch: Identifier, chunkKey: Base64, nameKey: Base64,
        head: UInt64, created: Bool, role: Role? = nil, owner: String? = nil
    ) {
        self.id = id
        self.name = name
        self.epoch = epoch
        self.chunkKey = chunkKey
        self.nameKey = nameKey
        self.head = head
        self.created = created
        self.role = role
        self.owner = owner
    }
}

/// The answer of `GET /v1/volumes`.
package struct VolumeList: Codable, Hashable, Sendable {
    package var volumes: [VolumeName]

    package init(volumes: [VolumeName]) { self.volumes = volumes }
}

/// The empty answer of a request that only succeeds or fails.
package struct Done: Codable, Hashable, Sendable {
    package init() {}
}
