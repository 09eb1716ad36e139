import Foundation
import Model
import Testing

@testable import Journal

struct SalvageTests {
    let scratch: Scratch
    let specimen: Specimen

    init() throws {
        scratch = try Scratch()
        specimen = try Specimen.shared.get()
    }

    private enum Harm: CaseIterable {
        case zeros, noise, flippedHeader, scattered
    }

    private func harm(_ bytes: inout Data, _ page: Int, _ harm: Harm, _ random: inout Seeded) {
        let start = (page - 1) * Specimen.pageSize
        let range = start..<start + Specimen.pageSize
        switch harm {
        case .zeros: bytes.replaceSubrange(range, with: Data(count: Specimen.pageSize))
        case .noise:
            for index in range { bytes[index] = UInt8(truncatingIfNeeded: random.next()) }
        case .flippedHeader:
            bytes[start + Int.random(in: 0..<(page == 1 ? 108 : 12), using: &random)] ^=
                1 << UInt8.random(in: 0..<8, using: &random)
        case .scattered:
            for _ in 0..<16 {
                bytes[range.randomElement(using: &random)!] ^= UInt8.random(
                    in: 1...255, using: &random)
            }
        }
    }

    private var fresh: String { scratch.directory + "/fresh.sqlite" }

    /// Salvages these bytes. Checks that the result is sound and that the original is unchanged.
    private func salvage(_ bytes: Data, log: Data? = nil, _ what: String) throws -> (
        salvage: Salvage, holdings: Holdings
    ) {
        for name in try scratch.names() where name.hasPrefix("fresh") {
            try FileManager.default.removeItem(atPath: scratch.directory + "/" + name)
        }
        try bytes.write(to: URL(fileURLWithPath: scratch.path))
        try log?.write(to: URL(fileURLWithPath: scratch.path + "-wal"))
        let names = try scratch.names()
        let salvage = try Journal.salvage(from: scratch.path, into: fresh) {
            contentDigest($1) == $0
        }
        #expect(scratch.contents() == bytes, "\(what)")
        #expect(scratch.contents("-wal") == log, "\(what)")
        let namesAfter = try scratch.names()
        #expect(namesAfter == (names + ["fresh.sqlite"]).sorted(), "\(what)")
        let journal = try Journal.open(path: fresh)
        #expect(journal.integrityProblems() == [], "\(what)")
        try expectOrder(journal, what)
        try journal.close()
        return (salvage, try Holdings(fresh))
    }

    private func expectOrder(_ journal: Journal, _ what: String) throws {
        try journal.read { reader in
            try reader.forEachItem { item in
                let path = try reader.path(of: item.key)
                #expect(path != nil, "\(what): item \(item.key)")
                let isDocument = item.kind == .file || item.kind == .package
                #expect(!isDocument || item.deleted != nil || item.changed == 0, "\(what)")
                guard let current = item.current else { return }
                let owner = try reader.item(ofVersion: current)
                #expect(owner == item.key, "\(what)")
            }
        }
    }

    /// What is missing or different in the salvaged journal.
    private struct Loss: CustomStringConvertible {
        var items: Set<Int64> = []
        var versions: Set<Identifier> = []
        var chunks = 0
        var others = 0
        /// The number of rows with other values, and of rows that did not exist before.
        var changed = 0
        var invented = 0

        init(_ before: Holdings, _ after: Holdings) {
            for (key, item) in before.items {
                guard let found = after.items[key] else {
                    items.insert(key)
                    continue
                }
                var expected = item
                if item.deleted == nil, item.kind == .file || item.kind == .package {
                    expected.changed = 0
                }
                if found != expected { changed += 1 }
            }
            for (id, row) in before.versions {
                guard let found = after.versions[id], after.manifests[id] == before.manifests[id]
                else {
                    versions.insert(id)
                    continue
                }
                if found != row { changed += 1 }
            }
            for (id, place) in before.chunks where after.chunks[id] != place { chunks += 1 }
            for (name, row) in before.stash where after.stash[name] != row { others += 1 }
            for (key, value) in before.meta where after.meta[key] != value { others += 1 }
            invented =
                after.items.keys.count { before.items[$0] == nil }
                + after.versions.keys.count { before.versions[$0] == nil }
                + after.chunks.keys.count { before.chunks[$0] == nil }
        }

        var total: Int { items.count + versions.count + chunks + others }
        var description: String {
            "lost \(items.count) items, \(versions.count) versions, \(chunks) chunks, "
                + "\(others) others; "
                + "\(changed) in part, \(invented) invented"
        }
    }

    /// The greatest number of rows that may be missing or different when this page is damaged.
    private func bound(_ page: Specimen.Page) -> Int {
        switch (page.name, page.type) {
        case ("items", "leaf"), ("versions", "leaf"), ("chunks", _), ("stash", _), ("meta", _):
            page.cells
        // No two versions of the specimen share a manifest.
        case ("manifests", "leaf"): page.cells
        case ("manifests", "overflow"): 1
        default: 0
        }
    }

    private func expectLittleLoss(_ page: Specimen.Page, _ harm: Harm, _ random: inout Seeded)
        throws -> Loss
    {
        var bytes = specimen.bytes
        self.harm(&bytes, page.number, harm, &random)
        let what =
            "page \(page.number) (\(page.type) of \(page.name), \(page.cells) cells) with \(harm)"
        let (salvage, after) = try salvage(bytes, what)
        let loss = Loss(specimen.holdings, after)
        // An item whose manifest is lost has no current version any more.
        let followers = page.name == "manifests" ? 2 : 1
        #expect(loss.total <= bound(page), "\(what): \(loss)")
        #expect(loss.total + loss.changed <= followers * bound(page), "\(what): \(loss)")
        #expect(after.lastKey >= specimen.holdings.lastKey, "\(what)")
        if harm != .scattered {
            #expect(loss.invented == 0, "\(what): \(loss)")
            #expect(loss.items.isDisjoint(with: specimen.holdings.needed), "\(what): \(loss)")
            #expect(page.name == "manifests" || loss.versions.isEmpty, "\(what): \(loss)")
            #expect(salvage.isIndexComplete || page.name == "chunks", "\(what)")
            #expect(loss.chunks == 0 || !salvage.isIndexComplete, "\(what)")
            if let lost = salvage.items.lost { #expect(lost == loss.items.count, "\(what)") }
            if let lost = salvage.versions.lost { #expect(lost == loss.versions.count, "\(what)") }
        }
        return loss
    }

    @Test func aDamagedPageCostsAtMostItsRows() throws {
        let seed =
            ProcessInfo.processInfo.environment["SALVAGE_SEED"].flatMap(UInt64.init)
            ?? .random(in: 0...9_999)
        let rounds = ProcessInfo.processInfo.environment["SALVAGE_ROUNDS"].flatMap(Int.init) ?? 32
        print("salvage: seed \(seed), \(rounds) rounds, \(specimen.pages.count) pages")
        var random = Seeded(state: seed)
        let kinds = Dictionary(grouping: specimen.pages) { "\($0.name) \($0.type)" }
        let names = kinds.keys.sorted()
        var report: [String: [Loss]] = [:]
        for round in 0..<rounds {
            // Half of the rounds choose among all kinds of pages, because most pages are leaves.
            let page =
                round % 2 == 0
                ? kinds[names[round / 2 % names.count]]!.randomElement(using: &random)!
                : specimen.pages.randomElement(using: &random)!
            let harm = Harm.allCases[round / 2 / names.count % 2 == 0 ? round % 4 : (round + 1) % 4]
            let loss = try expectLittleLoss(page, harm, &random)
            report["\(page.name) \(page.type)", default: []].append(loss)
        }
        for (name, losses) in report.sorted(by: { $0.key < $1.key }) {
            let total = losses.reduce(0) { $0 + $1.total }
            let changed = losses.reduce(0) { $0 + $1.changed }
            print(
                "salvage: \(name): \(losses.count) damaged, \(total) rows lost, \(changed) in part")
        }
    }

    /// The damaged page comes first, and all in it still looks sound.
    @Test func aDamagedKeyTakesNoOtherRowsPlace() throws {
        let leaves = specimen.pages.filter { $0.name == "items" && $0.type == "leaf" }
        var bytes = specimen.bytes
        func page(_ leaf: Specimen.Page) throws -> TreePage {
            let start = (leaf.number - 1) * Specimen.pageSize
            let content = Array(bytes[start..<start + Specimen.pageSize])
            return try #require(TreePage(content, number: UInt32(leaf.number)))
        }
        let pages = try leaves.map { ($0, try page($0)) }
            .sorted { $0.1.cells[0].key < $1.1.cells[0].key }
        let last = try #require(
            pages.indices.dropLast().first { pages[$0].1.cells[0].key > 128 })
        let (leaf, damaged) = pages[last]
        let (key, other) = (damaged.cells.last!.key, pages[last + 1].1.cells[0].key)
        try #require(other < 1 << 14, "Both keys have two bytes.")
        // The pointer to the cell, the length of its payload, and the key.
        let start = (leaf.number - 1) * Specimen.pageSize
        var at = start + damaged.bytes.big16(8 + 2 * (damaged.cells.count - 1))
        while bytes[at] >= 0x80 { at += 1 }
        #expect(bytes[at + 1] == UInt8(key >> 7 | 0x80) && bytes[at + 2] == UInt8(key & 0x7f))
        bytes[at + 1] = UInt8(other >> 7 | 0x80)
        bytes[at + 2] = UInt8(other & 0x7f)
        let (_, after) = try salvage(bytes, "key \(key) is \(other)")
        #expect(after.items[other]?.name == specimen.holdings.items[other]?.name)
        let loss = Loss(specimen.holdings, after)
        #expect(loss.items.isSubset(of: [key]) && loss.versions.isEmpty, "\(loss)")
    }

    @Test func theFirstPageCostsNothing() throws {
        var random = Seeded(state: 3)
        for harm in [Harm.zeros, .noise] {
            var bytes = specimen.bytes
            self.harm(&bytes, 1, harm, &random)
            let (salvage, after) = try salvage(bytes, "page 1 with \(harm)")
            let loss = Loss(specimen.holdings, after)
            #expect(loss.total + loss.changed + loss.invented == 0, "\(loss)")
            #expect(salvage.isWhole && salvage.sentences.count == 1, "\(salvage.sentences)")
            #expect(salvage.volume == "0123456789abcdef0123456789abcdef")
        }
    }

    @Test func halfAFileGivesWhatIsInIt() throws {
        let half = specimen.pages.count / 2
        let (salvage, after) = try salvage(
            specimen.bytes.prefix(half * Specimen.pageSize + 1000), "truncated")
        let loss = Loss(specimen.holdings, after)
        for (name, kept) in [("items", after.items.count), ("manifests", after.manifests.count)] {
            let there = specimen.pages.prefix(half).filter { $0.name == name && $0.type == "leaf" }
            let rows = there.reduce(0) { $0 + $1.cells }
            #expect(kept >= rows && rows > 100, "\(name): \(kept) of \(rows)")
        }
        #expect(!salvage.isIndexComplete && after.versions.count > 500, "\(loss)")
        let unheardOf = after.versions.filter {
            specimen.holdings.versions[$0.key] == nil && $0.value.version.label != "recovered"
        }
        #expect(unheardOf.isEmpty)
        print("salvage: half the file: \(loss); \(salvage.sentences)")
    }

    /// Two faults at once: directories are lost, and so are the indexes with their names.
    @Test func whatWasInALostDirectoryStaysReachable() throws {
        var bytes = specimen.bytes
        var random = Seeded(state: 8)
        let directories = specimen.holdings.items.values.filter { $0.kind == .directory }.count
        for page in specimen.pages {
            let isItems = page.name == "items" && page.type == "leaf" && page.number % 3 == 0
            if isItems || page.name == "items_alive" || page.name == "sqlite_autoindex_items_1" {
                harm(&bytes, page.number, .zeros, &random)
            }
        }
        let (salvage, after) = try salvage(bytes, "lost directories")
        let loss = Loss(specimen.holdings, after)
        #expect(loss.versions.isEmpty && directories > 50, "\(loss)")
        #expect(salvage.orphans > 100 && salvage.documents > 100, "\(salvage)")
        let recovered = after.items.values.filter { $0.name == Name("recovered") }
        #expect(recovered.map(\.parent) == [Item.root])
        for (id, row) in specimen.holdings.versions {
            let item = try #require(after.items[row.item])
            #expect(specimen.holdings.items[row.item]?.name == item.name, "\(id)")
            #expect(after.items[item.parent] != nil)
        }
        let text = salvage.sentences.joined(separator: " ")
        #expect(text.contains("recovered") && text.contains("--deleted"), "\(text)")
    }

    @Test func namesThatClashAreKeptAsDeleted() throws {
        try scratch.createClosed(items: 3)
        var bytes = try #require(scratch.contents())
        // The second of two rows on one page gets the name of the first one.
        let range = try #require(bytes.range(of: Data("f1".utf8), options: .backwards))
        let row = try #require(bytes.range(of: Data("f1".utf8)))
        for range in [row, range] { bytes.replaceSubrange(range, with: Data("f0".utf8)) }
        let (_, after) = try salvage(bytes, "clash")
        let twins = after.items.values.filter { $0.name == Name("f0") }
        #expect(twins.count == 2 && twins.count { $0.deleted == nil } == 1)
    }

    @Test func anItemThatIsItsOwnAncestorIsMoved() throws {
        let journal = try scratch.create()
        try journal.write { t in
            let first = try t.insert(directory("a"))
            let second = try t.insert(directory("b", in: first))
            let third = try t.insert(file("c", in: second))
            try t.run(
                "UPDATE items SET parent = ? WHERE key = ?", [.integer(third), .integer(first)])
        }
        try journal.close()
        let (salvage, after) = try salvage(try #require(scratch.contents()), "cycle")
        #expect(salvage.orphans == 1)
        #expect(after.items.values.count { "abc".contains($0.name.text) && $0.deleted == nil } == 3)
    }

    // MARK: The log

    private func copyWithLog() throws -> (bytes: Data, log: Data, after: Holdings) {
        try specimen.bytes.write(to: URL(fileURLWithPath: scratch.path))
        let journal = try Journal.open(path: scratch.path)
        for index in 0..<20 {
            try journal.write { t in
                var item = file("new \(index)")
                item.latest = 1
                let key = try t.insert(item)
                try t.insert(
                    version(1, content: 1), of: key, manifest: Manifest(chunks: []).encoded)
                try t.setPlace(
                    digest(UInt64(90_000 + index)),
                    ChunkLocation(pack: 9, offset: 1, storedLength: 1, length: 1))
            }
        }
        let bytes = try #require(scratch.contents())
        let log = try #require(scratch.contents("-wal"))
        try journal.close()
        let after = try Holdings(scratch.path)
        #expect(bytes == specimen.bytes && log.count > 40 * Specimen.pageSize)
        for name in try scratch.names() where name.hasPrefix("journal") {
            try FileManager.default.removeItem(atPath: scratch.directory + "/" + name)
        }
        return (bytes, log, after)
    }

    @Test func whatTheLogHoldsCounts() throws {
        var (bytes, log, expected) = try copyWithLog()
        var random = Seeded(state: 4)
        // The log has newer contents of the first page; the page in the file is damaged.
        harm(&bytes, 1, .noise, &random)
        let salvage = try Journal.salvage(from: put(bytes, log), into: fresh)
        #expect(salvage.logProblem == nil)
        let loss = Loss(expected, try Holdings(fresh))
        #expect(loss.total + loss.changed + loss.invented == 0, "\(loss)")
        // A torn end is not damage, because that transaction was never acknowledged.
        try FileManager.default.removeItem(atPath: fresh)
        _ = try Journal.salvage(from: put(bytes, log.dropLast(100)), into: fresh)
        #expect(try Holdings(fresh).items.count == expected.items.count - 1)
        log[5_000] ^= 1
        try FileManager.default.removeItem(atPath: fresh)
        let early = try Journal.salvage(from: put(specimen.bytes, log), into: fresh)
        #expect(early.logProblem?.contains("-wal") == true)
        #expect(early.sentences.contains { $0.contains("last changes") })
        expected = try Holdings(fresh)
        #expect(Loss(specimen.holdings, expected).total == 0)
    }

    private func put(_ bytes: Data, _ log: Data) throws -> String {
        try bytes.write(to: URL(fileURLWithPath: scratch.path))
        try log.write(to: URL(fileURLWithPath: scratch.path + "-wal"))
        return scratch.path
    }

    // MARK: Refusals

    private func expectRefusal(_ bytes: Data?, _ code: VolumeError.Code) throws {
        try? FileManager.default.removeItem(atPath: scratch.path)
        try bytes?.write(to: URL(fileURLWithPath: scratch.path))
        let names = try scratch.names()
        #expect(
            failure(naming: scratch.path) { () throws(VolumeError) in
                try Journal.salvage(from: scratch.path, into: fresh)
            } == code)
        #expect(scratch.contents() == bytes)
        let namesAfter = try scratch.names()
        #expect(namesAfter == names)
    }

    @Test func whatIsNoJournalIsRefused() throws {
        var random = Seeded(state: 11)
        let noise = Data((0..<200_000).map { _ in UInt8(truncatingIfNeeded: random.next()) })
        for bytes in [noise, Data("hello".utf8), Data(count: 8192), Data()] {
            try expectRefusal(bytes, .damaged)
        }
        try expectRefusal(nil, .notFound)
        var newer = specimen.bytes
        newer[63] = 99
        try expectRefusal(newer, .newer)
    }

    @Test func anExistingFileIsNotReplaced() throws {
        try specimen.bytes.write(to: URL(fileURLWithPath: scratch.path))
        try Data("mine".utf8).write(to: URL(fileURLWithPath: fresh))
        #expect(
            failure(naming: fresh) { () throws(VolumeError) in
                try Journal.salvage(from: scratch.path, into: fresh)
            } == .invalid)
        #expect(FileManager.default.contents(atPath: fresh) == Data("mine".utf8))
    }

    @Test func aSoundJournalIsCopiedWhole() throws {
        let (salvage, after) = try salvage(specimen.bytes, "sound")
        let loss = Loss(specimen.holdings, after)
        #expect(loss.total + loss.changed + loss.invented == 0, "\(loss)")
        #expect(salvage.isWhole && salvage.items.kept == specimen.holdings.items.count)
        #expect(after.lastKey == specimen.holdings.lastKey)
    }
}
