import Journal
import Model

/// One thing that a session did.
package struct SessionAct: Sendable {
    /// `saved`, `deleted` or `moved`.
    package var kind: String
    /// Nanoseconds since 1970.
    package var time: Int64
    /// The item's present or last path. For a move or a deletion, the path before it.
    package var path: [Name]
    /// The path after a move.
    package var target: [Name]?
    package var version: Version?
    package var person: String
    package var program: String
    package var protection: DocumentProtection
}

/// Lists the edits of one session, and plans how to undo them.
package struct SessionHistory: Sendable {
    let items: ItemLookup
    private var journal: Journal { items.journal }

    /// Finds the session with this text, or the only session whose text begins with it.
    ///
    /// - Parameter isExact: Whether the whole text must match.
    /// - Throws: `.notFound`, or `.invalid` if several sessions match.
    package func find(_ text: String, isExact: Bool) throws(VolumeError) -> WorkSession {
        try items.catchUp(with: nil, timeoutSeconds: 30)
        let found = try journal.read { try $0.sessions(beginning: text) }
        if let exact = found.first(where: { $0.text == text }) { return exact }
        guard let first = found.first, !isExact else {
            throw VolumeError(
                .notFound,
                "no session \"\(text)\" has saved anything here; fsctl versions --by shows in "
                    + "which session each version was saved")
        }
        guard found.count == 1 else {
            let names = found.prefix(5).map(\.text).joined(separator: ", ")
            throw VolumeError(
                .invalid,
                "\"\(text)\" may be any of \(found.count) sessions: \(names)"
                    + (found.count > 5 ? ", …" : ""))
        }
        return first
    }

    /// Returns the edits of a session at or below a path, the oldest first. They include documents
    /// that were deleted later, as long as their versions are kept.
    package func acts(_ choice: SessionChoice, below path: [Name]) throws(VolumeError)
        -> [SessionAct]
    {
        try journal.read { reader in
            var acts: [SessionAct] = []
            for key in try reader.items(savedIn: choice.session) {
                guard let item = try reader.item(key), let place = try reader.path(of: key),
                    place.starts(with: path)
                else { continue }
                let protection = try items.protection(of: item, reader)
                for version in try reader.versions(of: key) where choice.includes(version) {
                    acts.append(
                        SessionAct(
                            kind: "saved", time: version.saved, path: place, version: version,
                            person: version.person, program: version.program,
                            protection: protection))
                }
            }
            for change in try reader.nameChanges(by: choice.session) where choice.includes(change) {
                guard let item = try reader.item(change.item),
                    let place = try self.place(change.parent, change.name, reader)
                else { continue }
                let target = try change.target.flatMap {
                    try self.place($0.parent, $0.name, reader)
                }
                guard place.starts(with: path) || target?.starts(with: path) == true else {
                    continue
                }
                acts.append(
                    SessionAct(
                        kind: target == nil ? "deleted" : "moved", time: change.time, path: place,
                        target: target, person: change.person, program: change.program,
                        protection: try items.protection(of: item, reader)))
            }
            return acts.sorted { $0.time < $1.time }
        }
    }

    private func place(_ parent: Int64, _ name: Name, _ reader: Reader) throws -> [Name]? {
        try reader.path(of: parent).map { $0 + [name] }
    }

    // MARK: Undoing

    /// Returns the steps that undo a session at or below a path, in their order: contents, created
    /// items, moved items, deleted items, and then moved directories, the deepest first.
    package func undoing(_ choice: SessionChoice, below path: [Name]) throws(VolumeError)
        -> [SessionStep]
    {
        try items.catchUp(with: path, timeoutSeconds: 30)
        return try journal.read { reader in
            var keys = try reader.items(savedIn: choice.session)
            var known = Set(keys)
            for change in try reader.nameChanges(by: choice.session)
            where known.insert(change.item).inserted {
                keys.append(change.item)
            }
            var steps: [SessionStep] = []
            for key in keys {
                guard let item = try reader.item(key), let place = try reader.path(of: key),
                    place.starts(with: path)
                else { continue }
                steps += try self.steps(for: item, at: place, choice, reader)
            }
            let directories = Set(
                try keys.compactMap { try reader.item($0) }.filter { $0.kind == .directory }
                    .map(\.id))
            return steps.sorted {
                let (a, b) = (Self.rank($0, directories), Self.rank($1, directories))
                if a != b { return a < b }
                if a == 4 { return $0.path.count > $1.path.count }
                return $0.path.lexicographicallyPrecedes($1.path)
            }
        }
    }

    private static func rank(_ step: SessionStep, _ directories: Set<Identifier>) -> Int {
        switch step.kind {
        case .changed, .merged, .resolved, .kept: 0
        case .created: 1
        case .moved: directories.contains(step.id) ? 4 : 2
        case .deleted: 3
        }
    }

    private func steps(
        for item: Item, at path: [Name], _ choice: SessionChoice, _ reader: Reader
    ) throws -> [SessionStep] {
        let protection = try items.protection(of: item, reader)
        var steps: [SessionStep] = []
        func add(
            _ kind: SessionStep.Kind, _ version: Version? = nil, origin: [Name]? = nil,
            reason: String? = nil, witnesses: [Version] = []
        ) {
            steps.append(
                SessionStep(
                    kind: kind, path: path, id: item.id, version: version, origin: origin,
                    reason: reason, protection: protection, witnesses: witnesses))
        }
        let changes = try reader.nameChanges(of: item.key)
        if item.kind == .file || item.kind == .package {
            let edits = try edits(of: item, choice, reader)
            let witnesses = edits.runs.flatMap { [$0.end, $0.before] } + edits.conflicts
            if item.deleted != nil {
                guard let last = changes.last, last.target == nil, choice.includes(last),
                    !edits.isAlone, let shown = edits.current
                else { return [] }
                let version = edits.plain ?? shown
                add(.deleted, version, witnesses: [version])
                return steps
            }
            if edits.isAlone {
                add(.created, witnesses: edits.current.map { [$0] } ?? [])
                return steps
            }
            if let reason = edits.reason {
                add(.kept, reason: reason, witnesses: witnesses)
            } else if let plain = edits.plain {
                add(.changed, plain, witnesses: witnesses)
            } else if !edits.runs.isEmpty {
                add(.merged, witnesses: witnesses)
            } else if !edits.conflicts.isEmpty {
                add(.resolved, witnesses: witnesses)
            } else if edits.isCreation {
                add(.kept, reason: "the session made it, and others have saved it since")
            }
        }
        guard item.deleted == nil, let origin = try origin(of: item, changes, choice, reader) else {
            return steps
        }
        add(.moved, origin: origin)
        return steps
    }

    /// Returns an item's path before the session moved it. Nil unless the last move was the
    /// session's.
    private func origin(
        of item: Item, _ changes: [NameChange], _ choice: SessionChoice, _ reader: Reader
    ) throws -> [Name]? {
        var first: NameChange?
        for change in changes.reversed() {
            guard change.target != nil, choice.includes(change) else { break }
            // Where the item is, or where the move after this one began.
            let (parent, name) = first.map { ($0.parent, $0.name) } ?? (item.parent, item.name)
            guard change.target == NameChange.Target(parent: parent, name: name) else { break }
            first = change
        }
        guard let first, first.parent != item.parent || first.name != item.name,
            try reader.item(first.parent)?.deleted == nil
        else { return nil }
        return try place(first.parent, first.name, reader)
    }

    private func edits(of item: Item, _ choice: SessionChoice, _ reader: Reader) throws
        -> SessionEdits
    {
        SessionEdits(
            try reader.versions(of: item.key), current: item.current,
            lost: try reader.settledVersions(of: item.key), by: choice)
    }

    /// Returns the edits of a session to the contents of the document at a path.
    package func edits(_ choice: SessionChoice, at path: [Name]) throws(VolumeError)
        -> SessionEdits
    {
        try items.catchUp(with: path, timeoutSeconds: 5)
        return try journal.read { reader in
            try self.edits(of: try items.existing(path, reader), choice, reader)
        }
    }
}
