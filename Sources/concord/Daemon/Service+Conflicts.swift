import Control
import Glibc
import Model
import Volume

// The verbs about conflicts.
extension Service {
    func conflicts(_ request: Request, for peer: Peer) throws(VolumeError) -> ConflictsReport {
        var found = try volume.conflicts.list(below: request.components())
        for index in found.indices {
            found[index].history = found[index].history.visible(to: peer.onlooker)
        }
        found.removeAll { document in
            !volume.mayKnow(peer, of: document.path)
                || !document.history.versions.contains { $0.kind == .conflict }
        }
        return ConflictsReport(documents: found.map(ConflictsReport.Document.init))
    }

    /// Settles the conflict versions `numbers` (nil: all that are open) and makes version `number`
    /// current (nil: the current one stays). Only versions that the asker has seen are settled.
    func resolve(_ request: Request, for peer: Peer) throws(VolumeError) -> ResolutionReport {
        let path = try request.components()
        let actor = actor(of: request, peer)
        if request.undo == true {
            let open = try volume.settlements.undoLast(
                at: path, by: actor, visibleTo: peer.onlooker, through: tree)
            return ResolutionReport(
                current: try volume.states.status(at: path).currentVersion, settled: open)
        }
        let history = try self.history(request, for: peer)
        let open = history.versions.filter { $0.kind == .conflict }
        let numbers = request.numbers ?? open.map(\.number)
        var ids: [Identifier] = []
        for number in numbers {
            guard let version = open.first(where: { $0.number == number }) else {
                throw VolumeError(
                    .notFound,
                    "version \(number) of \(path.shown) is not in conflict (any more): "
                        + "fsctl conflicts lists those that are")
            }
            ids.append(version.id)
        }
        let current = history.versions.last { $0.kind == .current }
        guard let number = request.number, number != current?.number else {
            guard !ids.isEmpty else {
                throw VolumeError(.invalid, "\(path.shown) has no conflict versions to settle")
            }
            try volume.conflicts.settle(ids, at: path)
            return ResolutionReport(current: current?.number, settled: numbers)
        }
        guard let version = history.versions.first(where: { $0.number == number }) else {
            throw VolumeError(
                .notFound, "\(path.shown) has no version \(number); fsctl versions lists them")
        }
        let content = try volume.versions.content(of: version.id)
        let replacement = Replacement(
            content.manifest, sources: [version.id], settles: ids, by: actor)
        let now = try volume.replacer.replace(replacement, at: path, through: tree)
        return ResolutionReport(current: now, settled: numbers)
    }
}

// The verb that merges.
extension Service {
    func merge(_ request: Request, for peer: Peer) throws(VolumeError) -> MergeReport {
        let path = try request.components()
        let open = try history(request, for: peer).versions.filter { $0.kind == .conflict }
            .map(\.number)
        let known = { (number: Int) in peer.isOwner || open.contains(number) }
        guard (request.numbers ?? request.number.map { [$0] } ?? []).allSatisfy(known),
            peer.isOwner || !open.isEmpty
        else {
            throw VolumeError(
                .notFound,
                open.isEmpty
                    ? "\(path.shown) is not in conflict"
                    : "\(path.shown) has no such version in conflict; fsctl conflicts lists them")
        }
        if request.explain == true {
            let (kind, sentences, text) = try autoMerger.explain(
                at: path, number: request.number ?? (peer.isOwner ? nil : open.first))
            let isShort = text.map { $0.count <= Limits.pieceBytesMax / 16 } ?? false
            return MergeReport(
                outcome: kind, sentences: sentences, text: isShort ? text.map(base64) : nil)
        }
        let merged = try autoMerger.merge(
            at: path, numbers: request.numbers ?? (peer.isOwner ? nil : open),
            by: Actor(
                process: peer.process, uid: peer.uid, program: request.program ?? "merge",
                session: session.workSession(of: peer.process, uid: peer.uid)))
        return MergeReport(
            sentences: merged.reasons, current: try volume.states.status(at: path).currentVersion,
            settled: merged.settled)
    }
}

// The verb that lists the steps of a rewind.
extension Service {
    func rewinding(_ request: Request, for peer: Peer) throws(VolumeError) -> RewindReport {
        guard let time = request.time else { throw request.missing("time") }
        let steps = try volume.past.rewinding(request.components(), to: time).filter {
            volume.mayKnow(peer, of: $0.path)
                && $0.version?.isVisible(
                    to: peer.onlooker, of: $0.protection, during: time...time) ?? true
        }
        return RewindReport(
            steps: steps.map { step in
                RewindReport.Step(
                    path: RawText(path: step.path), id: step.id.description,
                    kind: step.kind.rawValue,
                    version: step.version.map { version in
                        VersionReport(
                            version,
                            fileName: version.fileName(of: step.path.last ?? Name("")))
                    })
            })
    }
}

extension ConflictsReport.Document {
    init(_ document: ConflictedDocument) {
        let history = document.history
        let lineage = Lineage(history.versions)
        let current = history.versions.firstIndex { $0.kind == .current }
        let report = { (index: Int) in
            VersionReport(history.versions[index], fileName: history.fileNames[index])
        }
        let conflicts = history.versions.indices.filter { history.versions[$0].kind == .conflict }
        self.init(
            path: RawText(path: document.path), id: history.id.description,
            package: history.isPackage, current: current.map(report),
            conflicts: conflicts.map { index in
                let base = current.flatMap {
                    lineage.base(of: history.versions[$0].id, and: history.versions[index].id)
                }
                return ConflictsReport.Conflict(report(index), base: base?.number)
            })
    }
}
