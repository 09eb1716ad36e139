import Journal
import Model

/// One thing that undoing a session does.
package struct SessionStep: Sendable {
    package enum Kind: String, Sendable {
        /// The document gets its earlier contents, because nobody else has saved it since.
        case changed
        /// Others have saved since: what the session changed is taken out of it by a merge.
        case merged
        /// Versions that the session left in conflict are resolved.
        case resolved
        /// The session created the item and nobody else has changed it, so it is deleted.
        case created
        /// The session deleted the item, so it is restored.
        case deleted
        /// The session moved the item, so it is moved back.
        case moved
        /// The item stays as it is; `reason` says why.
        case kept
    }

    package var kind: Kind
    /// The item's present or last path, from the root.
    package var path: [Name]
    package var id: Identifier
    /// The version whose contents the document gets. Nil if they do not change or are merged.
    package var version: Version?
    /// The item's path before the session moved it.
    package var origin: [Name]?
    package var reason: String?
    package var protection: DocumentProtection
    /// A caller who may not see these versions may not hear of this step.
    package var witnesses: [Version] = []
}

/// Selects the edits of a session that are undone.
package struct SessionChoice: Hashable, Sendable {
    package var session: WorkSession
    /// Selects the edits of this person only. Nil selects everybody's edits in that session.
    package var person: String?
    /// Selects edits made at this time or later, in nanoseconds since 1970.
    package var since: Int64

    package init(session: WorkSession, person: String? = nil, since: Int64 = .min) {
        self.session = session
        self.person = person
        self.since = since
    }

    func includes(_ version: Version) -> Bool {
        version.session == session && version.saved >= since
            && person.map { $0 == version.person } ?? true
    }

    func includes(_ change: NameChange) -> Bool {
        change.session == session && change.time >= since
            && person.map { $0 == change.person } ?? true
    }
}

/// What a session did to the contents of one document.
package struct SessionEdits: Sendable {
    /// Versions that the session saved one after the other.
    package struct Run: Sendable {
        /// The last of them.
        package var end: Version
        /// The version that was current before the first of them.
        package var before: Version
    }

    package var current: Version?
    /// Ordered from the newest to the oldest.
    package var runs: [Run] = []
    /// Versions that the session has left in conflict.
    package var conflicts: [Version] = []
    /// Whether the session created the document.
    package var isCreation = false
    /// Whether the session saved all current versions that the document has had.
    package var isAlone = false
    /// The reason why a run cannot be undone.
    package var reason: String?

    package var isEmpty: Bool { runs.isEmpty && conflicts.isEmpty && !isCreation && reason == nil }

    /// The version before the session, if nobody else has saved since the session began.
    package var plain: Version? {
        guard runs.count == 1, reason == nil, runs[0].end.id == current?.id else { return nil }
        return runs[0].before
    }

    /// - Parameters:
    ///   - versions: All of the document.
    ///   - lost: Conflict versions that were resolved: the document never showed them.
    init(
        _ versions: [Version], current: Identifier?, lost: Set<Identifier>, by choice: SessionChoice
    ) {
        conflicts = versions.filter { $0.kind == .conflict && choice.includes($0) }
        let (shown, gaps) = SessionEdits.shown(versions, current: current, lost: lost)
        self.current = shown.last
        guard let first = shown.first else { return }
        let isWhole = first.parents.isEmpty && !gaps.contains(0)
        isCreation = isWhole && choice.includes(first)
        isAlone = isCreation && shown.allSatisfy(choice.includes) && gaps.isEmpty
        var index = shown.count - 1
        while index >= 0 {
            guard choice.includes(shown[index]) else {
                index -= 1
                continue
            }
            let end = index
            while index > 0, !gaps.contains(index), choice.includes(shown[index - 1]) { index -= 1 }
            if gaps.contains(index) || index == 0 && !isWhole {
                reason =
                    "the version that it was made from is not kept any more (fsctl versions lists "
                    + "those there are)"
            } else if index > 0 {
                runs.append(Run(end: shown[end], before: shown[index - 1]))
            }
            index -= 1
        }
    }

    /// What a document has shown, oldest first; with the indexes of those of which the version
    /// before is not known.
    private static func shown(
        _ versions: [Version], current: Identifier?, lost: Set<Identifier>
    ) -> ([Version], gaps: Set<Int>) {
        let known = Dictionary(versions.map { ($0.id, $0) }) { $1 }
        var line: [Version] = []
        var seen: Set<Identifier> = []
        var breaks: Set<Identifier> = []
        var next = current.flatMap { known[$0] }
        while let version = next, seen.insert(version.id).inserted {
            line.append(version)
            guard let parent = version.parents.first else { break }
            next = known[parent]
            guard next == nil else { continue }
            breaks.insert(version.id)
            next = versions.last {
                $0.number < version.number && $0.kind != .conflict && !lost.contains($0.id)
            }
        }
        line.reverse()
        return (line, Set(line.indices.filter { breaks.contains(line[$0].id) }))
    }
}
