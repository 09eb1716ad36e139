import Control
import Coordination
import Model
import Mount
import Sync
import Volume

// Who has documents open, as this user may know it.
extension Volume {
    /// Answers the verb `who`.
    func who(_ request: Control.Request, in account: Account?, for peer: Peer)
        throws(VolumeError) -> WhoReport
    {
        let top = request.path == nil ? [] : try request.components()
        var leases = try whoElse(at: top, for: peer)
        if let account { leases += try openHere(at: top, by: account, for: peer) }
        return WhoReport(leases: leases)
    }

    func tellWho(in report: inout DocumentReport, at path: [Name], for peer: Peer)
        throws(VolumeError)
    {
        guard report.kind == "file" || report.kind == "package" else { return }
        let elsewhere = try whoElse(at: path, for: peer)
        report.elsewhere = elsewhere.isEmpty ? nil : elsewhere
        report.lock = try lock(at: path)
    }

    /// Who may edit a document that only one device may edit; nil for any other one.
    private func lock(at path: [Name]) throws(VolumeError) -> LockReport? {
        guard let document = try openDocuments.mustBeGranted(at: path) else { return nil }
        let grants = openDocuments.guarded.grants
        if grants.isGranted(document) { return LockReport(state: "granted") }
        guard let (refusal, time) = grants.refusal(of: document) else {
            return LockReport(state: "free")
        }
        var report = LockReport(state: "refused")
        report.since = time
        switch refusal {
        case .elsewhere(let other):
            (report.reason, report.user) = ("busy", other?.user)
            report.deviceName = other?.deviceName
        case .arriving: report.reason = "arriving"
        case .offline: report.reason = "offline"
        case .reader: report.reason = "reader"
        }
        return report
    }

    /// - Parameter top: The document, or the directory of the documents.
    func whoElse(at top: [Name], for peer: Peer) throws(VolumeError) -> [WhoReport.Lease] {
        var found: [WhoReport.Lease] = []
        for open in openDocuments.elsewhere {
            guard let path = try openDocuments.path(of: open.document),
                concerns(path, top, for: peer)
            else { continue }
            found.append(
                WhoReport.Lease(
                    path: RawText(path: path), user: open.user, device: open.device.description,
                    deviceName: open.deviceName, use: open.use.rawValue, since: open.since,
                    here: false))
        }
        return found
    }

    /// What is open on this device, as the hub knows it.
    private func openHere(
        at top: [Name], by account: Account, for peer: Peer
    ) throws(VolumeError) -> [WhoReport.Lease] {
        var found: [WhoReport.Lease] = []
        for held in openDocuments.held {
            guard let path = try openDocuments.path(of: held.document),
                concerns(path, top, for: peer)
            else { continue }
            found.append(
                WhoReport.Lease(
                    path: RawText(path: path), user: account.user,
                    device: account.device.description, deviceName: account.deviceName,
                    use: held.use.rawValue, since: held.since, here: true))
        }
        return found
    }

    /// Whether a document is the one at `top` or below it, or the package around `top`, and the
    /// user may know its name.
    private func concerns(_ path: [Name], _ top: [Name], for peer: Peer) -> Bool {
        (path.starts(with: top) || top.starts(with: path)) && mayKnow(peer, of: path)
    }
}

extension OpenDocuments {
    /// Lets it know the open files of the mount, and the claims and presenters, and tells watchers
    /// what others open, and presenters what others want.
    func connect(
        to session: MountSession, _ desk: ClaimService, _ notification: EditorNotification
    ) {
        let lettingGo = LettingGo(desk, session, notification)
        paths.set { [weak session, weak desk] inodes in
            guard let session, let desk else { return [] }
            let edited = session.editedPaths(openFiles: inodes, hasLetGo: lettingGo.hasLetGo)
            return edited.map { ($0, .edits) } + desk.explicitUses
        }
        changedElsewhere.set { [weak desk] opened, closed in
            for open in opened { desk?.tell(.openedElsewhere, open) }
            for open in closed { desk?.tell(.closedElsewhere, open) }
            lettingGo.changed(opened: opened)
        }
        guarded.atRisk.set { [weak desk] path, editors, process in
            notification.tell(path, isEditedBy: editors)
            for editor in editors { desk?.tell(.openedAnyway, of: path, editor, by: process) }
        }
    }
}

extension ClaimService {
    /// The items that clients write under a claim, and those that presenters show.
    fileprivate var explicitUses: [(path: [Name], use: DocumentUse)] {
        arbiter.claimStatuses(at: nil).compactMap { status in
            guard case .granted = status.state else { return nil }
            switch status.kind {
            case .presenter: return (status.path.names, .shows)
            case .claim where status.access?.isWriting == true:
                return (status.path.names, .edits)
            case .claim, .plain: return nil
            }
        }
    }

    fileprivate func tell(_ kind: WatchEvent.Kind, _ open: OpenElsewhere) {
        guard let path = try? volume.openDocuments.path(of: open.document) else { return }
        tell(kind, of: path, open, by: 0)
    }

    fileprivate func tell(
        _ kind: WatchEvent.Kind, of path: [Name], _ open: OpenElsewhere, by process: Int32
    ) {
        tell(
            kind, of: path,
            completing: { event in
                event.process = process
                if process > 0 { event.program = session.program(process) }
                (event.user, event.device) = (open.user, open.deviceName)
                event.use = open.use.rawValue
            })
    }
}
