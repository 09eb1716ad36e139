import CLinux
import Coordination
import HubProtocol
import Model
import Synchronization

/// The documents that are open on devices, as these tell. They are in this process's memory only:
/// after a restart, each device tells its own again with the first heartbeat.
package final class Leases: Sendable {
    private let table = Mutex(LeaseTable())
    private let ledger: any Ledger
    private let feeds: Feeds
    private let uptime: @Sendable () -> Int64

    init(_ ledger: any Ledger, _ feeds: Feeds, uptime: @escaping @Sendable () -> Int64) {
        self.ledger = ledger
        self.feeds = feeds
        self.uptime = uptime
    }

    /// A device tells which documents are open on it.
    ///
    /// - Parameter process: The process of the device.
    /// - Throws: `.malformed`, `.forbidden`, `.tooMany`.
    package func tell(
        _ request: LeaseRequest, in id: Identifier, from process: Identifier?,
        for caller: Caller
    ) async throws {
        if let objection = request.objection { throw Failure(.malformed, objection) }
        let edits = request.documents.contains { $0.use > .shows }
        let (volume, known) = try await ledger.read { transaction in
            let view = try transaction.membership.view(
                id, of: caller, for: edits ? .edit : .leases)
            let volume = view.volume.id
            var visible = view.visibleItems(transaction)
            // What the hub does not have yet, the device tells again with the next heartbeat.
            let known = try request.documents.filter { document in
                guard try visible.contains(document.item) else { return false }
                let found = try transaction.row(
                    "SELECT alive FROM items WHERE volume = $1 AND id = $2",
                    [.id(volume), .id(document.item)])
                return try found?.integer(0) == 1
            }
            return (volume, known)
        }
        let telling = LeaseTable.Telling(
            volume: volume, account: caller.account, device: caller.device, process: process,
            number: request.number,
            documents: known.map {
                LeaseHolder.Document(id: $0.item, use: $0.use, age: $0.age)
            })
        guard !apply(.told(telling)).contains(.refused) else {
            throw Failure(
                .tooMany,
                "More than \(LeaseTerms.accountDocuments) documents are open on the devices of "
                    + "this account, so others cannot see who has these.")
        }
        ledger.announce(leases: telling.message, of: telling.device, in: volume)
    }

    /// What is open on the volume's other devices.
    package func list(in id: Identifier, for caller: Caller) async throws -> LeaseList {
        let found = try await leases(in: id, for: caller)
        let devices = Set(found.map(\.device))
        let names = try await ledger.read {
            transaction -> [Identifier: (user: String, name: String)] in
            let volume = try transaction.membership.view(id, of: caller, for: .leases).volume.id
            guard !devices.isEmpty else { return [:] }
            return try transaction.membership.deviceNames(in: volume).filter {
                try devices.contains($0.key) && transaction.devices.hasToken($0.key)
            }
        }
        let now = uptime()
        let shown = found.compactMap { lease -> LeaseList.Lease? in
            guard let name = names[lease.device] else { return nil }
            return LeaseList.Lease(
                item: lease.document, device: lease.device, deviceName: name.name,
                user: name.user, use: lease.use, age: max(0, now - lease.since))
        }
        return LeaseList(
            revision: LeaseTable.revision(of: found),
            leases: Array(shown.prefix(HubLimits.leasesTogether)))
    }

    /// The revision of a volume's leases for one of its devices, which is not told of its own.
    func revision(of volume: Identifier, for device: Identifier) -> UInt64 {
        table.withLock { $0.revision(of: volume, except: device) }
    }

    /// The revision of the leases that a member of a folder may hear of.
    func revision(in id: Identifier, for caller: Caller) async throws -> UInt64 {
        LeaseTable.revision(of: try await leases(in: id, for: caller))
    }

    private func leases(in id: Identifier, for caller: Caller) async throws -> [LeaseTable.Lease] {
        try await ledger.read { [self] transaction in
            let view = try transaction.membership.view(id, of: caller, for: .leases)
            let all = leases(of: view.volume.id, except: caller.device)
            var visible = view.visibleItems(transaction)
            return try all.filter { try visible.contains($0.document) }
        }
    }

    private func leases(of volume: Identifier, except own: Identifier) -> [LeaseTable.Lease] {
        // Sorting takes long, so it is done without the lock.
        table.withLock { $0.part(of: volume) }.leases(of: volume, except: own)
    }

    var isEmpty: Bool { table.withLock { $0.isEmpty } }

    // MARK: Changes

    /// Changes the leases, and tells the devices that look on.
    @discardableResult
    func apply(_ event: LeaseTable.Event) -> [LeaseTable.Effect] {
        let now = uptime()
        let effects = table.withLock { $0.step(event, at: now) }
        for case .changed(let volume) in effects { feeds.announceLeases(of: volume) }
        return effects
    }

    /// Takes what another hub of the ledger was told.
    func take(_ message: String) {
        if let telling = LeaseTable.Telling(message: message) { apply(.told(telling)) }
    }

    /// Ends the leases of devices that were signed out, or whose account is no longer a member, by
    /// another process.
    func endUnauthorized() async throws {
        let parties = table.withLock { $0.parties }
        guard !parties.isEmpty else { return }
        let gone = try await ledger.read { transaction in
            try parties.filter {
                try !transaction.devices.hasToken($0.device)
                    || transaction.membership.role(of: $0.account, in: $0.volume) == nil
            }
        }
        for party in gone { apply(.left(account: party.account, volume: party.volume)) }
    }
}

// What hubs of one ledger tell each other, in at most 8000 bytes without a quotation mark: the
// volume, the account, the device, its process or `-`, the number, and the documents.
extension LeaseTable.Telling {
    var message: String {
        let items = documents.map { document in
            "\(document.id):\(document.use.rawValue):\(document.age / 1_000_000)"
        }
        return "\(volume) \(account) \(device) \(process.map(\.description) ?? "-") \(number) "
            + "[\(items.joined(separator: ","))]"
    }

    init?(message: String) {
        let words = message.split(separator: " ").map(String.init)
        guard words.count == 6, let volume = Identifier(words[0]),
            let account = Identifier(words[1]), let device = Identifier(words[2]),
            let number = UInt64(words[4])
        else { return nil }
        var documents: [LeaseHolder.Document] = []
        for item in words[5].dropFirst().dropLast().split(separator: ",") {
            let parts = item.split(separator: ":").map(String.init)
            guard parts.count == 3, let id = Identifier(parts[0]),
                let use = DocumentUse(rawValue: parts[1]), let age = Int64(parts[2]),
                (0..<3_153_600_000_000).contains(age)
            else { return nil }
            documents.append(LeaseHolder.Document(id: id, use: use, age: age * 1_000_000))
        }
        self.init(
            volume: volume, account: account, device: device, process: Identifier(words[3]),
            number: number, documents: documents)
    }
}
