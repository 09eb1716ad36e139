import ChunkStore
import Model

/// Copies packs from one blob store to another one, under the same numbers and with the same bytes,
/// so the locations of chunks stay valid. No pack may be removed from the source meanwhile.
struct PackCopy: Sendable {
    let source: any BlobStore
    let target: any BlobStore

    struct Report: Hashable, Sendable {
        /// The number of packs that both have now.
        var packs = 0
        var bytes: UInt64 = 0
    }

    /// Copies those of the packs that the target does not have yet. Packs are append-only: a pack
    /// whose size is equal has equal bytes.
    ///
    /// - Parameter wanted: Returns whether a pack is needed.
    func run(
        progress: @Sendable (_ done: Report, _ packs: Int) -> Void = { _, _ in },
        where wanted: (_ pack: UInt32) -> Bool
    ) async throws(VolumeError) -> Report {
        let held = try await target.packs()
        let all = try await source.packs().filter { wanted($0.key) }.sorted { $0.key < $1.key }
        var report = Report()
        for (pack, size) in all {
            if held[pack] != size {
                // A pack that is not there is damage that the ledger or a check reports.
                guard let contents = try await source.contents(ofPack: pack) else { continue }
                try await target.add(pack: pack, contents)
            }
            report.packs += 1
            report.bytes += size
            progress(report, all.count)
        }
        return report
    }

    /// Removes the target's packs for which `isNeeded` is false.
    func removeOthers(_ isNeeded: (_ pack: UInt32) -> Bool) async throws(VolumeError) {
        for pack in try await target.packs().keys.sorted() where !isNeeded(pack) {
            try await target.remove(pack: pack)
        }
    }
}
