import HTTPTypes
import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// Answers COPY and MOVE within a volume.
struct Transfer {
    private let source: Place
    private let target: Place
    private let isMove: Bool
    private let overwrites: Bool
    private let depth: Session.Depth
    private var session: Session { source.session }

    /// - Throws: `.malformed`, a refusal with the status 502 for another server.
    init(_ source: Place, isMove: Bool) async throws {
        self.source = source
        self.isMove = isMove
        let session = source.session
        guard let text = session.request.headers[.destination] else {
            throw Failure(.malformed, "The header Destination is missing.")
        }
        switch session.request.headers[.overwrite]?.uppercased() {
        case nil, "T": overwrites = true
        case "F": overwrites = false
        default: throw Failure(.malformed, "The header Overwrite is T or F.")
        }
        depth = try session.depth()
        target = try await Place(try Address(uri: text, host: session.host), session)
    }

    func answer() async throws -> Response {
        if case .part(let entry, _) = source.target, !isMove { return try await copyPart(entry) }
        let item = try source.existingItem()
        let (volume, parent) = try target.writable()
        guard source.access?.volume.id == volume.id else {
            throw Refusal(403, "Nothing is moved or copied from one volume to another.")
        }
        if item.isCollection, depth == .one || isMove && depth == .zero {
            throw Failure(.malformed, "This Depth is not possible here.")
        }
        let old = target.item
        // Texts are equal if they are canonically equivalent, but the paths have the bytes.
        let (from, to) = (source.address, target.address)
        if isMove, old?.id == item.id,
            from.path(isCollection: false) != to.path(isCollection: false)
        {
            // The name changes only in a way that does not make it another name.
            let changes = try await VolumeChanges(volume, session)
            try await checkLocks(item, nil, try await Locks(volume, session))
            return try await move(item, to: parent, changes, 204)
        }
        guard old?.id != item.id, !target.folders.contains(where: { $0.id == item.id }),
            !source.folders.contains(where: { $0.id == old?.id })
        else { throw Refusal(403, "One of the two is the other, or is in it.") }
        let changes = try await VolumeChanges(volume, session)
        try Conditions(session.request).check(exists: true, tag: item.tag)
        guard overwrites || old == nil else {
            throw Refusal(412, "There is something of this name already (Overwrite: F).")
        }
        let locks = try await Locks(volume, session)
        let ended = try await checkLocks(item, old, locks)
        let answer = try await carryOut(item, old, to: parent, changes, locks)
        try await locks.end(ended)
        return answer
    }

    /// - Returns: The locks that end, because a lock does not move.
    @discardableResult
    private func checkLocks(
        _ item: ItemState, _ old: ItemState?, _ locks: Locks
    ) async throws -> [Lock] {
        try await locks.checkHeader(source)
        var ended: [Lock] = []
        if isMove {
            try await locks.checkRemoval(of: source)
            ended = try await locks.all(of: item)
        }
        if old.map({ isNextVersion(item, of: $0) }) ?? false {
            try locks.checkChange(of: target)
        } else {
            try await locks.checkRemoval(of: target)
            if let old { ended += try await locks.all(of: old) }
        }
        return ended
    }

    /// A document that is put over another one is a new version of that one, as on a device: it
    /// keeps its history. So programs save by a temporary document.
    private func isNextVersion(_ item: ItemState, of old: ItemState) -> Bool {
        item.kind == old.kind && item.kind.isDocument && item.current != nil
    }

    private func carryOut(
        _ item: ItemState, _ old: ItemState?, to parent: ItemState, _ changes: VolumeChanges,
        _ locks: Locks
    ) async throws -> Response {
        if let old {
            if isNextVersion(item, of: old) {
                return try await replace(old, after: locks.base(of: old), by: item, changes)
            }
            try await changes.delete(old)
        }
        let status = old == nil ? 201 : 204
        if isMove {
            if old == nil, let former = try await former(of: item, in: parent, changes, locks) {
                return try await exchange(former, item, changes)
            }
            return try await move(item, to: parent, changes, status)
        }
        var copy = FolderCopy(changes)
        try await copy.copy(
            item, to: target.address.name, in: parent.id, isDeep: depth != .zero)
        return Reply.empty(status)
    }

    private func move(
        _ item: ItemState, to parent: ItemState, _ changes: VolumeChanges, _ status: Int
    ) async throws -> Response {
        let placement = changes.placement(target.address.name, in: parent.id)
        let step = VolumeChanges.Step(item.id, .move(placement, base: item.placedBy))
        switch try await changes.commit(step) {
        case .overruled:
            throw Refusal(409, "A device has moved or changed this meanwhile. Nothing was moved.")
        case .bounced:
            throw Refusal(
                409,
                "Another document got this name meanwhile. This one is beside it, as "
                    + "\(placement.spare).")
        default:
            if item.kind.isDocument {
                session.vacated.note(
                    item.id, by: session.caller.device,
                    from: VacatedNames.Place(
                        volume: changes.volume.id, folder: item.placement.parent,
                        name: item.nameKey),
                    at: changes.time)
            }
            return Reply.empty(status)
        }
    }

    // MARK: Saving by two moves

    /// The document that the program has just moved away from the name that this one gets now. It
    /// must be beside it, and not be locked.
    private func former(
        of item: ItemState, in parent: ItemState, _ changes: VolumeChanges, _ locks: Locks
    ) async throws -> ItemState? {
        let place = VacatedNames.Place(
            volume: changes.volume.id, folder: parent.id,
            name: changes.names.key(target.address.name))
        guard item.kind.isDocument,
            let id = session.vacated.take(
                place, by: session.caller.device, at: changes.time),
            let former = try await session.hub.ledger.read({ try $0.item(id, in: place.volume) }),
            former.id != item.id, former.kind == item.kind, former.life.isAlive,
            former.placement.parent == parent.id, former.conflicts.isEmpty,
            item.conflicts.isEmpty, !locks.all.contains(where: { $0.item == former.id })
        else { return nil }
        return former
    }

    /// Gives the former document its name back, with the contents of the new one, and the new one
    /// the name and the contents that the former one has had in between. So both names have what
    /// the program has put there, and the history stays with the document.
    private func exchange(
        _ former: ItemState, _ item: ItemState, _ changes: VolumeChanges
    ) async throws -> Response {
        guard let old = former.current, let new = item.current else { throw Place.nothing }
        let name = target.address.name
        let (next, contents) = try await changes.copy(of: new, parents: [old.id], named: name)
        let (aside, oldContents) = try await changes.copy(
            of: old, parents: [new.id], named: former.name)
        let parent = former.placement.parent
        var steps = [
            VolumeChanges.Step(former.id, .edit(next), contents),
            VolumeChanges.Step(
                former.id,
                .move(changes.placement(name, in: parent), base: former.placedBy)),
            VolumeChanges.Step(item.id, .edit(aside), oldContents),
            VolumeChanges.Step(
                item.id,
                .move(changes.placement(former.name, in: parent), base: item.placedBy)),
        ]
        for (one, other) in [(former, item), (item, former)] {
            if let modified = other.modified {
                steps.append(
                    .init(one.id, .attribute("modified", VolumeChanges.modified(modified))))
            }
            for (name, value) in DeadProperties.changes(from: one, to: other) {
                steps.append(.init(one.id, .attribute(name, value)))
            }
        }
        let isDone = try await changes.commit(steps).allSatisfy { verdict in
            switch verdict {
            case .bounced, .overruled: false
            default: true
            }
        }
        guard isDone else {
            throw Refusal(409, "A device has changed one of the two meanwhile. Both are kept.")
        }
        return Reply.empty(201)
    }

    private func replace(
        _ old: ItemState, after base: Identifier?, by item: ItemState, _ changes: VolumeChanges
    ) async throws -> Response {
        guard let current = item.current else { throw Place.nothing }
        let (revision, content) = try await changes.copy(
            of: current, parents: base.map { [$0] } ?? [], named: old.name)
        var steps = [VolumeChanges.Step(old.id, .edit(revision), content)]
        if let modified = item.modified {
            steps.append(.init(old.id, .attribute("modified", VolumeChanges.modified(modified))))
        }
        for (name, value) in DeadProperties.changes(from: old, to: item) {
            steps.append(.init(old.id, .attribute(name, value)))
        }
        try await changes.commit(steps)
        try await Locks.note(revision.id, of: old.id, target)
        if isMove { try await changes.delete(item) }
        return Reply.empty(204)
    }

    /// Copies a file out of a package.
    private func copyPart(_ entry: Manifest.Entry) async throws -> Response {
        let (volume, parent) = try target.writable()
        guard entry.kind == .file, source.access?.volume.id == volume.id else {
            throw Refusal(403, "Only a file of a package can be copied, within its volume.")
        }
        guard target.item == nil else {
            throw Refusal(
                overwrites ? 403 : 412,
                "There is something of this name already. A part of a package replaces nothing.")
        }
        let changes = try await VolumeChanges(volume, session)
        let locks = try await Locks(volume, session)
        try await locks.checkHeader(source)
        try locks.checkAddition(of: target)
        let contents = StoredContents(
            entry.chunks, mode: entry.mode, modified: entry.modified, changes.names)
        let (step, _) = changes.document(named: target.address.name, in: parent.id, contents)
        try await changes.commit([step])
        return Reply.empty(201)
    }
}

extension Place {
    /// The item that is here, if any.
    var item: ItemState? {
        guard case .item(let item) = target else { return nil }
        return item
    }
}

/// Copies an item with all that is in it, in steps of bounded size. A copy of a document shares its
/// chunks and begins a history of its own.
struct FolderCopy {
    private let changes: VolumeChanges
    private var steps: [VolumeChanges.Step] = []
    private var bytes = 0

    private enum Together {
        static let steps = 100
        static let bytes = 1 << 20
    }

    init(_ changes: VolumeChanges) { self.changes = changes }

    /// A directory whose members are copied into another one.
    private struct Level {
        var pages: ChildPages
        let copy: Identifier
        var items: [ItemState] = []
    }

    mutating func copy(
        _ item: ItemState, to name: String, in parent: Identifier, isDeep: Bool
    ) async throws {
        let top = try await add(item, named: name, in: parent)
        var levels: [Level] = []
        func level(_ folder: Identifier, _ copy: Identifier) -> Level {
            let pages = ChildPages(
                of: folder, in: changes.volume.id, changes.hub, for: changes.caller)
            return Level(pages: pages, copy: copy)
        }
        if isDeep, item.kind == .directory { levels = [level(item.id, top)] }
        while var last = levels.popLast() {
            guard let next = last.items.popLast() else {
                if let page = try await last.pages.next() {
                    last.items = page
                    levels.append(last)
                }
                continue
            }
            levels.append(last)
            // Somebody may have moved the copy into the source meanwhile.
            if next.id == top { continue }
            let copy = try await add(next, named: next.name, in: last.copy)
            if next.kind == .directory { levels.append(level(next.id, copy)) }
        }
        try await flush()
    }

    private mutating func add(
        _ item: ItemState, named name: String, in parent: Identifier
    ) async throws -> Identifier {
        let copy = Identifier.random()
        var creation = Creation(
            kind: item.kind, placement: changes.placement(name, in: parent), target: item.target,
            attributes: item.attributes.compactMapValues(\.value).filter {
                $0.key != OwnerName.attribute
            })
        var content: RevisionContent?
        if let current = item.current {
            (creation.revision, content) = try await changes.copy(
                of: current, parents: [], named: name)
        }
        steps.append(.init(copy, .create(creation), content))
        bytes += (content?.manifest.bytes.count ?? 0) + (content?.chunks.bytes.count ?? 0)
        if steps.count >= Together.steps || bytes >= Together.bytes { try await flush() }
        return copy
    }

    private mutating func flush() async throws {
        let now = steps
        (steps, bytes) = ([], 0)
        try await changes.commit(now, isGroup: false)
    }
}
