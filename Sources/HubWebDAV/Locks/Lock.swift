import Hub
import HubProtocol
import Model

/// A write lock. It concerns only programs that use WebDAV: what devices save meanwhile is an
/// ordinary edit.
struct Lock: Hashable, Sendable {
    let token: Identifier
    let item: Identifier
    let account: Identifier
    let device: Identifier
    let isExclusive: Bool
    /// Whether it covers all that is in the folder, too.
    let isDeep: Bool
    var expires: Int64
    /// The address below the volume, as the client wrote it.
    let root: [String]
    /// What the client says of its user: the element `owner`, or nothing.
    let owner: String
    /// The version of a document that the client has seen last.
    var base: Identifier?

    private static let scheme = "urn:uuid:"

    /// The lock's token as a URI.
    var uri: String {
        let digits = Array(token.description)
        let groups = [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(digits[$0]) }
        return Lock.scheme + groups.joined(separator: "-")
    }

    /// Returns the token that the URI stands for; nil if no lock of this hub can have it.
    static func token(_ uri: String) -> Identifier? {
        guard uri.lowercased().hasPrefix(scheme), uri.utf8.count == scheme.utf8.count + 36 else {
            return nil
        }
        return Identifier(uri.dropFirst(scheme.count).filter { $0 != "-" }.lowercased())
    }

    /// A random UUID (version 4).
    static func newToken() -> Identifier {
        let random = Identifier.random()
        return Identifier(
            high: random.high & ~0xF000 | 0x4000, low: random.low & ~(3 << 62) | 1 << 63)
    }

    /// The element `activelock`.
    ///
    /// - Parameter label: What the reader's account calls the volume.
    func element(label: String, at time: Int64) -> String {
        let seconds = max(0, (expires - time + 999_999_999) / 1_000_000_000)
        let path = Address([label] + root).path(isCollection: false)
        return "<D:activelock><D:locktype><D:write/></D:locktype>"
            + "<D:lockscope><D:\(isExclusive ? "exclusive" : "shared")/></D:lockscope>"
            + "<D:depth>\(isDeep ? "infinity" : "0")</D:depth>\(owner)"
            + "<D:timeout>Second-\(seconds)</D:timeout>"
            + "<D:locktoken><D:href>\(uri)</D:href></D:locktoken>"
            + "<D:lockroot><D:href>\(Markup.escaped(path))</D:href></D:lockroot></D:activelock>"
    }
}

/// The locks of a volume, in the hub's ledger: all hubs of a ledger know them, and they survive a
/// restart.
struct LockTable {
    let transaction: any LedgerTransaction
    let volume: Identifier

    private static let columns =
        "token, item, account, device, exclusive, deep, expires, root, owner, base"

    /// The locks that have not expired, and whose programs may still change the volume.
    func all(at time: Int64) throws -> [Lock] {
        try transaction.rows(
            """
            SELECT token, item, dav_locks.account, device, exclusive, deep, expires, root,
                dav_locks.owner, base
            FROM dav_locks JOIN devices ON devices.id = dav_locks.device
            JOIN members ON members.volume = dav_locks.volume
                AND members.account = dav_locks.account
            WHERE dav_locks.volume = $1 AND expires > $2
                AND devices.revoked IS NULL AND members.role <> $3
            """, [.id(volume), .integer(time), .text(Role.reader.rawValue)]
        ).map { row in
            Lock(
                token: try row.id(0), item: try row.id(1), account: try row.id(2),
                device: try row.id(3), isExclusive: try row.integer(4) == 1,
                isDeep: try row.integer(5) == 1, expires: try row.integer(6),
                root: try row.text(7).split(separator: "/").map(String.init),
                owner: try row.text(8), base: row.isNull(9) ? nil : try row.id(9))
        }
    }

    /// The number of locks of an account in all volumes.
    func count(of account: Identifier, at time: Int64) throws -> Int {
        let found = try transaction.row(
            "SELECT count(*) FROM dav_locks WHERE account = $1 AND expires > $2",
            [.id(account), .integer(time)])
        return Int(try found?.integer(0) ?? 0)
    }

    func removeExpired(at time: Int64) throws {
        try transaction.execute(
            "DELETE FROM dav_locks WHERE volume = $1 AND expires <= $2",
            [.id(volume), .integer(time)])
    }

    func add(_ lock: Lock) throws {
        try transaction.execute(
            """
            INSERT INTO dav_locks (volume, \(LockTable.columns))
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
            """,
            [
                .id(volume), .id(lock.token), .id(lock.item), .id(lock.account), .id(lock.device),
                .integer(lock.isExclusive ? 1 : 0), .integer(lock.isDeep ? 1 : 0),
                .integer(lock.expires), .text(lock.root.joined(separator: "/")),
                .text(lock.owner), lock.base.map { .id($0) } ?? .null,
            ])
    }

    func extend(_ token: Identifier, to expires: Int64) throws {
        try transaction.execute(
            "UPDATE dav_locks SET expires = $1 WHERE volume = $2 AND token = $3",
            [.integer(expires), .id(volume), .id(token)])
    }

    func setBase(of token: Identifier, _ base: Identifier?) throws {
        try transaction.execute(
            "UPDATE dav_locks SET base = $1 WHERE volume = $2 AND token = $3",
            [base.map { .id($0) } ?? .null, .id(volume), .id(token)])
    }

    func remove(_ token: Identifier) throws {
        try transaction.execute(
            "DELETE FROM dav_locks WHERE volume = $1 AND token = $2", [.id(volume), .id(token)])
    }
}
