import ChunkStore
import HubProtocol
import Journal
import Model
import Reconcile

/// The hub and the volume at which this device is signed in. It is stored in the journal, except
/// its `Credentials`.
package struct Account: Hashable, Sendable {
    package var address: HubAddress
    package var token: String
    package var user: String
    /// An opaque id of the account, which is the same on all devices of the person.
    package var account: Identifier
    package var device: Identifier
    package var deviceName: String
    package var volume: Identifier
    package var volumeName: String
    /// The name of the account that owns the volume, if it is another one.
    package var owner: String?
    package var keys: VolumeKeys
    /// Whether synchronisation is switched off (`fsctl offline`).
    package var isOffline = false

    /// An identity token that programs can compare and store: it is the same on all devices of the
    /// person at this hub, differs for other people, and is available offline, too (Rows.md,
    /// A17.1).
    package var identityToken: String {
        let text = "\(account) \(volume)"
        return hexadecimal(Digest.sha256(Array(text.utf8)).bytes.dropFirst().prefix(16))
    }
}

extension Account {
    private static let names = [
        "hub.address", "hub.certificate", "hub.certificate.known", "hub.token", "hub.user",
        "hub.account", "hub.device", "hub.device.name", "hub.volume", "hub.volume.name",
        "hub.volume.owner", "hub.role",
        "hub.keys", "hub.offline", "hub.session", RefusedStates.key,
    ]

    /// Reads the account from the journal. Returns nil if the device is signed out.
    ///
    /// - Throws: `.notFound` if the credentials are missing.
    init?(_ reader: Reader, _ known: [Identifier: Credentials]) throws(VolumeError) {
        guard let address = try reader.value("hub.address"),
            let user = try reader.value("hub.user"),
            let account = try reader.value("hub.account").flatMap({ Identifier($0) }),
            let device = try reader.value("hub.device").flatMap({ Identifier($0) }),
            let volume = try reader.value("hub.volume").flatMap({ Identifier($0) })
        else { return nil }
        guard let own = known[device] else {
            throw VolumeError(
                .notFound,
                "The store's file `credentials` is missing: sign in again with a new code "
                    + "(fsctl signin).")
        }
        var hub = try HubAddress(address, certificate: try reader.value("hub.certificate"))
        hub.known = try reader.value("hub.certificate.known").flatMap(bytesOf(hexadecimal:))
        self.init(
            address: hub,
            token: own.token, user: user, account: account, device: device,
            deviceName: try reader.value("hub.device.name") ?? "device", volume: volume,
            volumeName: try reader.value("hub.volume.name") ?? "volume",
            owner: try reader.value("hub.volume.owner"),
            keys: own.keys, isOffline: try reader.value("hub.offline") != nil)
    }

    package func store(_ t: Transaction) throws(VolumeError) {
        try t.set("hub.address", to: address.text)
        try t.set("hub.certificate", to: address.certificate)
        try t.set("hub.certificate.known", to: address.known.map { hexadecimal($0) })
        try t.set("hub.user", to: user)
        try t.set("hub.account", to: account.description)
        try t.set("hub.device", to: device.description)
        try t.set("hub.device.name", to: deviceName)
        try t.set("hub.volume", to: volume.description)
        try t.set("hub.volume.name", to: volumeName)
        try t.set("hub.volume.owner", to: owner)
        try t.set("hub.offline", to: isOffline ? "yes" : nil)
    }

    var credentials: Credentials { Credentials(token: token, keys: keys) }

    /// Reads credentials that an older version has stored in the journal.
    static func credentials(in reader: Reader) throws(VolumeError) -> [Identifier: Credentials] {
        guard let token = try reader.value("hub.token"),
            let device = try reader.value("hub.device").flatMap({ Identifier($0) }),
            let keys = try reader.value("hub.keys").flatMap({ VolumeKeys(hexadecimal: $0) })
        else { return [:] }
        return [device: Credentials(token: token, keys: keys)]
    }

    private static let overwriting = "hub.secrets.overwriting"

    /// Removes the credentials from the journal, and notes that the freed pages of its file must be
    /// overwritten.
    static func forgetCredentials(_ t: Transaction) throws(VolumeError) {
        for name in ["hub.token", "hub.keys"] { try t.set(name, to: nil) }
        try t.set(overwriting, to: "due")
    }

    static func mustOverwrite(_ reader: Reader) throws(VolumeError) -> Bool {
        try reader.value(overwriting) != nil
    }

    static func didOverwrite(_ t: Transaction) throws(VolumeError) {
        try t.set(overwriting, to: nil)
    }

    package static func forget(_ t: Transaction) throws(VolumeError) {
        for name in names { try t.set(name, to: nil) }
        try t.removeCurrentHub()
    }
}

extension Session {
    package init?(_ reader: Reader) throws(VolumeError) {
        let words = try reader.value("hub.session")?.split(separator: " ").map(String.init) ?? []
        // The words after the seventh were added by later versions.
        guard (7...10).contains(words.count), let device = Identifier(words[0]),
            let epoch = UInt32(words[1]),
            let volumeEpoch = Identifier(words[2]), let generation = UInt64(words[3]),
            let cursor = UInt64(words[4]), let number = UInt64(words[5]),
            let sent = words.count >= 9 ? UInt64(words[8]) : max(number, 1) - 1
        else { return nil }
        self.init(
            device: device, epoch: epoch, volumeEpoch: volumeEpoch, generation: generation,
            cursor: cursor, run: words.count > 9 ? Identifier(words[9]) : nil, nextNumber: number,
            sentUpTo: sent, isFresh: words[6] == "fresh",
            isBehind: words.count > 7 && words[7] == "behind")
    }

    /// Stores the session. The account must be stored first, because confirmations by the hub are
    /// valid for its volume in this epoch.
    package func store(_ t: Transaction) throws(VolumeError) {
        if let volume = try t.value("hub.volume").flatMap({ Identifier($0) }) {
            try t.setCurrentHub(volume: volume, epoch: volumeEpoch)
        }
        try t.set(
            "hub.session",
            to: "\(device) \(epoch) \(volumeEpoch) \(generation) \(cursor) \(nextNumber) "
                + (isFresh ? "fresh" : "joined") + (isBehind ? " behind" : " level")
                + " \(sentUpTo)" + (run.map { " \($0)" } ?? ""))
    }
}

extension Account {
    /// Opens the volume again.
    var volumeRequest: VolumeRequest { VolumeRequest(name: volumeName, owner: owner, id: volume) }
}
