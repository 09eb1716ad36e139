import Control
import Coordination
import Model
import Volume

// Claims on documents whose contents are at the hub.
extension ClaimService {
    /// Whether contents that a claim is to read must be downloaded first. A claim on a plain
    /// directory downloads nothing: each document in it is downloaded when it is read.
    func mustDownload(_ targets: [ClaimRequest.Target], for peer: Peer) -> Bool {
        targets.contains { target in
            guard target.access.needsContents else { return false }
            let names = target.path.names
            return (try? volume.downloads.isDataless(at: names)) == true
                && volume.mayAccess(peer, names, write: false)
        }
    }

    /// Downloads what the claim is to read and then answers it. If that fails, the claim is
    /// released and refused with the reason.
    func download(
        _ paths: [Path], of targets: [ClaimRequest.Target], for claim: (number: Int, id: ClaimID),
        _ request: Control.Request, _ client: Connection
    ) {
        let names = zip(targets, paths).filter { $0.0.access.needsContents }.map { $0.1.names }
        clients.withLock { _ = $0[client.number]?.downloading.insert(claim.id) }
        let work = { @Sendable [self] in
            var failure: VolumeError?
            do throws(VolumeError) {
                for path in names where try volume.downloads.isDataless(at: path) {
                    try volume.downloads.hydrate(at: path) { [self] _ in
                        isDownloading(claim.id, client)
                    }
                }
            } catch { failure = error }
            let isWanted = clients.withLock { clients in
                clients[client.number]?.downloading.remove(claim.id) != nil
            }
            if isWanted, failure == nil { return grant(paths, request, client) }
            // The client may have released the claim meanwhile, or may be gone.
            let isHeld = clients.withLock { clients in
                clients[client.number]?.claims[claim.number] == claim.id
            }
            if isHeld {
                forget(claim.number, client)
                arbiter.step(.released(claim.id))
            }
            client.refuse(
                request, isWanted ? ClaimService.sentence(failure!) : Refusal.cancelled.error)
        }
        // The arbiter calls this while it holds its lock, so the download needs another thread.
        guard let thread = ThreadHandle("turn", work) else { return grant(paths, request, client) }
        thread.detach()
    }

    private func isDownloading(_ id: ClaimID, _ client: Connection) -> Bool {
        clients.withLock { $0[client.number]?.downloading.contains(id) == true }
    }

    private static func sentence(_ error: VolumeError) -> VolumeError {
        // Clients take the code "timeout" for a claim that took too long, not for a hub that does
        // not answer.
        VolumeError(
            error.code == .timeout ? .offline : error.code,
            "The contents cannot be downloaded, so the claim was refused. \(error.message)")
    }
}

extension Access {
    /// Whether the access reads contents.
    fileprivate var needsContents: Bool {
        switch self {
        case .read(let options): !options.contains(.immediatelyAvailableMetadataOnly)
        case .write(let option): option == .merging
        }
    }
}
