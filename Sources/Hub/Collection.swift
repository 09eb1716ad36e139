import ChunkStore
import HubProtocol
import Model

/// What a collection did.
package struct CollectionReport: Hashable, Sendable {
    package var condemned = 0
    package var removed = 0
    /// Of packs.
    package var freedBytes: UInt64 = 0
}

extension CollectionReport: CustomStringConvertible {
    package var description: String {
        "condemned \(condemned) chunks, removed \(removed), freed \(freedBytes) bytes"
    }
}

extension Hub {
    /// Condemns chunks that nothing uses and that came longer than `grace` ago, removes those that
    /// were condemned longer than that ago, and then the packs in which little is left. A commit
    /// makes sure that every chunk it names is there and not condemned, in its own transaction; so
    /// nothing ever refers to one that is gone.
    ///
    /// - Parameter grace: Nanoseconds; long enough for an upload and its commit.
    package func collect(grace: Int64) async throws -> CollectionReport {
        var report = CollectionReport()
        let time = clock()
        for volume in try await ledger.read({ try $0.volumes() }) {
            let (removed, condemned) = try await ledger.write { transaction in
                let removed = try transaction.sweepChunks(
                    condemnedBefore: time - grace, in: volume.id)
                let condemned = try transaction.condemnChunks(
                    cameBefore: time - grace, in: volume.id, at: time)
                if removed + condemned > 0 { try transaction.countCollection(of: volume.id) }
                return (removed, condemned)
            }
            report.removed += removed
            report.condemned += condemned
        }
        metrics.collected.add(report.removed)
        if try await ledger.read({ try $0.fact(Fact.backupUntil) ?? 0 }) < time {
            report.freedBytes = try await removePacks()
        }
        return report
    }

    /// Removes packs without chunks, and moves what is left in those that are more than half empty.
    private func removePacks() async throws -> UInt64 {
        let blobs = self.blobs
        // No pack of now grows from here on, and the ledger knows all that lies in them. A pack
        // that an upload begins right after that is none of them: the ledger hears of it later.
        let sizes = try await gate.alone {
            try await blobs.endPack()
            return try await blobs.packs()
        }
        var freed: UInt64 = 0
        let (use, foreign) = try await ledger.read { transaction in
            (try transaction.packUse(), try transaction.fact(Fact.foreignPack) ?? 0)
        }
        for (pack, size) in sizes.sorted(by: { $0.key < $1.key }) {
            let (bytes, chunks) = use[pack] ?? (0, 0)
            if chunks > 0 {
                let live = bytes + UInt64(chunks) * PackStore.Limits.recordOverhead
                guard live < size / 2, try await empty(pack) else { continue }
                freed += size - min(live, size)
            } else {
                freed += size
            }
            if pack <= foreign {
                // What this ledger does not know in it, another one may.
                try await blobs.quarantine(pack: pack)
            } else {
                try await blobs.remove(pack: pack)
            }
        }
        return freed
    }

    /// False when something in it could not be read: the pack stays for who may save it.
    private func empty(_ pack: UInt32) async throws -> Bool {
        let rows = try await ledger.read { try $0.chunks(inPack: pack) }
        let places = rows.map { PlacedChunk(plain: $0.plain, place: $0.place) }
        let moved = try await blobs.move(places, from: pack)
        return try await ledger.write { transaction in
            var isEmpty = true
            for row in rows {
                if let place = moved[row.place.offset] {
                    try transaction.moveChunk(row.id, in: row.volume, from: row.place, to: place)
                } else {
                    try transaction.setDamaged(row)
                    isEmpty = false
                }
            }
            return isEmpty
        }
    }
}

extension Fact {
    /// No pack is removed before this time: a backup is being made.
    static let backupUntil = "backup-until"
}
