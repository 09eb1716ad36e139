import Foundation
import Journal
import Model
import Support
import Testing

@testable import Volume

/// The recorder's state reverts when a transaction fails, and a transaction costs only what it
/// changes.
@Suite(.serialized) struct RecorderMemoryTests {
    private let actor = Agent(process: 1, uid: 0, program: "test")

    @Test("a transaction does not copy what it does not change")
    func cost() throws {
        let tree = try ProgramTree()
        #expect(tree.quiet())
        let actor = actor
        try tree.volume.recorder.perform { recorder, _ in
            for number in 0..<200_000 {
                let spot = DirectoryEntry(directory: 7, name: Name("\(number)"))
                let snapshot = FileSnapshot(
                    inode: 1, mode: 0o100644, size: 0, modified: 0, changed: 0)
                recorder.state.tombstones[spot] = Tombstone(
                    item: 1, actor: actor, time: Int64.max / 2, snapshot: snapshot)
            }
        }
        let grown = try tree.volume.recorder.perform { recorder, _ in
            let before = try Self.dataBytes()
            recorder.state.tombstones[DirectoryEntry(directory: 7, name: Name("5"))] = nil
            return try Self.dataBytes() - before
        }
        #expect(grown < 4 << 20, "\(grown) bytes more for one entry")
        tree.stop()
    }

    @Test("the state that the last daemon has left of a document is read in one change")
    func takingUp() throws {
        let tree = try ProgramTree()
        try tree.save("letter", "one", by: Program(process: 10))
        #expect(tree.quiet())
        let key = try #require(try tree.item("letter")).key
        let priorContents = (0..<100).map { PriorContent.base($0 + 1_000_000_000) }
        let work = try tree.volume.recorder.perform { recorder, t in
            for (index, prior) in priorContents.enumerated() {
                try t.insert(prior.row(of: key, index: index))
            }
            try recorder.writer.readPriorContents(t)
            defer { recorder.state.pending[key] = nil }
            return recorder.state.pending[key]
        }
        #expect(Set(work?.priorContents.map(\.inode) ?? []) == Set(priorContents.map(\.inode)))
        #expect(work?.revision == 1, "each change costs as much as there are former contents")
        tree.stop()
    }

    /// The private writable memory of this process, in bytes.
    private static func dataBytes() throws -> Int {
        let text = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("VmData") })
        return try #require(Int(line.filter(\.isNumber))) << 10
    }

    @Test("a transaction that fails leaves everything as it was", arguments: UInt64(1)...20)
    func reverting(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var pending = PendingTable(debounce: Debounce(Settings()), postponeSeconds: 1)
        for _ in 0..<50 { change(&pending, &random) }
        for _ in 0..<20 {
            let before = pending
            pending.mark()
            for _ in 0..<random.below(30) { change(&pending, &random) }
            if random.below(2) == 0 {
                pending.removeMark()
                continue
            }
            pending.revert()
            #expect(pending.all.mapValues(\.priorContents) == before.all.mapValues(\.priorContents))
            #expect(pending.all.mapValues(\.revision) == before.all.mapValues(\.revision))
            #expect(pending.dependents == before.dependents)
            #expect(pending.displaced == before.displaced)
            #expect(pending.changed == before.changed)
            for entry in (0..<8).map(entry) {
                #expect(pending.needs(entry) == before.needs(entry))
            }
            var (one, other) = (pending, before)
            #expect(one.takeUnclaimed() == other.takeUnclaimed())
        }
    }

    private func change(_ pending: inout PendingTable, _ random: inout SeededRandom) {
        let key = Int64(random.below(10))
        switch random.below(4) {
        case 0: pending[key] = nil
        case 1: pending[key]?.revision += 1
        default:
            var work = pending[key] ?? PendingDocument(now: 0)
            let number = random.below(8)
            let snapshot = FileSnapshot(
                inode: UInt64(number), mode: 0o100644, size: 1, modified: 0, changed: 0)
            if random.below(2) == 0, !work.priorContents.isEmpty {
                work.priorContents.removeFirst()
            }
            work.priorContents.append(
                PriorContent(
                    place: random.below(2) == 0 ? .elsewhere(snapshot) : .stash(entry(number))))
            pending[key] = work
        }
        if random.below(10) == 0 { _ = pending.takeChanged() }
    }

    private func entry(_ number: Int) -> Stash.Entry {
        Stash.Entry(
            file: "\(number)", sequence: UInt64(number),
            kind: number.isMultiple(of: 2) ? .displaced : .copied, inode: UInt64(number),
            saved: 0, modified: 0, actor: actor)
    }
}
