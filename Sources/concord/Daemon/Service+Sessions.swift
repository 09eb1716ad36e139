import Control
import Model
import Sync
import Volume

// The requests about the edits of one session.
extension Service {
    private func choice(_ request: Request, for peer: Peer) throws(VolumeError) -> SessionChoice {
        guard let name = request.session else { throw request.missing("session") }
        // Other users must give the whole text. Otherwise a prefix would tell them the names of
        // sessions that they may not see.
        let session = try volume.sessions.find(name, isExact: !peer.isOwner)
        return SessionChoice(
            session: session, person: request.person, since: request.time ?? .min)
    }

    func sessions(_ request: Request, for peer: Peer) throws(VolumeError) -> SessionsReport {
        let choice = try choice(request, for: peer)
        let acts = try volume.sessions.acts(choice, below: request.components()).filter { act in
            volume.mayKnow(peer, of: act.path)
                && act.target.map { volume.mayKnow(peer, of: $0) } ?? true
                && act.version?.isVisible(to: peer.onlooker, of: act.protection) ?? true
        }
        return SessionsReport(
            session: choice.session.text,
            acts: acts.map { act in
                SessionsReport.Act(
                    kind: act.kind, time: act.time, path: RawText(path: act.path),
                    to: act.target.map(RawText.init(path:)), number: act.version?.number,
                    person: act.person, program: act.program)
            })
    }

    /// Returns the steps that would undo a session.
    func undoing(_ request: Request, for peer: Peer) throws(VolumeError) -> RewindReport {
        let choice = try choice(request, for: peer)
        let steps = try volume.sessions.undoing(choice, below: request.components()).filter {
            step in
            volume.mayKnow(peer, of: step.path)
                && step.origin.map { volume.mayKnow(peer, of: $0) } ?? true
                && step.witnesses.allSatisfy {
                    $0.isVisible(to: peer.onlooker, of: step.protection)
                }
        }
        var report = RewindReport(
            steps: steps.map { step in
                var shown = RewindReport.Step(
                    path: RawText(path: step.path), id: step.id.description,
                    kind: step.kind.rawValue,
                    version: step.version.map { version in
                        VersionReport(
                            version,
                            fileName: version.fileName(of: step.path.last ?? Name("")))
                    })
                shown.origin = step.origin.map(RawText.init(path:))
                shown.reason = step.reason
                return shown
            })
        report.session = choice.session.text
        return report
    }

    /// Removes the edits of a session from one document.
    func revert(_ request: Request, for peer: Peer) throws(VolumeError) -> RevertReport {
        let path = try request.components()
        let choice = try choice(request, for: peer)
        if !peer.isOwner {
            let visible = Set(try history(request, for: peer).versions.map(\.id))
            let edits = try volume.sessions.edits(choice, at: path)
            guard
                edits.runs.allSatisfy({
                    visible.contains($0.end.id) && visible.contains($0.before.id)
                }), edits.conflicts.allSatisfy({ visible.contains($0.id) })
            else {
                throw VolumeError(.denied, "you may not see all versions of \(path.shown)")
            }
        }
        let isRehearsal = request.explain == true
        let outcome = try autoMerger.revert(
            choice, at: path, isRehearsal: isRehearsal, by: actor(of: request, peer))
        let current = isRehearsal ? nil : try volume.states.status(at: path).currentVersion
        switch outcome {
        case .changed: return RevertReport(outcome: "changed", current: current)
        case .merged: return RevertReport(outcome: "merged", current: current)
        case .nothing: return RevertReport(outcome: "nothing", current: current)
        case .conflict(let why):
            return RevertReport(outcome: "conflict", reason: why, current: current)
        }
    }
}
