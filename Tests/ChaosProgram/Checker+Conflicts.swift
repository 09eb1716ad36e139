// No conflicts are invented.
extension Checker {
    mutating func checkConflicts() {
        let bases = Dictionary(
            events.filter { $0.kind == .did && $0.isOK && $0.verb?.first == "change" }
                .compactMap { event in event.content.map { ($0, event.base) } },
            uniquingKeysWith: { first, _ in first })
        let versions = events.filter { $0.kind == .version }
        for event in versions where event.detail == "conflict" {
            let path = event.path ?? ""
            if let owner = Checker.owner(of: path) {
                if isRolledBack(owner, afterSaving: event, or: versions) { continue }
                note(
                    .conflict, event, path,
                    "\(event.writers ?? "") is in conflict on \(event.actor), where one device "
                        + "alone worked")
                continue
            }
            // A handle that had read the contents before it changed them knew them.
            let successors = versions.filter {
                $0.actor == event.actor && $0.document == event.document && $0.detail == "current"
                    && event.content != nil && (bases[$0.content ?? ""] ?? nil) == event.content
            }
            if let current = successors.first, !isRecordedTwice(event, current, versions),
                !isOfAnEarlierTime(event, versions),
                ![event, current].allSatisfy({ isBackup($0, versions) })
            {
                note(
                    .conflict, event, path,
                    "\(event.writers ?? "") is in conflict with \(current.writers ?? ""), "
                        + "which was made from it")
            }
        }
        checkMarks()
    }

    /// Returns whether the device that saved the content was copied afterwards. If it had not
    /// recorded the content before, the device and its copy do, as two versions, of which only one
    /// has the successor.
    private func isRecordedTwice(
        _ conflict: Event, _ current: Event, _ versions: [Event]
    ) -> Bool {
        let save = events.firstIndex {
            $0.kind == .did && $0.isOK && $0.content == conflict.content
                && $0.verb.map(Checker.writes) == true
        }
        guard let save,
            let maker = versions.first(where: {
                $0.version == current.version && $0.actor == events[save].actor
            })
        else { return false }
        return maker.parents?.contains(conflict.version ?? "") != true
            && events[save...].contains {
                $0.kind == .fault && $0.actor == maker.actor && $0.verb == ["copy-store"]
            }
    }

    /// Returns whether a program brought back these contents, which the document had before, or
    /// which another document had. The version is then a new one, and nobody who had read the
    /// contents earlier has seen it.
    private func isOfAnEarlierTime(_ conflict: Event, _ versions: [Event]) -> Bool {
        func saved(_ content: String?) -> Int? {
            events.firstIndex {
                $0.kind == .did && $0.isOK && $0.content == content
                    && $0.verb.map(Checker.writes) == true
            }
        }
        guard let own = saved(conflict.content) else { return false }
        return versions.contains { parent in
            guard let id = parent.version, conflict.parents?.contains(id) == true else {
                return false
            }
            return saved(parent.content).map { $0 > own } ?? false
        }
    }

    /// Returns whether the document began with these contents, which another document had. Two
    /// devices that make a backup of one document, each of the state that it has, give two
    /// documents the same name.
    private func isBackup(_ version: Event, _ versions: [Event]) -> Bool {
        version.parents?.isEmpty == true
            && versions.contains {
                $0.document != version.document && $0.content == version.content
            }
    }

    private mutating func checkMarks() {
        for event in events where event.kind == .item {
            guard let path = event.path, let owner = Checker.owner(of: path),
                path.unmarked != path
            else { continue }
            let isExplained = events.contains {
                $0.losesState(of: owner) || $0.mayReturnItems(to: owner)
            }
            if isExplained { continue }
            note(.conflict, event, path, "a mark where one device alone worked, on \(event.actor)")
        }
    }

    /// Returns whether the device's store was rolled back, or lost its state, after it had saved
    /// one of two contents in conflict. Then it continued without knowing that content, or showed
    /// an older one again, and worked like two devices. After signing in again, a document that was
    /// deleted meanwhile returns, and may meet a new one of its name.
    private func isRolledBack(
        _ owner: String, afterSaving conflict: Event, or versions: [Event]
    ) -> Bool {
        let others = versions.filter {
            $0.actor == conflict.actor && $0.document == conflict.document
                && $0.detail == "current"
        }
        let saves = ([conflict] + others).compactMap { version in
            events.lastIndex { event in
                guard event.actor == owner, let word = event.verb?.first else { return false }
                // A transaction adds rows to a database, also one of which nothing is said to its
                // program.
                if event.kind == .began, word == "transact" {
                    return event.path == version.path
                        && !Set(event.rows ?? []).isDisjoint(with: version.rows ?? [])
                }
                // Reading a content does not make it newer.
                return event.kind == .did && !["read", "hold", "visit"].contains(word)
                    && event.content != nil && event.content == version.content
            }
        }
        guard let first = saves.min() else { return false }
        return events[first...].contains {
            $0.losesState(of: owner) || $0.mayReturnItems(to: owner)
        }
    }
}
