import Journal
import Model

/// One thing that undoing a session does.
package struct SessionStep: Sendable {
    package enum Kind: String, Sendable {
        /// The document shows what it showed before; nobody else has saved since.
        case changed
        /// Others have saved since: what the session changed is taken out of it by a merge.
        case merged
        /// Versions that the session left in conflict are resolved.
        case resolved
        /// The session made it, and nobody else has changed it: it is deleted.
        case created
        /// The session deleted it: it comes back.
        case deleted
        /// The session moved it: it goes back.
        case moved
        /// It stays as it is, for the reason that is given.
        case kept
    }

    package var kind: Kind
    /// From the root: where the item is now, or was last.
    package var path: [Name]
    package var id: Identifier
    /// What it is to show; nil where that does not change, or is merged.
    package var version: Version?
    /// Where it was before the session moved it.
    package var origin: [Name]?
    package var reason: String?
    /// How the document is protected now.
    package var protection: Protection
    /// The versions that tell of this step.
    package var witnesses: [Version] = []
}

/// What is to be undone.
package struct SessionChoice: Hashable, Sendable {
    package var session: WorkSession
    /// Of this person only; nil: of everybody whose session has that text.
    package var person: String?
    /// Nanoseconds since 1970: only what was done from then on.
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
        /// What the document showed before the first of them.
        package var before: Version
    }

    package var current: Version?
    /// The newest first.
    package var runs: [Run] = []
    /// Versions that the session has left in conflict.
    package var conflicts: [Version] = []
    /// The document began with the session.
    package var isCreation = false
    /// All that the document has shown is the session's.
    package var isAlone = false
    /// Why a run cannot be undone.
    package var reason: String?

    package var isEmpty: Bool { runs.isEmpty && conflicts.isEmpty && !isCreation && reason == nil }

    /// What the document showed before, where nobody else has saved since the session began.
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
