import Control
import Model
import Mount
import Volume

/// An eviction that a client requests.
struct RequestedEviction {
    let volume: Volume
    let peer: Peer

    /// Evicts what is at a path.
    ///
    /// - Throws: `.refused` for a single document that must stay.
    func run(
        at path: [Name], isForced: Bool, progress: (Progress) -> Bool
    ) throws(VolumeError) -> EvictedReport {
        let report = try volume.eviction.evict(
            at: path, forced: isForced,
            progress: { progress(Progress("\($0.items) documents", fraction: 0)) },
            isMeant: { volume.covers(peer, $0, write: true) })
        return EvictedReport(
            items: report.items, bytes: report.bytes,
            kept: report.kept.map {
                EvictedReport.Kept(path: RawText(path: $0.path), reason: $0.reason.message)
            })
    }
}
