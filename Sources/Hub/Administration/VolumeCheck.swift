import ChunkStore
import HubProtocol
import Model
import Reconcile

/// Checks each reference of one volume in one snapshot. The rows are read in pages, so the memory
/// that this needs does not depend on their number.
struct VolumeCheck {
    private let volume: Identifier
    private let transaction: any LedgerTransaction
    private let progress: (_ items: Int) -> Void
    private var report = CheckReport()
    /// What is known of directories; nil if there is no such item.
    private var directories: [Identifier: Directory?] = [:]

    private struct Directory {
        let isDirectory: Bool
        let isAlive: Bool
    }

    /// The rows of a page. Few have more than a kilobyte, and none more than `stateBytes`.
    static let pageRows = 250
    private static let directoriesHeld = 100_000
    /// The chunks whose uses are counted at once. If there are more, the versions are read several
    /// times.
    static let chunksHeld = 1_000_000

    init(
        _ volume: Identifier, _ transaction: any LedgerTransaction,
        progress: @escaping (_ items: Int) -> Void = { _ in }
    ) {
        self.volume = volume
        self.transaction = transaction
        self.progress = progress
    }

    func run(pageRows: Int = pageRows, chunksHeld: Int = chunksHeld) throws -> CheckReport {
        var check = self
        try check.checkMembers()
        try check.checkItems(pageRows)
        try check.checkNames()
        let count = try transaction.row(
            "SELECT count(*) FROM chunks WHERE volume = $1", [.id(volume)])?.integer(0)
        let parts = UInt8(clamping: Int(count ?? 0) / chunksHeld + 1)
        for part in 0..<parts { try check.checkChunks(part, of: parts, pageRows) }
        return check.report
    }

    private mutating func add(_ fault: String) {
        report.faults.append("Volume \(volume): \(fault)")
    }

    private mutating func checkMembers() throws {
        guard let account = try transaction.volume(volume)?.account else { return }
        let owners = try transaction.membership.members(of: volume).count { $0.role == .owner }
        let role = try transaction.membership.role(of: account, in: volume)
        if owners != 1 || role != .owner { add("its account is not its only owner.") }
        let lost = try transaction.row(
            """
            SELECT count(*) FROM members WHERE volume = $1 AND folder IS NOT NULL
            AND folder NOT IN (SELECT id FROM folders WHERE volume = $1)
            """, [.id(volume)])
        if try lost?.integer(0) != 0 { add("a member's folder is unknown.") }
    }

    /// Reads all rows of the volume in a table that has this key.
    ///
    /// - Parameter columns: They begin with the key.
    private func pages(
        _ columns: String, of table: String, key: String = "id", _ rows: Int,
        _ body: ([LedgerRow]) throws -> Void
    ) throws {
        var last = SQLValue.bytes([])
        while true {
            let page = try transaction.rows(
                """
                SELECT \(columns) FROM \(table) WHERE volume = $1 AND \(key) > $2
                ORDER BY \(key) LIMIT $3
                """, [.id(volume), last, .integer(Int64(rows))])
            guard let end = page.last else { return }
            try body(page)
            last = end[0]
        }
    }

    // MARK: Items

    private mutating func checkItems(_ rows: Int) throws {
        let head = try transaction.volume(volume)?.head ?? 0
        var check = self
        try pages("id, state, sequence, parent, name_key, alive", of: "items", rows) { page in
            try check.checkItems(page, head)
            check.progress(check.report.items)
        }
        self = check
    }

    private mutating func checkItems(_ page: [LedgerRow], _ head: UInt64) throws {
        var items: [ItemState] = []
        for row in page {
            report.items += 1
            let id = try row.id(0)
            guard let item = ItemState(encoded: try row.bytes(1)) else {
                add("item \(id) cannot be read.")
                continue
            }
            let sequence = try row.count(2)
            if sequence > head { add("item \(id) has a sequence after the head.") }
            if sequence < item.sequence {
                add("item \(id) has an older sequence number in its row than in its state.")
            }
            let place: [SQLValue] = [
                .id(item.placement.parent), .bytes(item.nameKey.bytes),
                .integer(item.life.isAlive ? 1 : 0),
            ]
            if [row[3], row[4], row[5]] != place {
                add("item \(id) is in another place in its row than in its state.")
            }
            // Devices refuse an invalid item, and with it all later changes.
            if let objection = item.objection { add("item \(id): \(objection)") }
            items.append(item)
        }
        try checkRevisions(of: items)
        try checkParents(of: items.filter(\.life.isAlive))
    }

    private mutating func checkRevisions(of items: [ItemState]) throws {
        let known = try existing(items.flatMap { $0.revisions.map(\.id) })
        for item in items {
            // Only an empty file may have no version.
            if item.kind == .package, item.current == nil {
                add("package \(item.id) has no version.")
            }
            for revision in item.revisions where !known.contains(revision.id) {
                add("version \(revision.id) of item \(item.id) is missing.")
            }
        }
    }

    private func existing(_ revisions: [Identifier]) throws -> Set<Identifier> {
        var found: Set<Identifier> = []
        try LedgerCopy.inGroups(revisions) { ids in
            let rows = try transaction.rows(
                "SELECT id FROM revisions WHERE volume = $1 AND id IN (\(Self.marks(ids.count)))",
                [.id(volume)] + ids.map { .id($0) })
            for row in rows { found.insert(try row.id(0)) }
        }
        return found
    }

    private mutating func checkParents(of items: [ItemState]) throws {
        try readDirectories(Set(items.map(\.placement.parent)))
        for item in items where item.placement.parent != .root {
            guard let parent = directories[item.placement.parent] ?? nil, parent.isDirectory else {
                add("item \(item.id) has a parent that is not a directory.")
                continue
            }
            if !parent.isAlive { add("item \(item.id) is in a directory that is in the trash.") }
        }
    }

    private mutating func readDirectories(_ ids: Set<Identifier>) throws {
        if directories.count > Self.directoriesHeld { directories = [:] }
        let new = ids.filter { directories[$0] == nil && $0 != .root }
        for id in new { directories[id] = .some(nil) }
        var found: [LedgerRow] = []
        try LedgerCopy.inGroups(Array(new)) { ids in
            found += try transaction.rows(
                """
                SELECT id, state FROM items
                WHERE volume = $1 AND id IN (\(Self.marks(ids.count)))
                """, [.id(volume)] + ids.map { .id($0) })
        }
        for row in found {
            guard let item = ItemState(encoded: try row.bytes(1)) else { continue }
            directories[try row.id(0)] = Directory(
                isDirectory: item.kind == .directory, isAlive: item.life.isAlive)
        }
    }

    /// The arguments from the second one on.
    private static func marks(_ count: Int) -> String {
        (0..<count).map { "$\($0 + 2)" }.joined(separator: ", ")
    }

    /// The rows' places are those of the states, which was checked before.
    private mutating func checkNames() throws {
        let twice = try transaction.rows(
            """
            SELECT parent, name_key FROM items WHERE volume = $1 AND alive = 1
            GROUP BY parent, name_key HAVING count(*) > 1
            """, [.id(volume)])
        for row in twice {
            let ids = try transaction.rows(
                """
                SELECT id FROM items
                WHERE volume = $1 AND parent = $2 AND name_key = $3 AND alive = 1 ORDER BY id
                """, [.id(volume), row[0], row[1]]
            ).map { "\(try $0.id(0))" }
            add("items \(ids.joined(separator: " and ")) have the same name in one directory.")
        }
    }

    // MARK: Chunks

    /// How many versions name a chunk, and one of them.
    private struct Uses {
        var count: Int64
        var revision: Identifier?
    }

    private mutating func checkChunks(_ part: UInt8, of parts: UInt8, _ rows: Int) throws {
        var (uses, check) = ([Digest: Uses](), self)
        func count(_ packed: [UInt8], _ revision: Identifier?) {
            for chunk in PackedIDs(bytes: packed)?.ids ?? []
            where (chunk.bytes.last ?? 0) % parts == part {
                uses[chunk, default: Uses(count: 0)].count += 1
                if let revision { uses[chunk]?.revision = revision }
            }
        }
        try pages("id, chunks", of: "revisions", rows) { page in
            if part == 0 { check.report.revisions += page.count }
            for row in page { count(try row.bytes(1), try row.id(0)) }
        }
        for row in try transaction.rows(
            "SELECT chunks FROM loose_uses WHERE volume = $1", [.id(volume)])
        {
            count(try row.bytes(0), nil)
        }
        try pages("id, uses, state", of: "chunks", rows) { page in
            for row in page {
                let id = try row.digest(0)
                guard (id.bytes.last ?? 0) % parts == part else { continue }
                let named = uses.removeValue(forKey: id)?.count ?? 0
                try check.checkChunk(id, row, named)
            }
        }
        for (chunk, use) in uses.sorted(by: { $0.key < $1.key }) {
            guard let revision = use.revision else { continue }
            check.add("chunk \(chunk) of version \(revision) is missing.")
        }
        self = check
    }

    private mutating func checkChunk(_ id: Digest, _ row: LedgerRow, _ named: Int64) throws {
        if try row.integer(1) != named {
            add("chunk \(id) counts \(try row.integer(1)) versions, and \(named) name it.")
        }
        if named > 0, try row.integer(2) == ChunkState.condemned.rawValue {
            add("chunk \(id) is condemned, and \(named) versions name it.")
        }
    }
}

extension ItemState {
    fileprivate var revisions: [Revision] { [current].compactMap { $0 } + conflicts }
}
