import ChunkStore
import Model

/// Copies packs from one blob store to another one, under the same numbers and with the same bytes,
/// so the locations of chunks stay valid. Bytes may be appended to packs of the source meanwhile.
struct PackCopy: Sendable {
    let source: any BlobStore
    let target: any BlobStore

    struct Report: Hashable, Sendable {
        /// The number of packs that both have now.
        var packs = 0
        var bytes: UInt64 = 0
    }

    /// Copies those of the packs of which the target lacks bytes. Packs are append-only: what it
    /// has of a pack is equal.
    ///
    /// - Parameter needed: Returns how many of a pack's bytes are needed.
    func run(
        progress: @Sendable (_ done: Report, _ packs: Int) -> Void = { _, _ in },
        needed: (_ pack: UInt32, _ size: UInt64) async throws -> UInt64 = { $1 }
    ) async throws -> Report {
        let held = try await target.packs()
        let all = try await source.packs().sorted { $0.key < $1.key }
        var report = Report()
        for (pack, size) in all {
            let have = held[pack] ?? 0
            let wanted = have < size ? try await needed(pack, size) : size
            if have < wanted {
                // A pack that is not there is damage that the ledger or a check reports.
                guard let contents = try await source.contents(ofPack: pack) else { continue }
                try await target.add(pack: pack, Array(contents.prefix(Int(wanted))))
            }
            guard max(have, wanted) > 0 else { continue }
            report.packs += 1
            report.bytes += max(have, wanted)
            if have < wanted { progress(report, all.count) }
        }
        return report
    }
}
