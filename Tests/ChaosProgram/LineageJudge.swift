/// Follows which versions were made from which, and finds contents that were replaced by somebody
/// who had not seen them, although that must be a conflict, and conflicts that only some devices
/// have.
struct LineageJudge {
    private let events: [Event]
    private(set) var findings: [(Event, Violation.Kind, String)] = []

    init(events: [Event]) { self.events = events }

    mutating func run() {
        // What continues from an older state has not seen its own later work, or joins two trees;
        // after days, retention has removed some of the versions between others.
        let interrupting = [
            "roll-back", "sign-out", "sign-in-elsewhere", "copy-store", "lose-power", "sleep",
        ]
        let isInterrupted = events.contains {
            $0.kind == .fault && interrupting.contains($0.verb?.first ?? "")
        }
        guard !isInterrupted else { return }
        let versions = events.filter { $0.kind == .version && $0.document != nil }
        let documents = Dictionary(grouping: versions) { $0.document ?? "" }
        for (_, versions) in documents.sorted(by: { $0.key < $1.key })
        where !isPurged(versions) && !wasMoved(versions) && isShown(versions) {
            checkLineage(of: versions)
            checkConflicts(of: versions)
        }
    }

    /// A purge may have removed a version between two others.
    private func isPurged(_ versions: [Event]) -> Bool {
        let roots = Set(versions.compactMap { $0.path?.prefix { $0 != "/" } })
        return events.contains {
            $0.kind == .began && $0.verb?.first == "purge"
                && roots.contains($0.path?.prefix { $0 != "/" } ?? "")
        }
    }

    /// Whether somebody has removed or renamed the document, or something around it. What was saved
    /// before a removal is history even if another device's save brings the document back.
    private func wasMoved(_ versions: [Event]) -> Bool {
        let contents = Set(versions.compactMap(\.content))
        let saves = events.filter { $0.kind == .did && contents.contains($0.content ?? "") }
        let paths = Set((versions + saves).compactMap(\.path))
        return events.contains { event in
            guard event.kind == .did, event.isOK, let verb = event.verb,
                ["remove", "rename", "exchange"].contains(verb.first ?? "")
            else { return false }
            return verb.dropFirst().contains { name in
                paths.contains { $0 == name || $0.hasPrefix(name + "/") }
            }
        }
    }

    /// Whether the present version of the document is a file on each device that has it, so that
    /// the document was not deleted.
    private func isShown(_ versions: [Event]) -> Bool {
        let current = versions.filter { $0.detail == "current" }
        return !current.isEmpty
            && current.allSatisfy { version in
                events.contains {
                    $0.kind == .item && $0.actor == version.actor && $0.content == version.content
                }
            }
    }

    private mutating func checkLineage(of versions: [Event]) {
        var parents: [String: Set<String>] = [:]
        for version in versions {
            let named = (version.parents ?? []).filter { isPossible($0, of: version, versions) }
            parents[version.version ?? "", default: []].formUnion(named)
        }
        var open = versions.filter { $0.detail != "history" }.compactMap(\.version)
        var seen: Set<String> = []
        while let next = open.popLast() {
            guard seen.insert(next).inserted else { continue }
            open += parents[next] ?? []
            let contents = Set(versions.filter { $0.version == next }.map(\.content))
            open += versions.filter { contents.contains($0.content) && wasBroughtBack($0) }
                .compactMap(\.version)
        }
        let kept = Set(versions.filter { seen.contains($0.version ?? "") }.map(\.content))
        var told = kept
        for version in versions where told.insert(version.content).inserted {
            guard let content = version.content, let save = save(of: content) else { continue }
            findings.append(
                (
                    version, .replaced,
                    "\(version.writers ?? content) of \(save.actor) is only history on "
                        + "\(version.actor), and the present version was not made from it"
                ))
        }
    }

    /// Whether a version can have been made from this one. A device that made it knows, by a save
    /// or by going back to earlier contents; another may have been told otherwise by the hub, and
    /// then a maker must at least have the parent. Only a full disk removes some of them.
    private func isPossible(_ parent: String, of version: Event, _ versions: [Event]) -> Bool {
        guard let saver = version.content.flatMap({ save(of: $0)?.actor }) else { return true }
        let others = versions.filter { $0.version == version.version && wasBroughtBack($0) }
        return Set([saver] + others.map(\.actor)).contains { maker in
            isPossible(parent, of: version, madeBy: maker, versions)
        }
    }

    private func isPossible(
        _ parent: String, of version: Event, madeBy maker: String, _ versions: [Event]
    ) -> Bool {
        let known = versions.filter { $0.actor == maker }
        guard let own = known.first(where: { $0.version == version.version }) else { return true }
        let wasFilled = events.contains {
            $0.kind == .fault && $0.actor == maker && $0.verb == ["fill"]
        }
        return wasFilled || own.parents?.contains(parent) == true
            || known.contains { $0.version == parent }
    }

    /// Whether the device made an earlier content current again. If that is what all agree on, the
    /// device has nothing to send, and the content has another successor. What was saved between
    /// was given up by whoever went back.
    private func wasBroughtBack(_ version: Event) -> Bool {
        events.contains { event in
            guard event.actor == version.actor, event.content == version.content else {
                return false
            }
            return event.kind == .observed && event.verb?.first == "rewind"
                || event.kind == .did && event.isOK && event.verb?.first == "restore"
        }
    }

    private func save(of content: String) -> Event? {
        events.first {
            $0.kind == .did && $0.isOK && $0.content == content
                && $0.verb.map(Checker.writes) == true
        }
    }

    private mutating func checkConflicts(of versions: [Event]) {
        func conflicts(on actor: String) -> Set<String> {
            Set(
                versions.filter { $0.actor == actor && $0.detail == "conflict" }
                    .compactMap(\.version))
        }
        let settled = events.filter { $0.kind == .settled && $0.actor.hasPrefix("dev") }
        guard let one = settled.first?.actor, let version = versions.first else { return }
        for other in settled.dropFirst().map(\.actor) {
            let (here, there) = (conflicts(on: one), conflicts(on: other))
            if here == there { continue }
            findings.append(
                (
                    version, .conflict,
                    "\(here.count) versions are in conflict on \(one), and \(there.count) on "
                        + "\(other), not the same ones"
                ))
        }
    }
}
