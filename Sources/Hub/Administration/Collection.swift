import ChunkStore
import HubProtocol
import Model

/// The result of a collection.
package struct CollectionReport: Hashable, Sendable {
    package var condemned = 0
    package var removed = 0
    /// The bytes by which the packs have become smaller.
    package var freedBytes: UInt64 = 0
}

extension CollectionReport: CustomStringConvertible {
    package var description: String {
        "condemned \(condemned) chunks, removed \(removed), freed \(freedBytes) bytes"
    }
}

extension Hub {
    /// Collects the chunks that no version uses (`GarbageCollection`).
    ///
    /// - Parameter grace: Nanoseconds. It must be longer than an upload and its commit take.
    package func collect(grace: Int64) async throws -> CollectionReport {
        try await GarbageCollection(hub: self).run(grace: grace)
    }
}

/// Removes what no version uses from the packs.
struct GarbageCollection {
    let hub: Hub

    private var ledger: any Ledger { hub.ledger }
    private var blobs: any BlobStore { hub.blobs }

    /// Removes unused chunks in two steps: chunks that no version has used for `grace` become
    /// condemned, and chunks that have been condemned for `grace` are removed. Then it removes the
    /// packs that are mostly empty. The transaction of a commit checks that each chunk it names is
    /// stored and not condemned, so no version ever refers to a removed chunk.
    func run(grace: Int64) async throws -> CollectionReport {
        var report = CollectionReport()
        let time = hub.clock()
        for volume in try await ledger.read({ try $0.volumes() }) {
            let (removed, condemned) = try await ledger.write(.volume(volume.id)) { transaction in
                let removed = try transaction.chunks.sweep(
                    condemnedBefore: time - grace, in: volume.id)
                let condemned = try transaction.chunks.condemn(
                    cameBefore: time - grace, in: volume.id, at: time)
                try ProofTable.removeAll(before: time - grace, in: volume.id, transaction)
                if removed + condemned > 0 { try transaction.chunks.countCollection(of: volume.id) }
                return (removed, condemned)
            }
            report.removed += removed
            report.condemned += condemned
        }
        hub.metrics.collected.add(report.removed)
        if try await mayRemovePacks(at: time) {
            report.freedBytes = try await removePacks(begunBefore: time - grace)
        }
        let (stored, end) = (try await blobs.packs().values.reduce(0, +), hub.clock())
        try await ledger.write { transaction in
            try transaction.setFact(Fact.collected, end)
            try StorageHistory(transaction).note(stored, at: end)
        }
        return report
    }

    /// Whether nobody copies packs at present.
    private func mayRemovePacks(at time: Int64) async throws -> Bool {
        try await ledger.read { transaction in
            let isMoving = try MoveTable(transaction).record() != nil
            return try !isMoving && transaction.fact(Fact.backupUntil) ?? 0 < time
        }
    }

    /// Removes packs without chunks, and compacts packs that are more than half empty.
    private func removePacks(begunBefore time: Int64) async throws -> UInt64 {
        let blobs = self.blobs
        // From here on the listed packs do not grow, and the ledger knows all chunks in them. A
        // pack that an upload begins later is not in the list.
        let sizes = try await hub.gate.alone { try await blobs.collectablePacks() }
        let (use, foreign) = try await ledger.read { transaction in
            (try transaction.chunks.packUse(), try transaction.fact(Fact.foreignPack) ?? 0)
        }
        var freed = try await blobs.removeGarbage(
            after: UInt32(clamping: foreign), begunBefore: time)
        var isMarked = false
        for (pack, size) in sizes.sorted(by: { $0.key < $1.key }) {
            let (bytes, chunks) = use[pack] ?? (0, 0)
            let live = bytes + UInt64(chunks) * PackStore.Limits.recordOverhead
            guard chunks == 0 || live < size / 2 else { continue }
            if !isMarked { try await hub.parts.advance() }
            isMarked = true
            if chunks > 0 {
                guard try await empty(pack) else { continue }
                freed += size - min(live, size)
            } else {
                freed += size
            }
            if pack <= foreign {
                // Another ledger may know chunks in this pack that this ledger does not know.
                try await blobs.quarantine(pack: pack)
            } else {
                try await blobs.remove(pack: pack)
            }
        }
        return freed
    }

    /// Moves all chunks out of the pack. Returns false if a chunk could not be read; the pack then
    /// stays, because its bytes may still be recovered.
    private func empty(_ pack: UInt32) async throws -> Bool {
        let rows = try await ledger.read { try $0.chunks.rows(inPack: pack) }
        let places = rows.map { PlacedChunk(plain: $0.plain, place: $0.place) }
        let moved = try await blobs.move(places, from: pack)
        return try await ledger.write { [blobs] transaction in
            try blobs.confirm(Array(moved.values), transaction)
            var isEmpty = true
            for row in rows {
                if let place = moved[row.place.offset] {
                    try transaction.chunks.move(row.id, in: row.volume, from: row.place, to: place)
                } else {
                    try transaction.chunks.setDamaged(row)
                    isEmpty = false
                }
            }
            return isEmpty
        }
    }
}

extension Fact {
    /// The time until which no pack may be removed, because a backup is being made.
    static let backupUntil = "backup-until"
}
