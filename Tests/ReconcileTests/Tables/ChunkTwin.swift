import ChunkStore
import Model

@testable import Hub
@testable import Reconcile

/// The table of chunks in SQLite beside a plain dictionary: uploads, commits, collections, damage
/// and compaction, in the order that a schedule's operations give.
final class ChunkTwin {
    /// A planted fault of the table, to show that it would be found.
    enum Plant: String, CaseIterable, Sendable {
        case sweepsWhatIsUsed, findsTheCondemned, keepsTheCondemned, forgetsAUse, movesTheOld
    }

    private struct Chunk: Equatable {
        var place: ChunkLocation
        var state = ChunkState.there
        var uses: Int64 = 0
        var since: Int64
    }

    private let transaction: any LedgerTransaction
    private let plant: Plant?
    private var chunks: [Digest: Chunk] = [:]
    private var volume = Identifier.root
    private var nextOffset: UInt64 = 0

    init(_ transaction: any LedgerTransaction, plant: Plant?) {
        (self.transaction, self.plant) = (transaction, plant)
    }

    /// Begins with no chunks, in another volume.
    func begin(in volume: Identifier) { (self.volume, chunks) = (volume, [:]) }

    /// The contents of a version: a chunk of its own and one that it shares with others.
    private func chunks(of content: Digest) -> [Digest] {
        let own = UInt64(content.bytes[1])
        return [Digest(.sha256, words: (1, own, 0, 0)), Digest(.sha256, words: (2, own % 5, 0, 0))]
    }

    /// Follows an operation. Returns what is wrong with the table then.
    ///
    /// - Parameter recorded: The contents of versions that it has added.
    func follow(_ operation: Operation, at time: Int64, recorded: [Digest]) throws -> String? {
        if let content = operation.change.revision?.content {
            for id in chunks(of: content) { try upload(id, at: time) }
        }
        for id in recorded.flatMap(chunks) {
            if let fault = try retain(id) { return fault }
        }
        // An upload whose commit never comes.
        if time % 3 == 0 {
            try upload(Digest(.sha256, words: (3, UInt64(time) % 8, 0, 0)), at: time)
        }
        if time % 5 == 0 { try collect(at: time) }
        if time % 7 == 0 { try damage(time) }
        if time % 4 == 0 { try move(time) }
        return try compare()
    }

    /// Uploads a chunk if `have` says that it is missing.
    private func upload(_ id: Digest, at time: Int64) throws {
        let isThere =
            plant == .findsTheCondemned
            ? try transaction.chunks.row(id, in: volume) != nil
            : try transaction.chunks.isThere(id, in: volume)
        if !isThere { try put(id, at: time) }
        if chunks[id]?.state != .there {
            chunks[id] = Chunk(place: place(), uses: chunks[id]?.uses ?? 0, since: time)
            nextOffset += 100
        }
    }

    private func put(_ id: Digest, at time: Int64) throws {
        if plant == .keepsTheCondemned, try transaction.chunks.row(id, in: volume) != nil { return }
        try transaction.chunks.put(id, plain: id, at: place(), in: volume, time: time)
    }

    private func place() -> ChunkLocation {
        ChunkLocation(pack: 1, offset: nextOffset, storedLength: 40, length: 90)
    }

    private func retain(_ id: Digest) throws -> String? {
        let before = chunks[id]?.uses ?? 0
        chunks[id]?.uses += 1
        if plant == .forgetsAUse, before == 1 { return nil }
        let added = try transaction.chunks.retain(id, in: volume)
        let expected: UInt64 = before == 0 ? 90 : 0
        return added == expected ? nil : "a use adds \(String(describing: added)) bytes"
    }

    /// The two steps of a collection, with a time of grace of six.
    private func collect(at time: Int64) throws {
        if plant == .sweepsWhatIsUsed {
            try transaction.execute(
                "DELETE FROM chunks WHERE volume = $1 AND state <> 0 AND since <= $2",
                [.id(volume), .integer(time - 6)])
        }
        _ = try transaction.chunks.sweep(condemnedBefore: time - 6, in: volume)
        _ = try transaction.chunks.condemn(cameBefore: time - 6, in: volume, at: time)
        chunks = chunks.filter { _, chunk in
            chunk.uses > 0 || chunk.state == .there || chunk.since > time - 6
        }
        for (id, chunk) in chunks
        where chunk.uses == 0 && chunk.state == .there && chunk.since <= time - 6 {
            chunks[id]!.state = .condemned
            chunks[id]!.since = time
        }
    }

    private func chosen(_ time: Int64) -> Digest? {
        let ids = chunks.keys.sorted()
        return ids.isEmpty ? nil : ids[Int(time / 3) % ids.count]
    }

    private func damage(_ time: Int64) throws {
        guard let id = chosen(time), let row = try transaction.chunks.row(id, in: volume) else {
            return
        }
        try transaction.chunks.setDamaged(row)
        chunks[id]!.state = .damaged
    }

    /// Compaction moves a chunk; sometimes an upload has come before it.
    private func move(_ time: Int64) throws {
        guard let id = chosen(time), var row = try transaction.chunks.row(id, in: volume) else {
            return
        }
        let new = ChunkLocation(
            pack: 2, offset: UInt64(time) * 100, storedLength: 30, length: 90)
        if time % 8 == 0 {
            try transaction.chunks.put(id, plain: id, at: place(), in: volume, time: time)
            chunks[id] = Chunk(place: place(), uses: chunks[id]!.uses, since: time)
            nextOffset += 100
            if plant == .movesTheOld, let now = try transaction.chunks.row(id, in: volume) {
                row = now
            }
        } else {
            chunks[id]!.place = new
        }
        try transaction.chunks.move(id, in: volume, from: row.place, to: new)
    }

    private func compare() throws -> String? {
        let rows = try transaction.chunks.page(after: (volume, []), limit: 10_000).filter {
            $0.volume == volume
        }
        for row in rows {
            guard let chunk = chunks[row.id] else { return "a chunk is left: \(row)" }
            guard row.place == chunk.place, row.state == chunk.state, row.uses == chunk.uses else {
                return "\(row), and not \(chunk)"
            }
        }
        guard rows.count == chunks.count else {
            return "\(rows.count) chunks, and not \(chunks.count)"
        }
        let wanted = Set(try transaction.chunks.wanted(in: volume, limit: 10_000))
        let expected = chunks.filter { $0.value.state == .damaged && $0.value.uses > 0 }.keys
        return wanted == Set(expected) ? nil : "\(wanted.count) wanted, and not \(expected.count)"
    }
}
