import Foundation
import Model
import Testing

@testable import Journal

struct SalvageTests {
    let scratch: Scratch
    let specimen: Specimen

    init() throws {
        scratch = try Scratch()
        specimen = try Specimen(scratch, seed: 5)
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

    /// Salvages these bytes; what comes of it is sound and the original as it was.
    private func salvage(_ bytes: Data, log: Data? = nil, _ what: String) throws -> (
        salvage: Salvage, holdings: Holdings
    ) {
        for name in try scratch.names() where name.hasPrefix("fresh") {
            try FileManager.default.removeItem(atPath: scratch.directory + "/" + name)
        }
        try bytes.write(to: URL(fileURLWithPath: scratch.path))
        try log?.write(to: URL(fileURLWithPath: scratch.path + "-wal"))
        let names = try scratch.names()
        let salvage = try Journal.salvage(from: scratch.path, into: fresh)
        #expect(scratch.contents() == bytes, "\(what)")
        #expect(scratch.contents("-wal") == log, "\(what)")
        #expect(try scratch.names() == (names + ["fresh.sqlite"]).sorted(), "\(what)")
        let journal = try Journal.open(path: fresh, checked: true)
        #expect(journal.integrityProblems() == [], "\(what)")
        try expectOrder(journal, what)
        try journal.close()
        return (salvage, try Holdings(fresh))
    }

    private func expectOrder(_ journal: Journal, _ what: String) throws {
        try journal.read { reader in
            try reader.forEachItem { item in
                #expect(try reader.path(of: item.key) != nil, "\(what): item \(item.key)")
                let isDocument = item.kind == .file || item.kind == .package
                #expect(!isDocument || item.deleted != nil || item.changed == 0, "\(what)")
                guard let current = item.current else { return }
                #expect(try reader.item(ofVersion: current) == item.key, "\(what)")
            }
        }
    }

    /// What is missing or another in the salvaged journal.
    private struct Loss: CustomStringConvertible {
        var items: Set<Int64> = []
        var versions: Set<Identifier> = []
        var chunks = 0
        var others = 0
        /// Rows that are there with other values, and rows that never were.
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
            "lost \(items.count) items, \(versions.count) versions, \(chunks) chunks, \(others) others; "
                + "\(changed) in part, \(invented) invented"
        }
    }

    /// The most rows that may be missing or another when this page is spoilt.
    private func bound(_ page: Specimen.Page) -> Int {
        switch (page.name, page.type) {
        case ("items", "leaf"), ("versions", "leaf"), ("chunks", _), ("stash", _), ("meta", _):
            page.cells
        // No two versions of the specimen share one.
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
        // An item whose manifest is gone has no current version any more.
        let followers = page.name == "manifests" ? 2 : 1
        #expect(loss.total <= bound(page), "\(what): \(loss)")
        #expect(loss.total + loss.changed <= followers * bound(page), "\(what): \(loss)")
        #expect(after.lastKey >= specimen.holdings.lastKey, "\(what)")
        if harm != .scattered {
            #expect(loss.invented == 0, "\(what): \(loss)")
            #expect(loss.items.isDisjoint(with: specimen.holdings.needed), "\(what): \(loss)")
            #expect(page.name == "manifests" || loss.versions.isEmpty, "\(what): \(loss)")
            #expect(loss.total > 0 || salvage.isIndexComplete || page.name == "chunks", "\(what)")
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
        let rounds = ProcessInfo.processInfo.environment["SALVAGE_ROUNDS"].flatMap(Int.init) ?? 60
        print("salvage: seed \(seed), \(rounds) rounds, \(specimen.pages.count) pages")
        var random = Seeded(state: seed)
        let kinds = Dictionary(grouping: specimen.pages) { "\($0.name) \($0.type)" }
        let names = kinds.keys.sorted()
        var report: [String: [Loss]] = [:]
        for round in 0..<rounds {
            // Half of them over all kinds of pages, as most pages are leaves.
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
}
