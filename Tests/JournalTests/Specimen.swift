import Foundation
import GRDBSQLite
import Model

@testable import Journal

/// Everything that a journal contains, to compare it with what was salvaged.
struct Holdings {
    var items: [Int64: Item] = [:]
    var versions: [Identifier: (item: Int64, version: Version)] = [:]
    var manifests: [Identifier: [UInt8]] = [:]
    var chunks: [Digest: ChunkLocation] = [:]
    var stash: [String: StashEntry] = [:]
    var meta: [String: String] = [:]
    var lastKey: Int64 = 0

    init(_ path: String) throws {
        let journal = try Journal.open(path: path)
        try journal.read { reader in
            try reader.forEachItem { items[$0.key] = $0 }
            for key in items.keys {
                for version in try reader.versions(of: key) {
                    versions[version.id] = (key, version)
                }
            }
            try reader.forEachManifest { manifests[$1] = $2 }
            try reader.forEachChunk { chunks[$0] = $1 }
            for row in try reader.stashed() { stash[row.name] = row }
            for row in try reader.all(
                "SELECT key, value FROM meta", [], { ($0.text(0), $0.text(1)) })
            {
                meta[row.0] = row.1
            }
            lastKey = try reader.first("SELECT seq FROM sqlite_sequence", []) { $0.integer(0) } ?? 0
        }
        try journal.close()
    }

    /// Items that other rows refer to. Losing one of them would lose more than the item itself.
    var needed: Set<Int64> {
        Set(versions.values.map(\.item)).union(items.values.map(\.parent)).intersection(items.keys)
    }
}

/// Used instead of the SHA-256 of the content form.
func contentDigest(_ manifest: Manifest) -> Digest {
    let sum = manifest.contentForm.reduce(UInt64(14_695_981_039_346_656_037)) {
        ($0 ^ UInt64($1)) &* 1_099_511_628_211
    }
    return digest(sum)
}

/// A journal with about 5,000 items on more than a thousand pages, with rows of every table and
/// some free pages.
struct Specimen {
    struct Page {
        var number: Int
        /// The table or index that the page belongs to; empty for a free page.
        var name: String
        var type: String
        var cells: Int
    }

    let bytes: Data
    let holdings: Holdings
    let pages: [Page]
    static let pageSize = 4096

    /// Made once for all tests.
    static let shared = Result { try Specimen(seed: 5) }

    private init(seed: UInt64) throws {
        let scratch = try Scratch()
        let path = scratch.directory + "/specimen.sqlite"
        var random = Seeded(state: seed)
        let journal = try Journal.open(path: path, mayCreate: true)
        try journal.write { try Specimen.fill($0, &random) }
        try journal.write { try Specimen.remove($0, &random) }
        try journal.close()
        bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        holdings = try Holdings(path)
        pages = try Specimen.pages(path, count: bytes.count / Specimen.pageSize)
    }

    private static func fill(_ t: Transaction, _ random: inout Seeded) throws {
        var directories = [Item.root]
        for index in 0..<5_000 {
            let parent = directories.randomElement(using: &random)!
            var item = file("document \(index).txt", in: parent, inode: UInt64(1000 + index))
            if index % 40 == 0 { item.kind = .directory }
            if index % 97 == 1 { item.kind = .package }
            if index % 61 == 2 { item.kind = .symlink }
            if index % 23 == 3 { item.deleted = Int64(index) }
            item.changed = Int64(7_000 + index)
            item.key = try t.insert(item)
            if item.kind == .directory, item.deleted == nil { directories.append(item.key) }
            guard item.kind == .file || item.kind == .package, index % 4 != 0 else { continue }
            try addVersions(Int.random(in: 1...3, using: &random), to: item, t, &random)
        }
        for number in 0..<8_000 {
            let number = UInt64(number)
            try t.setPlace(
                digest(number),
                ChunkLocation(pack: 3, offset: number * 99, storedLength: 98, length: 300))
        }
        for index in 0..<60 {
            try t.insert(
                StashEntry(
                    name: "\(index).displaced", inode: UInt64(index), kind: 1,
                    actor: Actor(process: 1, uid: 2, program: "vim"), recorded: Int64(index)))
        }
        try t.set("volume", to: "0123456789abcdef0123456789abcdef")
        try t.set("device", to: "fedcba9876543210fedcba9876543210")
        try t.set("name", to: "Documents")
    }

    private static func addVersions(
        _ count: Int, to item: Item, _ t: Transaction, _ random: inout Seeded
    ) throws {
        var item = item
        for number in 1...count {
            var row = version(number)
            row.kind = number == count ? .current : .history
            row.name = item.name
            row.label = random.next() % 9 == 0 ? "named" : nil
            let length = random.next() % 50 == 0 ? 400 : 2
            let chunks = (0..<length).map { _ in
                ChunkReference(id: digest(random.next() % 8_000), length: 300)
            }
            var list = Manifest(chunks: chunks, modified: Int64(number))
            if item.kind == .package { list.entries[0].path = Array("Contents/a".utf8) }
            row.content = contentDigest(list)
            try t.insert(row, of: item.key, manifest: list.encoded)
            item.current = row.id
            item.latest = number
        }
        try t.update(item)
    }

    /// Removes rows, so that there are free pages and free space in pages.
    private static func remove(_ t: Transaction, _ random: inout Seeded) throws {
        for key in Int64(2_000)...2_300 {
            for version in try t.versions(of: key) { try t.remove(version: version.id) }
            try? t.removeRow(key)
            if var item = try t.item(key) {
                (item.latest, item.current) = (0, nil)
                try t.update(item)
            }
        }
        try t.removeChunks((0..<8_000).filter { $0 % 11 == 0 }.map { digest(UInt64($0)) })
    }

    /// The pages as SQLite itself lists them.
    private static func pages(_ path: String, count: Int) throws -> [Page] {
        var connection: OpaquePointer?
        var statement: OpaquePointer?
        defer {
            sqlite3_finalize(statement)
            sqlite3_close(connection)
        }
        guard sqlite3_open(path, &connection) == SQLITE_OK,
            sqlite3_prepare_v2(
                connection, "SELECT pageno, name, pagetype, ncell FROM dbstat", -1, &statement, nil)
                == SQLITE_OK
        else { throw CocoaError(.fileReadUnknown) }
        var pages = (1...count).map { Page(number: $0, name: "", type: "free", cells: 0) }
        while sqlite3_step(statement) == SQLITE_ROW {
            let number = Int(sqlite3_column_int(statement, 0))
            pages[number - 1].name = String(cString: sqlite3_column_text(statement, 1))
            pages[number - 1].type = String(cString: sqlite3_column_text(statement, 2))
            pages[number - 1].cells = Int(sqlite3_column_int(statement, 3))
        }
        return pages
    }
}
