import Model

/// `POST /v1/enrol`, without a token.
package struct EnrolRequest: Codable, Hashable, Sendable {
    /// Of `concord hub invite`; works once.
    package var code: String
    /// For people.
    package var deviceName: String
    /// Chosen at random by the device and kept.
    package var device: Identifier

    package init(code: String, deviceName: String, device: Identifier) {
        self.code = code
        self.deviceName = deviceName
        self.device = device
    }
}

/// Also the answer of `POST /v1/devices/self/split`.
package struct EnrolAnswer: Codable, Hashable, Sendable {
    /// A secret: goes with every request as `Authorization: Bearer TOKEN`.
    package var token: String
    /// The name of the person.
    package var user: String
    /// Opaque, the same on all devices of the person.
    package var account: Identifier
    package var device: Identifier
    /// The device's: goes with its operations.
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

package struct VolumeName: Codable, Hashable, Sendable {
    package var id: Identifier
    package var name: String

    package init(id: Identifier, name: String) {
        self.id = id
        self.name = name
    }
}

/// `POST /v1/devices/self/split`: one of two copies of a device becomes a device of its own.
package struct SplitRequest: Codable, Hashable, Sendable {
    package var device: Identifier
    package var deviceName: String

    package init(device: Identifier, deviceName: String) {
        self.device = device
        self.deviceName = deviceName
    }
}

/// `POST /v1/devices/self/epoch`.
package struct EpochAnswer: Codable, Hashable, Sendable {
    package var epoch: UInt32

    package init(epoch: UInt32) { self.epoch = epoch }
}

/// `POST /v1/devices/self/token`: the device's next token. The one that it has holds for another
/// day.
package struct TokenAnswer: Codable, Hashable, Sendable {
    package var token: String

    package init(token: String) { self.token = token }
}

/// `GET /v1/devices`.
package struct DeviceList: Codable, Hashable, Sendable {
    package var devices: [DeviceEntry]

    package init(devices: [DeviceEntry]) { self.devices = devices }
}

package struct DeviceEntry: Codable, Hashable, Sendable {
    package var id: Identifier
    package var name: String
    /// Nanoseconds since 1970; `seen` to the minute.
    package var enrolled: Int64
    package var seen: Int64
    package var isRevoked: Bool
    /// The one that asks.
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

/// `POST /v1/volumes`: the account's volume of this name, made if there is none.
package struct VolumeRequest: Codable, Hashable, Sendable {
    package var name: String

    package init(name: String) { self.name = name }
}

package struct VolumeAnswer: Codable, Hashable, Sendable {
    package var id: Identifier
    package var name: String
    /// Changes when the hub was restored from a backup.
    package var epoch: Identifier
    /// 32 bytes each: of the ids of chunks, and of the keys of names.
    package var chunkKey: Base64
    package var nameKey: Base64
    package var head: UInt64
    /// It was made just now.
    package var created: Bool

    package init(
        id: Identifier, name: String, epoch: Identifier, chunkKey: Base64, nameKey: Base64,
        head: UInt64, created: Bool
    ) {
        self.id = id
        self.name = name
        self.epoch = epoch
        self.chunkKey = chunkKey
        self.nameKey = nameKey
        self.head = head
        self.created = created
    }
}

/// `GET /v1/volumes`.
package struct VolumeList: Codable, Hashable, Sendable {
    package var volumes: [VolumeName]

    package init(volumes: [VolumeName]) { self.volumes = volumes }
}

/// An answer that says no more than that it was done.
package struct Done: Codable, Hashable, Sendable {
    package init() {}
}
