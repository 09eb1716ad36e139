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

    /// A number for each lease, added up, and how many there are. The sum does not depend on the
    /// order, so one device's part of it can be added and subtracted.
    private struct Total: Hashable, Sendable {
        private var sum: UInt64 = 0
        private var count = 0

        mutating func add(_ device: Identifier, _ document: Identifier, _ use: DocumentUse) {
            var hash: UInt64 = 0xcbf2_9ce4_8422_2325
            for byte in use.rawValue.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
            for word in [device.high, device.low, document.high, document.low] {
                // All bits must depend on all others, or the sums of different leases could be
                // equal. This is the last step of SplitMix64.
                hash = (hash ^ word) &+ 0x9e37_79b9_7f4a_7c15
                hash = (hash ^ hash >> 30) &* 0xbf58_476d_1ce4_e5b9
                hash = (hash ^ hash >> 27) &* 0x94d0_49bb_1331_11eb
                hash ^= hash >> 31
            }
            sum &+= hash
            count += 1
        }

        static func + (one: Total, other: Total) -> Total {
            var total = one
            total.sum &+= other.sum
            total.count += other.count
            return total
        }

        static func - (one: Total, other: Total) -> Total {
            var total = one
            total.sum &-= other.sum
            total.count -= other.count
            return total
        }

        var revision: UInt64 { count == 0 ? 0 : max(1, (sum ^ sum >> 53) & (1 << 53 - 1)) }
    }

    /// What a device has told. It stays until its time is over also if it names no document, so
    /// that an earlier telling that arrives late is recognized.
    private struct Entry: Hashable, Sendable {
        var account: Identifier
        var process: Identifier?
        var number: UInt64
        var documents: [Identifier: Held]
        var end: Int64
        /// That of the documents.
        var total = Total()

        var weight: Int { max(1, documents.count) }
    }

    /// The entries by volume and device.
    private var entries: [Identifier: [Identifier: Entry]] = [:]
    private var accountDocuments: [Identifier: Int] = [:]
    /// Those of the volumes that have entries.
    private var totals: [Identifier: Total] = [:]

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

    /// The entries of one volume. They share their memory with this table, so a hub can read them
    /// while others change the table.
    package func part(of volume: Identifier) -> LeaseTable {
        var part = LeaseTable()
        part.entries[volume] = entries[volume]
        part.totals[volume] = totals[volume]
        return part
    }

    /// A number that depends only on these leases, without their ages and order, so that all hubs
    /// of one ledger have the same: 0 if there are none. It has 53 bits, which are exact in JSON.
    package static func revision(of leases: [Lease]) -> UInt64 {
        leases.reduce(into: Total()) { $0.add($1.device, $1.document, $1.use) }.revision
    }

    /// The revision of `leases(of:except:)`, without looking at them.
    package func revision(of volume: Identifier, except own: Identifier) -> UInt64 {
        let all = totals[volume] ?? Total()
        return (all - (entries[volume]?[own]?.total ?? Total())).revision
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
        var entry = Entry(
            account: telling.account, process: telling.process, number: telling.number,
            documents: documents, end: now + LeaseTerms.duration)
        for (id, held) in documents { entry.total.add(telling.device, id, held.use) }
        let count =
            (accountDocuments[telling.account] ?? 0) - (old?.weight ?? 0) + entry.weight
        guard count <= LeaseTerms.accountDocuments else { return [.refused] }
        setCount(count, of: telling.account)
        entries[telling.volume, default: [:]][telling.device] = entry
        totals[telling.volume] =
            (totals[telling.volume] ?? Total()) - (old?.total ?? Total()) + entry.total
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
                totals[volume] = (totals[volume] ?? Total()) - entry.total
                let count = (accountDocuments[entry.account] ?? 0) - entry.weight
                setCount(count, of: entry.account)
            }
            if entries[volume]?.isEmpty == true { (entries[volume], totals[volume]) = (nil, nil) }
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
