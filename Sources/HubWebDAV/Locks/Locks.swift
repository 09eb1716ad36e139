import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// The locks of a volume as one request finds them, and the tokens that it has.
struct Locks: Sendable {
    let session: Session
    let volume: VolumeRow
    let all: [Lock]
    /// The request's header `If`.
    let header: IfHeader?

    init(_ volume: VolumeRow, _ session: Session) async throws {
        self.session = session
        self.volume = volume
        header = try session.request.headers[.ifHeader].map { try IfHeader($0) }
        let time = session.now
        all = try await session.hub.ledger.read {
            try LockTable(transaction: $0, volume: volume.id).all(at: time)
        }
    }

    // MARK: What locks cover

    /// The locks that cover what is here, or what could be here.
    func covering(_ place: Place) -> [Lock] {
        all.filter { lock in
            lock.item == place.item?.id
                || lock.isDeep && place.folders.contains { $0.id == lock.item }
        }
    }

    /// The locks that cover the members of the folder in which the target is or could be.
    private func coveringMembers(_ place: Place) -> [Lock] {
        all.filter { lock in
            lock.item == place.folders.last?.id
                || lock.isDeep && place.folders.contains { $0.id == lock.item }
        }
    }

    /// The locks of what is in a folder.
    func within(_ folder: ItemState) async throws -> [Lock] {
        guard folder.kind == .directory, !all.isEmpty else { return [] }
        return try await session.hub.ledger.read { [all, volume] transaction in
            var inside = Descendants(of: folder.id, in: volume.id, transaction)
            return try all.filter { try inside.contains($0.item) }
        }
    }

    // MARK: What a request may do

    /// - Throws: A refusal with the status 423 if the target is locked, and the request does not
    ///   have the token.
    func checkChange(of place: Place) throws(Refusal) { try check(covering(place)) }

    /// The same for a new member of the folder.
    func checkAddition(of place: Place) throws(Refusal) { try check(coveringMembers(place)) }

    /// The same for the target with all that is in it.
    func checkRemoval(of place: Place) async throws {
        let inside: [Lock]
        if let item = place.item { inside = try await within(item) } else { inside = [] }
        try check(covering(place) + coveringMembers(place) + inside)
    }

    /// One of several shared locks is enough. Only the account that has a lock may use its token.
    private func check(_ locks: [Lock]) throws(Refusal) {
        let own = Set(header?.tokens.compactMap(Lock.token) ?? [])
        for (_, group) in Dictionary(grouping: locks, by: \.item) {
            let isHeld = group.contains {
                own.contains($0.token) && $0.account == session.caller.account
            }
            guard isHeld || group.isEmpty else {
                throw refusal(
                    "lock-token-submitted", group[0],
                    "Another program has locked this (WebDAV), or yours has not said that it has.")
            }
        }
    }

    func refusal(_ condition: String, _ lock: Lock, _ message: String) -> Refusal {
        let path = Address([label] + lock.root).path(isCollection: false)
        return Refusal(
            423, message,
            condition: "<D:\(condition)><D:href>\(Markup.escaped(path))</D:href></D:\(condition)>")
    }

    /// What the request calls the volume.
    private var label: String {
        (try? Address(path: session.request.head.path ?? ""))?.parts.first ?? volume.name
    }

    /// Evaluates the header `If`.
    ///
    /// - Throws: A refusal with the status 412 if no list is true; `.malformed`.
    func checkHeader(_ place: Place) async throws {
        guard let header else { return }
        for list in header.lists {
            guard let resource = list.resource else {
                if isTrue(list, place) { return }
                continue
            }
            // What cannot be an address here has no locks and no contents.
            let address = try? Address(uri: resource, host: session.host)
            let named =
                if let address, address.parts.first == place.address.parts.first {
                    try await Place(address, session)
                } else { Place?.none }
            if isTrue(list, named) { return }
        }
        throw Refusal(412, "What the header If says is not true any more. Nothing was done.")
    }

    private func isTrue(_ list: IfHeader.List, _ place: Place?) -> Bool {
        let locks = place.map(covering)?.map(\.token) ?? []
        return list.conditions.allSatisfy { condition in
            let isMatch =
                switch condition.subject {
                case .token(let uri): Lock.token(uri).map(locks.contains) ?? false
                case .tag(let tag): tag == place?.item?.tag
                }
            return isMatch != condition.isNegated
        }
    }

    // MARK: The versions that programs have seen

    /// The version on which a program's save is based: the one that it has seen last while it had
    /// its lock, or else the current one.
    func base(of item: ItemState) -> Identifier? {
        let own = Set(header?.tokens.compactMap(Lock.token) ?? [])
        let lock = all.first {
            $0.item == item.id && own.contains($0.token) && $0.account == session.caller.account
        }
        return lock?.base ?? item.current?.id
    }

    /// Notes that a program has read, or saved, a version of a document that it has locked.
    static func note(_ version: Identifier?, of item: Identifier, _ place: Place) async throws {
        guard let volume = place.access?.volume.id else { return }
        let (hub, device, time) = (
            place.session.hub, place.session.caller.device, place.session.now
        )
        let older = try await hub.ledger.read { transaction in
            try LockTable(transaction: transaction, volume: volume).all(at: time).filter {
                $0.item == item && $0.device == device && $0.base != version
            }
        }
        guard !older.isEmpty else { return }
        try await place.session.write(.volume(volume)) { transaction in
            let table = LockTable(transaction: transaction, volume: volume)
            for lock in older { try table.setBase(of: lock.token, version) }
        }
    }

    /// The locks of an item and of what is in it.
    func all(of item: ItemState) async throws -> [Lock] {
        all.filter { $0.item == item.id } + (try await within(item))
    }

    /// Ends the locks of what was moved or deleted.
    func end(_ ended: [Lock]) async throws {
        guard !ended.isEmpty else { return }
        try await session.write(.volume(volume.id)) { [volume] transaction in
            let table = LockTable(transaction: transaction, volume: volume.id)
            for lock in ended { try table.remove(lock.token) }
        }
    }
}
