import HTTPTypes
import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// Answers LOCK and UNLOCK.
struct Locking {
    private let place: Place
    private var session: Session { place.session }

    init(_ place: Place) { self.place = place }

    enum Limits {
        /// The locks of an account, and those in a volume.
        static let account = 500
        static let volume = 5000
        /// The longest time in seconds, and the one of a request that does not say how long.
        static let seconds: Int64 = 3600
        static let usualSeconds: Int64 = 600
        static let ownerBytes = 2 << 10
    }

    // MARK: LOCK

    func lock() async throws -> Response {
        guard let body = try await session.element() else { return try await refresh() }
        let (isExclusive, owner) = try Locking.wanted(body)
        let depth = try session.depth()
        guard depth != .one else {
            throw Failure(.malformed, "The Depth of a lock is 0 or infinity.")
        }
        guard let volume = place.access?.volume, !place.isPart else {
            throw Refusal(403, "Only what is in a volume can be locked, and packages as a whole.")
        }
        let changes = try await VolumeChanges(volume, session)
        let locks = try await Locks(volume, session)
        try await locks.checkHeader(place)
        // What does not exist yet becomes an empty document.
        let item: ItemState
        if let known = place.item {
            item = known
        } else {
            let (_, parent) = try place.writable()
            try locks.checkAddition(of: place)
            // Otherwise a refused lock would leave an empty document.
            try await checkCount(locks)
            item = try await DocumentWriter(place).createEmpty(in: parent, changes)
        }
        let lock = Lock(
            token: Lock.newToken(), item: item.id, account: session.caller.account,
            device: session.caller.device, isExclusive: isExclusive,
            isDeep: depth == .infinity && item.kind == .directory, expires: expiry,
            root: Array(place.address.parts.dropFirst()), owner: owner,
            base: item.current?.id)
        try await add(lock, locks)
        return answer(lock, status: place.item == nil ? 201 : 200, isNew: true)
    }

    private static func wanted(_ body: Element) throws(Failure) -> (Bool, String) {
        let scope = body.child(.dav("lockscope"))?.children.first?.name
        guard body.name == .dav("lockinfo"),
            scope == .dav("exclusive") || scope == .dav("shared"),
            body.child(.dav("locktype"))?.child(.dav("write")) != nil
        else {
            throw Failure(
                .malformed, "The body must be a DAV:lockinfo for an exclusive or shared write lock."
            )
        }
        guard let element = body.child(.dav("owner")) else {
            return (scope == .dav("exclusive"), "")
        }
        guard let owner = element.serialized(atMost: Limits.ownerBytes) else {
            throw Failure(.tooLarge, "The owner of a lock has at most \(Limits.ownerBytes) bytes.")
        }
        return (scope == .dav("exclusive"), owner)
    }

    /// When a lock ends for which the request asks.
    private var expiry: Int64 {
        let wanted = session.request.headers[.timeout]?.split(separator: ",").compactMap {
            part -> Int64? in
            let text = Markup.trimmed(String(part)).lowercased()
            if text == "infinite" { return Limits.seconds }
            guard text.hasPrefix("second-") else { return nil }
            return UInt64(text.dropFirst(7)).map { Int64(clamping: $0) }
        }.first
        let seconds = min(max(wanted ?? Limits.usualSeconds, 1), Limits.seconds)
        return session.now + Timestamp.span(seconds: seconds)
    }

    private static let tooMany = Refusal(
        507, "There are too many locks: end some of them (UNLOCK).")

    private func checkCount(_ locks: Locks) async throws {
        let (volume, account, time) = (
            locks.volume.id, session.caller.account, session.now
        )
        let count = try await session.hub.ledger.read {
            try LockTable(transaction: $0, volume: volume).count(of: account, at: time)
        }
        guard locks.all.count < Limits.volume, count < Limits.account else {
            throw Locking.tooMany
        }
    }

    private func add(_ lock: Lock, _ locks: Locks) async throws {
        let (volume, time, folders) = (locks.volume.id, session.now, place.folders.map(\.id))
        let conflicting = try await session.write(.volume(volume)) { transaction in
            let table = LockTable(transaction: transaction, volume: volume)
            try table.removeExpired(at: time)
            let all = try table.all(at: time)
            var inside = Descendants(of: lock.item, in: volume, transaction)
            let conflicting = try all.first { other in
                guard lock.isExclusive || other.isExclusive else { return false }
                if other.item == lock.item || other.isDeep && folders.contains(other.item) {
                    return true
                }
                return try lock.isDeep && inside.contains(other.item)
            }
            if let conflicting { return conflicting as Lock? }
            guard all.count < Limits.volume,
                try table.count(of: lock.account, at: time) < Limits.account
            else { throw Locking.tooMany }
            try table.add(lock)
            return nil
        }
        if let conflicting {
            throw locks.refusal(
                "no-conflicting-lock", conflicting, "Another program has locked this (WebDAV).")
        }
    }

    private func refresh() async throws -> Response {
        guard let volume = place.access?.volume else { throw Place.nothing }
        _ = try await VolumeChanges(volume, session)
        let locks = try await Locks(volume, session)
        let tokens = Set(locks.header?.tokens.compactMap(Lock.token) ?? [])
        let own = locks.covering(place).filter {
            tokens.contains($0.token) && $0.account == session.caller.account
        }
        guard tokens.count == 1, var lock = own.first else {
            throw Refusal(
                412, "The header If must have the token of one lock that covers this.",
                condition: "<D:lock-token-matches-request-uri/>")
        }
        lock.expires = expiry
        try await session.write(.volume(volume.id)) { [lock] transaction in
            try LockTable(transaction: transaction, volume: volume.id)
                .extend(lock.token, to: lock.expires)
        }
        return answer(lock, status: 200, isNew: false)
    }

    private func answer(_ lock: Lock, status: Int, isNew: Bool) -> Response {
        let label = place.address.parts.first ?? ""
        let text =
            "<D:prop xmlns:D=\"DAV:\"><D:lockdiscovery>"
            + lock.element(label: label, at: session.now) + "</D:lockdiscovery></D:prop>\n"
        return Reply.xml(status, text, isNew ? [.lockToken: "<\(lock.uri)>"] : [:])
    }

    // MARK: UNLOCK

    func unlock() async throws -> Response {
        guard let text = session.request.headers[.lockToken].map(Markup.trimmed),
            text.hasPrefix("<"), text.hasSuffix(">")
        else { throw Failure(.malformed, "The header Lock-Token must be <URI>.") }
        guard let volume = place.access?.volume else { throw Place.nothing }
        let locks = try await Locks(volume, session)
        try await locks.checkHeader(place)
        let token = Lock.token(String(text.dropFirst().dropLast()))
        guard let lock = locks.covering(place).first(where: { $0.token == token }) else {
            throw Refusal(
                409, "There is no such lock here, or it has ended.",
                condition: "<D:lock-token-matches-request-uri/>")
        }
        guard lock.account == session.caller.account else {
            throw Refusal(403, "Another user has this lock.")
        }
        try await session.write(.volume(volume.id)) { transaction in
            try LockTable(transaction: transaction, volume: volume.id).remove(lock.token)
        }
        return Reply.empty(204)
    }
}

extension Place {
    var isPart: Bool {
        if case .part = target { true } else { false }
    }
}
