import Control
import Coordination
import Model
import Mount
import Volume

/// An eviction that a client requests. It leaves out documents that a program shows.
struct RequestedEviction {
    let volume: Volume
    let desk: ClaimService
    let peer: Peer

    /// Evicts what is at a path.
    ///
    /// - Throws: `.refused` for a single document that must stay.
    func run(at path: [Name], isForced: Bool) throws(VolumeError) -> EvictedReport {
        let presented = isForced ? [:] : presented(at: path)
        if let obstacle = presented[path], volume.snapshot(at: path)?.isDirectory == false {
            throw VolumeError(.refused, "\(path.shown) \(obstacle)")
        }
        var kept: [EvictedReport.Kept] = []
        let report = try volume.evict(
            at: path, forced: isForced,
            isMeant: { names in
                guard volume.covers(peer, names, write: true) else { return false }
                guard let obstacle = presented[names] else { return true }
                kept.append(
                    EvictedReport.Kept(
                        path: RawText(path: names), reason: "\(names.shown) \(obstacle)"))
                return false
            })
        kept += report.kept.map {
            EvictedReport.Kept(path: RawText(path: $0.path), reason: $0.reason.message)
        }
        return EvictedReport(items: report.items, bytes: report.bytes, kept: kept)
    }

    /// The items at or below a path that presenters show, and why they stay on this device: the
    /// ends of sentences that begin with their paths.
    private func presented(at path: [Name]) -> [[Name]: String] {
        let session = desk.session
        var found: [[Name]: String] = [:]
        for status in desk.arbiter.claimStatuses(at: session.path(path))
        where status.kind == .presenter {
            let program = "\(session.program(status.process)) (\(status.process))"
            found[status.path.names] =
                "stays here while \(program) shows it: close it there, or use --force."
        }
        return found
    }
}
