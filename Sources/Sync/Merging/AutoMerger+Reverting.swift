import Merge
import Model
import Volume

// Removes the edits of a session from a document.
extension AutoMerger {
    /// The result of removing a session's edits.
    package enum Reverted: Sendable, Equatable {
        /// The document has its earlier contents again.
        case changed
        /// The document has the edits of others, without those of the session.
        case merged
        /// The contents did not change. The version before the session is in conflict with them.
        case conflict(String)
        /// There is nothing to do.
        case nothing
    }

    /// - Parameter isRehearsal: Changes nothing, and returns what the result would be.
    package func revert(
        _ choice: SessionChoice, at path: [Name], isRehearsal: Bool, by actor: Actor,
        tries: Int = 5
    ) throws(VolumeError) -> Reverted {
        let edits = try volume.sessions.edits(choice, at: path)
        if let reason = edits.reason {
            throw VolumeError(.invalid, "\(path.shown) stays as it is: \(reason).")
        }
        do throws(VolumeError) {
            let outcome = try revert(edits, at: path, isRehearsal, by: actor)
            if !isRehearsal { try settle(edits.conflicts, at: path) }
            return outcome
        } catch {
            // A program has saved the document meanwhile, so its new version is reverted.
            guard error.code == .busy, tries > 1 else { throw error }
            return try revert(
                choice, at: path, isRehearsal: isRehearsal, by: actor, tries: tries - 1)
        }
    }

    private func settle(_ versions: [Version], at path: [Name]) throws(VolumeError) {
        if !versions.isEmpty { try volume.conflicts.settle(versions.map(\.id), at: path) }
    }

    private func revert(
        _ edits: SessionEdits, at path: [Name], _ isRehearsal: Bool, by actor: Actor
    ) throws(VolumeError) -> Reverted {
        guard let current = edits.current, !edits.runs.isEmpty else { return .nothing }
        if let before = edits.plain {
            guard !isRehearsal else { return .changed }
            let content = try volume.versions.content(of: before.id)
            try volume.replacer.replace(
                Replacement(
                    content.manifest, sources: [before.id], expected: current.id, by: actor),
                at: path, through: tree)
            return .changed
        }
        guard let history = try volume.history.document(at: path) else { return .nothing }
        let merge = documentMerge(at: path, history, isAsked: true, rules: rules)
        switch try merge.without(edits.runs, of: current, by: actor) {
        case .clean(let replacement):
            if !isRehearsal { try volume.replacer.replace(replacement, at: path, through: tree) }
            return .merged
        case .left(let run, let why):
            if !isRehearsal {
                _ = try volume.conflicts.oppose(run.before, base: run.end, at: path, by: actor)
            }
            return .conflict(why)
        }
    }
}

extension DocumentMerge {
    enum Reversal {
        case clean(Replacement)
        /// A run's edits cannot be removed, for this reason.
        case left(SessionEdits.Run, String)
    }

    /// Returns the current version without the edits of the runs. The newest run is removed first.
    /// The base of each merge is the run's last version; the other side is the version before it.
    func without(_ runs: [SessionEdits.Run], of current: Version, by actor: Actor)
        throws(VolumeError) -> Reversal
    {
        let largest = runs.flatMap { [$0.end.size, $0.before.size] }.max() ?? 0
        guard max(current.size, largest) <= UInt64(Merger.sizeMax) else {
            return .left(runs[0], "It has more than \(Merger.sizeMax >> 20) MiB.")
        }
        if history.isPackage { return try withoutInPackage(runs, of: current, by: actor) }
        var ours = try content(of: current)
        for run in runs {
            if run.end.id == current.id {
                ours = try content(of: run.before)
                continue
            }
            let input = MergeInput(
                path: path, base: try content(of: run.end), ours: ours,
                theirs: try content(of: run.before), isAsked: true, source: source(of: run.before))
            switch try merger.merge(input) {
            case .clean(let bytes, by: _): ours = .bytes(bytes)
            case .conflict(let why), .unmergeable(let why): return .left(run, why)
            case .ask: return .left(run, "The rules require that a person decides.")
            }
        }
        guard case .bytes(let bytes) = ours else {
            return .left(runs[0], "It has more than \(Merger.sizeMax >> 20) MiB.")
        }
        let (manifest, chunks) = try Manifest.cut(bytes)
        return .clean(
            Replacement(manifest, added: chunks, expected: current.id, by: actor))
    }

    private func withoutInPackage(
        _ runs: [SessionEdits.Run], of current: Version, by actor: Actor
    ) throws(VolumeError) -> Reversal {
        guard runs.count == 1, runs[0].end.id != current.id else {
            return .left(runs[0], "Others have saved the package between the session's saves.")
        }
        switch try mergePackage(runs[0].end, current, runs[0].before, by: actor) {
        case .clean(var replacement):
            replacement.sources = [runs[0].before.id]
            replacement.expected = current.id
            return .clean(replacement)
        case .left(let why): return .left(runs[0], why)
        case .ask: return .left(runs[0], "The rules require that a person decides.")
        }
    }
}
