import CLinux
import Control
import Glibc
import Model
import Sync
import Volume

// How safe documents are, and waiting until they are safe.
extension Service {
    /// How long the hub may take to say how many devices hold a document.
    private static let patienceMilliseconds: Int64 = 300

    func document(at path: [Name], asksHub: Bool = true) throws(VolumeError) -> DocumentReport {
        let status = try volume.states.status(at: path)
        var devices: Int?
        if asksHub, status.durability == .hub, let current = status.current {
            devices = membership.engine?.devices(
                holding: current, milliseconds: Service.patienceMilliseconds)
        }
        return DocumentReport(status, devices: devices)
    }

    func purge(_ request: Request, for peer: Peer) throws(VolumeError) -> PurgedReport {
        var wish = Purge()
        (wish.before, wish.bytes) = (request.time, request.bytes)
        wish.isRehearsal = request.explain == true
        let report = try volume.retention.purge(
            at: request.components(), wish, visibleTo: peer.onlooker,
            mayWrite: { peer.isOwner || volume.mayAccess(peer, $0, write: true) },
            mayKnow: { volume.mayKnow(peer, of: $0) })
        let kept = report.kept.map { PurgedReport.Kept(count: $1, reason: $0.words) }
        return PurgedReport(
            versions: report.versions, contents: report.contents, bytes: report.bytes,
            kept: kept.sorted { $0.reason < $1.reason })
    }

    func wait(_ request: Request, for peer: Peer, _ progress: (Progress) -> Bool)
        throws(VolumeError)
    {
        let path = try request.components()
        let durability = try Version.Durability(named: request.durability ?? "disk")
        let total = min(max(0, request.timeoutSeconds ?? 30), 7 * 24 * 3600)
        if durability == .hub { return try waitForHub(path, for: peer, total, progress) }
        var waited = 0.0
        // The wait is cut into slices of a second, to notice when the asker has gone.
        while true {
            let slice = min(1, total - waited)
            do throws(VolumeError) {
                return try volume.safety.wait(
                    for: durability, at: path, timeoutSeconds: slice,
                    mayKnow: { volume.mayKnow(peer, of: $0) })
            } catch  where error.code == .timeout {
                waited += slice
                let obstacle = try volume.safety.obstacle(below: path) {
                    volume.mayKnow(peer, of: $0)
                }
                let text =
                    obstacle ?? "waiting until it is durable (\(request.durability ?? "disk"))"
                let step = Progress(text, fraction: waited / total, notice: obstacle)
                if waited >= total || !progress(step) { throw error }
            } catch { throw error }
        }
    }

    private func waitForHub(
        _ path: [Name], for peer: Peer, _ total: Double, _ progress: (Progress) -> Bool
    ) throws(VolumeError) {
        let start = cl_clock_monotonic_ns()
        var pause: UInt32 = 5_000
        while true {
            guard membership.engine != nil else { throw membership.notSignedIn }
            let waited = Double(cl_clock_monotonic_ns() - start) / 1e9
            var text: String
            var notice: String?
            do throws(VolumeError) {
                // A wait without any time fails always. The message would never say then what is
                // not at the hub.
                try volume.safety.wait(
                    for: .disk, at: path, timeoutSeconds: min(0.5, max(0.05, total - waited)),
                    mayKnow: { volume.mayKnow(peer, of: $0) })
                if PlantedFault.promisesTooEarly.isPlanted { return }
                let left = try volume.safety.unsafeDocuments(below: path, limit: 1)
                guard let first = left.first else { return }
                let isKnown = volume.mayKnow(peer, of: first.path)
                let shown = isKnown ? RawText(path: first.path).text : UnsafeDocument.unnamed
                if first.reason == .nameless || first.reason == .ignored {
                    throw VolumeError(
                        .invalid,
                        "\(shown) \(first.reason.words): it stays on this device until "
                            + (first.reason == .nameless ? "it is renamed." : "no rule names it."))
                }
                text = "Not yet at the hub: \(shown) \(first.reason.words)."
                notice = isKnown ? obstacle(first) : nil
            } catch  where error.code == .timeout {
                text = error.message
                notice = try volume.safety.obstacle(below: path) { volume.mayKnow(peer, of: $0) }
            } catch { throw error }
            if let notice, !text.contains(notice) { text += " " + notice }
            let isHeard = progress(
                Progress(text, fraction: min(1, waited / max(total, 0.001)), notice: notice))
            guard waited < total, isHeard else { throw VolumeError(.timeout, text) }
            usleep(pause)
            pause = min(pause * 2, 200_000)
        }
    }

    /// Returns what keeps the document from reaching the hub without a person's help; nil when
    /// nothing does.
    private func obstacle(_ document: UnsafeDocument) -> String? {
        guard let state = membership.engine?.report else { return nil }
        let path = document.path.shown
        if let reason = membership.reasonToKeep { return reason }
        switch state.connection {
        case .offline: return "This device is offline; fsctl online connects it again."
        case .signedOut(let reason):
            return "The hub does not know this device any more (\(reason)). Sign in again with "
                + "a new code: concord hub invite makes one, fsctl signin URL asks for it."
        case .down(let reason): return "The hub cannot be reached: \(reason)"
        case .connecting, .up, .removed: break
        }
        if document.reason == .refused {
            return "The hub refuses it: \(state.problems[path] ?? HubVerbs.refused)"
        }
        if document.reason == .undeleted, let brake = state.brake {
            return "\(brake.count) deletions at once are held back: fsctl brake says what to do."
        }
        return nil
    }
}

extension UnsafeDocument.Reason {
    /// The reason, worded to follow the document's path in a sentence.
    var words: String {
        switch self {
        case .unrecorded: "is open for writing or not recorded yet"
        case .unsent: "has not been sent"
        case .undeleted: "is deleted here, which has not been sent"
        case .sent: "was sent and is not confirmed"
        case .refused: "was refused"
        case .nameless: "has a name that is not UTF-8, which other machines cannot have"
        case .ignored: "or a directory above it is named by \(LocalNames.fileName)"
        }
    }
}
