import Control
import Model
import Volume

// The verbs about contents that are on this device or not.
extension Service {
    func answerOfContents(
        _ request: Request, for peer: Peer, _ progress: (Progress) -> Bool
    ) throws(VolumeError) -> Answer {
        let path = try request.components()
        switch try request.known() {
        case .download: try download(path, for: peer, progress)
        case .pin:
            try volume.downloads.pin(at: path)
            defer { volume.downloads.resume() }
            try download(path, for: peer, progress)
        case .unpin: try volume.downloads.unpin(at: path)
        case .pins:
            return .pins(try pins(below: path, counts: request.missing ?? false, for: peer))
        default:
            let eviction = RequestedEviction(volume: volume, peer: peer)
            return .evicted(
                try eviction.run(
                    at: path, isForced: request.force ?? false, progress: progress))
        }
        return .done
    }

    private func pins(below path: [Name], counts: Bool, for peer: Peer)
        throws(VolumeError) -> PinsReport
    {
        let pins = try volume.downloads.pins(below: path, countsMissing: counts).filter {
            volume.mayKnow(peer, of: $0.path)
        }
        return PinsReport(
            pins: pins.map {
                PinsReport.Pin(
                    path: RawText(path: $0.path), directory: $0.isDirectory, pinned: $0.isPinned,
                    missing: counts ? $0.missing : nil,
                    missingBytes: counts ? $0.missingBytes : nil)
            })
    }

    private func download(_ path: [Name], for peer: Peer, _ progress: (Progress) -> Bool)
        throws(VolumeError)
    {
        try withoutActuallyEscaping(progress) { (progress) throws(VolumeError) in
            try volume.downloads.hydrate(
                at: path,
                progress: { done in
                    let part =
                        done.bytesTotal > 0 ? Double(done.bytes) / Double(done.bytesTotal) : 1
                    return progress(
                        Progress("\(done.items) of \(done.itemsTotal) documents", fraction: part))
                }, isMeant: { [volume] in volume.covers(peer, $0, write: false) })
        }
    }
}
