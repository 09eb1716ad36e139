import Control
import Glibc
import Model
import Mount
import Sync
import Volume

/// Answers the verbs of the control socket from the volume and its mount.
struct Service: ControlService {
    let volume: Volume
    let session: MountSession
    let mountPoint: FilePath
    let desk: ClaimService
    let membership: Membership
    let tree: any Applying
    let autoMerger: AutoMerger

    private var hub: HubVerbs {
        HubVerbs(volume: volume, membership: membership, desk: desk)
    }

    func hear(_ request: Request, from client: Connection) throws(VolumeError) {
        try desk.hear(request, from: client)
    }

    func left(_ client: Connection) { desk.left(client) }

    func answer(_ request: Request, from peer: Peer, progress: @escaping (Progress) -> Bool)
        throws(VolumeError) -> Answer
    {
        if request.changesDocuments { try volume.readOnly.check() }
        switch try request.known() {
        case .status:
            if let id = try request.identifier() {
                let path = try volume.items.path(of: id)
                var report = try document(at: path)
                report.path = RawText(path: path)
                try volume.tellWho(in: &report, at: path, for: peer)
                return .document(report)
            }
            if request.path == nil { return .volume(try report(for: peer)) }
            if request.entries == true { return .entries(try EntriesReport(volume, request, peer)) }
            let path = try request.components()
            var report = try document(at: path, asksHub: request.local != true)
            try volume.tellWho(in: &report, at: path, for: peer)
            return .document(report)
        case .versions where request.deleted == true:
            let documents = try volume.history.deletedDocuments(
                in: request.components(), visibleTo: peer.onlooker)
            return .deleted(DeletedReport(documents: documents.map(DeletedReport.Document.init)))
        case .versions:
            return .history(try historyReport(request, for: peer))
        case .contents: return .contents(try contents(request, for: peer))
        case .extract: return .piece(try piece(request, for: peer))
        case .name:
            try name(request, for: peer)
            return .done
        case .forget:
            _ = try version(request, for: peer)
            try volume.retention.forget(version: request.versionNumber(), at: request.components())
            return .done
        case .purge: return .purged(try purge(request, for: peer))
        case .add: return .added(try add(request, for: peer))
        case .wait:
            try wait(request, for: peer, progress)
            return .done
        case .doctor: return .doctor(doctor(request, progress))
        case .statistics:
            return .statistics(
                StatisticsReport(requests: session.requestCounts, volume: volume.statistics))
        case .stop:
            session.stop()
            return .done
        case .signin, .signout, .identity, .devices, .revoke, .offline, .online, .brake,
            .activity, .limit:
            return try hub.answer(request)
        case .who:
            return .who(try volume.who(request, in: membership.account, for: peer))
        case .members, .member, .volumes:
            return try MemberVerbs(volume: volume, membership: membership).answer(request)
        case .links, .link:
            return try LinkVerbs(volume: volume, membership: membership).answer(request)
        case .conflicts: return .conflicts(try conflicts(request, for: peer))
        case .merge: return .merge(try merge(request, for: peer))
        case .past where request.session != nil:
            return .rewind(try undoing(request, for: peer))
        case .past: return .rewind(try rewinding(request, for: peer))
        case .revert: return .reverted(try revert(request, for: peer))
        case .sessions: return .sessions(try sessions(request, for: peer))
        case .resolve: return .resolution(try resolve(request, for: peer))
        case .download, .evict, .pin, .unpin, .pins:
            return try ContentsVerbs(volume: volume, peer: peer).answer(request, progress)
        case .claim, .release, .cancel, .prepare, .moved, .present, .retire, .answer, .locks,
            .watch:
            throw VolumeError(.invalid, "\"\(request.verb)\" needs a connection of its own")
        }
    }

    private func doctor(_ request: Request, _ progress: @escaping (Progress) -> Bool)
        -> DoctorReport
    {
        let repairs = request.repair ?? true
        membership.engine?.reconfirm()
        var findings = Examination.findings(in: volume, repair: repairs) { text, fraction in
            _ = progress(Progress(text, fraction: fraction))
        }
        if let engine = membership.engine {
            findings += engine.examine(repairs: repairs) { text, fraction in
                progress(Progress(text, fraction: fraction))
            }
        }
        return DoctorReport(findings: findings.map(DoctorReport.Finding.init))
    }

    private func historyReport(_ request: Request, for peer: Peer) throws(VolumeError)
        -> HistoryReport
    {
        let history = try history(request, for: peer)
        var report = HistoryReport(history)
        if request.earlier == true, request.document == nil {
            let documents = try volume.history.earlierDocuments(
                at: request.components(), visibleTo: peer.onlooker)
            report.earlier = documents.map(DeletedReport.Document.init)
        }
        if request.local == true {
            let whole = try volume.versions.whole(history.versions.map(\.id))
            for (index, version) in history.versions.enumerated() {
                report.versions[index].local = whole.contains(version.id)
            }
        }
        return report
    }

    /// The versions of a document that this user may see.
    func history(_ request: Request, for peer: Peer) throws(VolumeError) -> DocumentHistory {
        let whole = try wholeHistory(request)
        return PlantedFault.tellsAllVersions.isPlanted ? whole : whole.visible(to: peer.onlooker)
    }

    private func wholeHistory(_ request: Request) throws(VolumeError) -> DocumentHistory {
        if let id = try request.identifier() {
            if let history = try volume.history.document(id) { return history }
            throw VolumeError(.notFound, "there is no document with the id \(id) on this volume")
        }
        let path = try request.components()
        guard let history = try volume.history.document(at: path) else {
            throw VolumeError(
                .notFound,
                "\(RawText(path: path).text) has no versions: it is a local file, or does not exist"
            )
        }
        if history.versions.isEmpty {
            let kind = "\(try volume.states.status(at: path).kind)"
            guard kind == "file" || kind == "package" else {
                throw VolumeError(
                    .invalid,
                    "\(RawText(path: path).text) is a \(kind): only files and packages have "
                        + "versions"
                )
            }
        }
        return history
    }

    private func add(_ request: Request, for peer: Peer) throws(VolumeError) -> AdditionReport {
        guard let from = request.from else { throw request.missing("from") }
        let id = try volume.importer.addVersion(
            from: request.components(of: from), at: request.components(),
            isDeleted: request.deleted ?? false, as: VersionImporter.Relation(request),
            saved: request.time, by: actor(of: request, peer))
        return AdditionReport(id: id.description)
    }

    func actor(of request: Request, _ peer: Peer) -> Actor {
        Actor(
            process: peer.process, uid: peer.uid, program: request.program ?? "fsctl",
            session: session.workSession(of: peer.process, uid: peer.uid))
    }

    /// The version that the request names, if this user may see it.
    private func version(_ request: Request, for peer: Peer) throws(VolumeError) -> Version {
        let number = try request.versionNumber()
        let known = try history(request, for: peer).versions
        guard let version = known.first(where: { $0.number == number }) else {
            throw VolumeError(
                .notFound, "it has no version \(number); fsctl versions lists its versions")
        }
        return version
    }

    private func contents(_ request: Request, for peer: Peer) throws(VolumeError)
        -> ContentsReport
    {
        let manifest = try volume.versions.content(of: version(request, for: peer).id).manifest
        let start = min(max(0, request.entry ?? 0), manifest.entries.count)
        let entries = manifest.entries[start...].prefix(Limits.entriesMax)
        return ContentsReport(
            package: manifest.isPackage, entries: entries.map(ContentsReport.Entry.init),
            next: entries.endIndex < manifest.entries.count ? entries.endIndex : nil)
    }

    private func piece(_ request: Request, for peer: Peer) throws(VolumeError) -> PieceReport {
        let content = try volume.versions.content(of: version(request, for: peer).id)
        let entry = request.entry ?? 0
        let (offset, length) = (request.offset ?? 0, request.length ?? Limits.pieceBytesMax)
        guard content.manifest.entries.indices.contains(entry), offset >= 0, length >= 0 else {
            throw VolumeError(.invalid, "that version has no such entry or offset")
        }
        var bytes = [UInt8](repeating: 0, count: min(length, Limits.pieceBytesMax))
        var count = 0
        // A typed error cannot be thrown through withUnsafeMutableBytes of the standard library.
        var failure: VolumeError?
        bytes.withUnsafeMutableBytes { buffer in
            do throws(VolumeError) {
                count = try content.read(entry, into: buffer, at: offset)
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        return PieceReport(data: base64(Array(bytes[..<count])))
    }

    private func name(_ request: Request, for peer: Peer) throws(VolumeError) {
        let path = try request.components()
        let number = try version(request, for: peer).number
        if let label = request.label {
            try Label.check(label)
            let other = try wholeHistory(request).versions.first {
                $0.label == label && $0.number != number
            }
            if let other {
                throw VolumeError(
                    .busy,
                    "version \(other.number) has the label \"\(label)\" already; choose another one"
                )
            }
        }
        try volume.retention.setLabel(request.label, version: number, at: path)
    }

    private func report(for peer: Peer) throws(VolumeError) -> VolumeReport {
        let (identity, status, facts) = (
            volume.identity, try VolumeStatus(of: volume), session.facts
        )
        var report = VolumeReport(
            volume: identity.volume.description, device: identity.device.description,
            name: identity.name, store: RawText(identity.store), tree: RawText(status.tree))
        report.mountPoint = RawText(bytes: mountPoint.bytes)
        report.process = getpid()
        (report.passthrough, report.passthroughReason) = (facts.passthrough, facts.reason)
        let transport = session.transport
        (report.transport, report.transportReason) = (transport.name, transport.reason)
        report.take(status)
        report.hub = hub.report
        report.conflicts = try volume.conflicts.count()
        report.unexaminedConflicts = try autoMerger.unexaminedCount()
        if !peer.isOwner { report.leaveOut { !volume.mayKnow(peer, of: $0) } }
        return report
    }
}
