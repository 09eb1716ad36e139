import Model

/// The leases that a hub keeps: which documents are open on which device. They are in memory only,
/// because each device tells its own again with each heartbeat. It is a value without clock and
/// I/O, like `LeaseHolder`.
package struct LeaseTable: Sendable {
    /// All documents of a volume that are open on a device.
    package struct Telling: Hashable, Sendable {
        package var volume: Identifier
        package var account: Identifier
        package var device: Identifier
        /// The process of the device that tells it. A later process counts from the beginning.
        package var process: Identifier?
        package var number: UInt64
        package var documents: [LeaseHolder.Document]

        package init(
            volume: Identifier, account: Identifier, device: Identifier, process: Identifier?,
            number: UInt64, documents: [LeaseHolder.Document]
        ) {
            (self.volume, self.account, self.device) = (volume, account, device)
            (self.process, self.number, self.documents) = (process, number, documents)
        }
    }

    package enum Event: Hashable, Sendable {
        case told(Telling)
        /// The device was signed out or revoked.
        case ended(device: Identifier)
        /// The account is no longer a member of the volume, or has another role.
        case left(account: Identifier, volume: Identifier)
        /// Some time has passed.
        case woken
    }

    package enum Effect: Hashable, Sendable {
        /// The volume's leases are others now.
        case changed(Identifier)
        /// The telling was not taken, because its account has too many documents open.
        case refused
    }

    /// A document that is open on a device, since this time of the hub's clock.
    package struct Lease: Hashable, Sendable {
        package var device: Identifier
        package var document: Identifier
        package var use: DocumentUse
        package var since: Int64

        fileprivate var place: (UInt64, UInt64, UInt64, UInt64) {
            (device.high, device.low, document.high, document.low)
        }
    }

    private struct Held: Hashable, Sendable {
        var use: DocumentUse
        var since: Int64
    }

    /// What a device has told. It stays until its time is over also if it names no document, so
    /// that an earlier telling that arrives late is recognized.
    private struct Entry: Hashable, Sendable {
        var account: Identifier
        var process: Identifier?
        var number: UInt64
        var documents: [Identifier: Held]
        var end: Int64

        var weight: Int { max(1, documents.count) }
    }

    /// The entries by volume and device.
    private var entries: [Identifier: [Identifier: Entry]] = [:]
    private var accountDocuments: [Identifier: Int] = [:]

    package init() {}

    package var isEmpty: Bool { entries.isEmpty }

    /// A device that has leases in a volume.
    package struct Party: Hashable, Sendable {
        package let volume: Identifier
        package let account: Identifier
        package let device: Identifier
    }

    package var parties: [Party] {
        entries.flatMap { volume, devices in
            devices.map { Party(volume: volume, account: $1.account, device: $0) }
        }
    }

    /// The leases of a volume's other devices, ordered by device and document.
    package func leases(of volume: Identifier, except own: Identifier) -> [Lease] {
        (entries[volume] ?? [:]).flatMap { device, entry in
            (device == own ? [:] : entry.documents).map { id, held in
                Lease(device: device, document: id, use: held.use, since: held.since)
            }
        }.sorted { $0.place < $1.place }
    }

    /// A number that depends only on these leases, without their ages, so that all hubs of one
    /// ledger have the same: 0 if there are none. It has 53 bits, which are exact in JSON.
    package static func revision(of leases: [Lease]) -> UInt64 {
        guard !leases.isEmpty else { return 0 }
        var sum: UInt64 = 0xcbf2_9ce4_8422_2325
        for lease in leases {
            for byte in lease.device.bytes + lease.document.bytes + Array(lease.use.rawValue.utf8) {
                sum = (sum ^ UInt64(byte)) &* 0x100_0000_01b3
            }
        }
        return max(1, (sum ^ sum >> 53) & (1 << 53 - 1))
    }

    package mutating func step(_ event: Event, at now: Int64) -> [Effect] {
        switch event {
        case .told(let telling): return take(telling, at: now)
        case .ended(let device): return remove { _, other, _ in other == device }
        case .left(let account, let volume):
            return remove { other, _, entry in other == volume && entry.account == account }
        case .woken: return remove { _, _, entry in now >= entry.end }
        }
    }

    private mutating func take(_ telling: Telling, at now: Int64) -> [Effect] {
        let old = entries[telling.volume]?[telling.device]
        if let old, old.process == telling.process, telling.number <= old.number { return [] }
        guard old != nil || !telling.documents.isEmpty else { return [] }
        let before = old?.documents ?? [:]
        var documents: [Identifier: Held] = [:]
        for document in telling.documents {
            let since = before[document.id]?.since ?? now - document.age
            documents[document.id] = Held(use: document.use, since: since)
        }
        let entry = Entry(
            account: telling.account, process: telling.process, number: telling.number,
            documents: documents, end: now + LeaseTerms.duration)
        let count =
            (accountDocuments[telling.account] ?? 0) - (old?.weight ?? 0) + entry.weight
        guard count <= LeaseTerms.accountDocuments else { return [.refused] }
        setCount(count, of: telling.account)
        entries[telling.volume, default: [:]][telling.device] = entry
        let isSame = before.mapValues(\.use) == documents.mapValues(\.use)
        return isSame ? [] : [.changed(telling.volume)]
    }

    private mutating func remove(
        where isMeant: (_ volume: Identifier, _ device: Identifier, Entry) -> Bool
    ) -> [Effect] {
        var effects: [Effect] = []
        for (volume, devices) in entries {
            let gone = devices.filter { isMeant(volume, $0.key, $0.value) }
            guard !gone.isEmpty else { continue }
            for (device, entry) in gone {
                entries[volume]?[device] = nil
                let count = (accountDocuments[entry.account] ?? 0) - entry.weight
                setCount(count, of: entry.account)
            }
            if entries[volume]?.isEmpty == true { entries[volume] = nil }
            if gone.contains(where: { !$0.value.documents.isEmpty }) {
                effects.append(.changed(volume))
            }
        }
        return effects
    }

    private mutating func setCount(_ count: Int, of account: Identifier) {
        accountDocuments[account] = count > 0 ? count : nil
    }
}
