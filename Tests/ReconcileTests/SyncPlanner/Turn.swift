import Model

@testable import Reconcile

/// What can happen to devices and their hub.
enum Turn: Doing {
    case createFile, createDirectory, createPackage, edit, safeSave, move, delete, attribute
    case resolve, resolveWithContents, restore
    case ask, take, adjust, apply, finish, draft, send, late, work
    case crash, clock, hubBackup, hubRestore, backup, rollBack

    static let weights = [
        7, 5, 2, 9, 3, 9, 6, 3, 3, 2, 2,
        8, 8, 8, 8, 8, 8, 8, 2, 14,
        3, 1, 1, 1, 1, 1,
    ]

    var isUsers: Bool {
        switch self {
        case .createFile, .createDirectory, .createPackage, .edit, .safeSave, .move, .delete,
            .attribute, .resolve, .resolveWithContents, .restore:
            true
        default: false
        }
    }

    /// Whether it can happen to a device that is signed out.
    var isOffline: Bool { loses || self == .clock }

    /// Whether it restores an earlier state.
    var loses: Bool {
        switch self {
        case .hubBackup, .hubRestore, .backup, .rollBack: true
        default: false
        }
    }
}

private let names = ["a", "b", "c.txt"]

/// What a user did to versions, which only the user may do.
struct Deed {
    var made: Revision?
    var superseded: [Identifier] = []
    var deleted: [Identifier] = []
    var touched: [Identifier] = []
}

extension DeviceJournal {
    mutating func act(_ event: Event<Turn>) -> Deed? {
        let documents = alive.filter { images[$0]!.kind.isDocument }
        let contested = documents.filter { !images[$0]!.conflicts.isEmpty }
        switch event.action {
        case .createFile: return create(event, .file)
        case .createDirectory: return create(event, .directory)
        case .createPackage: return create(event, .package)
        case .edit:
            return event.choose(0, documents).map {
                replacesUnseen && event.oneIn(3, 1)
                    ? replace($0, event) : save($0, event, settles: false)
            }
        case .safeSave: return event.choose(0, documents).flatMap { safeSave($0, event) }
        case .move: return event.choose(0, alive).flatMap { move($0, event) }
        case .delete: return event.choose(0, alive).map { delete($0) }
        case .attribute: return event.choose(0, alive).map { change($0, event) }
        case .resolve: return event.choose(0, contested).map { settle($0) }
        case .resolveWithContents:
            return event.choose(0, contested).map { save($0, event, settles: true) }
        case .restore:
            var gone = ids.filter { !images[$0]!.isAlive }
            // If only its user changes the device, a directory that is created again is another
            // one.
            if takesNames { gone.removeAll { !images[$0]!.kind.isDocument } }
            return event.choose(0, gone).flatMap { restore($0) }
        default: return nil
        }
    }

    private func freePlace(_ event: Event<Turn>, for id: Identifier?) -> (Identifier, String)? {
        let directories = [.root] + alive.filter { images[$0]!.kind == .directory }
        guard let parent = event.choose(1, directories), let name = event.choose(2, names),
            id.map({ !isAncestor($0, of: parent) }) ?? true,
            child(name, in: parent).map({ $0 == id }) ?? true
        else { return nil }
        return (parent, name)
    }

    /// Like `freePlace`, but the move may remove the item that has the name.
    private mutating func place(_ event: Event<Turn>, for id: Identifier?, _ deed: inout Deed)
        -> (Identifier, String)?
    {
        if takesNames, !event.oneIn(3, 0) {
            let directories = [.root] + alive.filter { images[$0]!.kind == .directory }
            if let parent = event.choose(1, directories), let name = event.choose(2, names),
                let holder = child(name, in: parent), holder != id,
                id.map({ !isAncestor($0, of: parent) && !isAncestor(holder, of: $0) }) ?? true
            {
                let gone = delete(holder)
                deed.deleted += gone.deleted
                deed.touched += gone.touched
                return (parent, name)
            }
        }
        return freePlace(event, for: id)
    }

    private mutating func revision(_ event: Event<Turn>, _ parents: [Identifier]) -> Revision {
        var content = event.oneIn(6, 3) ? event.choices[3] % 2 : 1_000 + event.number
        // Contents that were there before do not make a new version.
        var (open, seen) = (parents, Set<Identifier>())
        while let next = open.popLast() {
            guard seen.insert(next).inserted, let older = revisions[next] else { continue }
            if older.content == .content(content) { content = 1_000 + event.number }
            open += older.parents
        }
        let new = Revision(
            id: .revision(event.number), parents: parents, content: .content(content), size: 1,
            moment: Moment(time: clock, device: state.device),
            note: .init(modified: Int64(event.number)))
        revisions[new.id] = new
        return new
    }

    private mutating func create(_ event: Event<Turn>, _ kind: ItemKind) -> Deed? {
        var deed = Deed()
        guard let (parent, name) = place(event, for: nil, &deed) else { return nil }
        let id = Identifier.item(event.number)
        deed.touched.append(id)
        var image = Image(kind: kind, parent: parent, name: name)
        if takesNames, kind == .file, event.oneIn(3, 3) {
            (image.kind, image.target) = (.symlink, "to \(event.number)")
        } else if kind.isDocument {
            let new = revision(event, [])
            (image.revision, image.content) = (new.id, new.content)
            deed.made = new
        }
        images[id] = image
        noteNew(id)
        return deed
    }

    private mutating func save(_ id: Identifier, _ event: Event<Turn>, settles: Bool) -> Deed {
        var superseded = [images[id]!.revision].compactMap(\.self)
        let new = revision(event, superseded)
        if settles {
            superseded += images[id]!.conflicts
            images[id]!.conflicts = []
        }
        images[id]!.revision = new.id
        images[id]!.content = new.content
        unsent.insert(id)
        return Deed(made: new, superseded: superseded, touched: [id])
    }

    /// A new file is written and replaces the old one. The recorder recognizes this as an edit,
    /// although it has seen the new file before.
    private mutating func safeSave(_ id: Identifier, _ event: Event<Turn>) -> Deed? {
        let spare = "new\(event.number)"
        let other = Identifier.item(event.number)
        var deed = save(id, event, settles: false)
        images[other] = Image(
            kind: images[id]!.kind, parent: images[id]!.parent, name: spare, isAlive: false)
        noteNew(other)
        deed.touched.append(other)
        return deed
    }

    /// A program that has not seen the current version saves the document, and the current version
    /// becomes a conflict version.
    private mutating func replace(_ id: Identifier, _ event: Event<Turn>) -> Deed {
        guard let unseen = images[id]!.revision, let parents = revisions[unseen]?.parents,
            !parents.isEmpty
        else { return save(id, event, settles: false) }
        let new = revision(event, parents)
        guard new.content != images[id]!.content else { return Deed() }
        images[id]!.revision = new.id
        images[id]!.content = new.content
        images[id]!.conflicts.append(unseen)
        images[id]!.conflicts.sort { ($0.high, $0.low) < ($1.high, $1.low) }
        unsent.insert(id)
        return Deed(made: new, touched: [id])
    }

    private mutating func move(_ id: Identifier, _ event: Event<Turn>) -> Deed? {
        if takesNames, event.oneIn(4, 3) { return swap(id, event) }
        var deed = Deed(touched: [id])
        guard let (parent, name) = place(event, for: id, &deed) else { return nil }
        images[id]!.parent = parent
        images[id]!.name = name
        notePlaced(id)
        return deed
    }

    /// Like `renameat2` with RENAME_EXCHANGE.
    private mutating func swap(_ id: Identifier, _ event: Event<Turn>) -> Deed? {
        guard let other = event.choose(1, alive), other != id,
            !isAncestor(id, of: other), !isAncestor(other, of: id)
        else { return nil }
        let (one, two) = (images[id]!, images[other]!)
        (images[id]!.parent, images[id]!.name) = (two.parent, two.name)
        (images[other]!.parent, images[other]!.name) = (one.parent, one.name)
        for item in [id, other] { notePlaced(item) }
        return Deed(touched: [id, other])
    }

    private mutating func delete(_ id: Identifier) -> Deed {
        var deed = Deed()
        var open = [id]
        while let next = open.popLast() {
            open += children(of: next)
            let image = images[next]!
            deed.deleted += [image.revision].compactMap(\.self) + image.conflicts
            images[next]!.isAlive = false
            images[next]!.conflicts = []
            notePlaced(next)
            deed.touched.append(next)
        }
        return deed
    }

    private mutating func change(_ id: Identifier, _ event: Event<Turn>) -> Deed {
        let name = event.oneIn(2, 1) ? "mode" : "x:user.a"
        images[id]!.attributes[name] = event.oneIn(4, 2) ? nil : [1, UInt8(event.number & 0xFF)]
        noteAttributes(id)
        return Deed(touched: [id])
    }

    private mutating func settle(_ id: Identifier) -> Deed {
        let settled = images[id]!.conflicts
        images[id]!.conflicts = []
        unsent.insert(id)
        return Deed(superseded: settled, touched: [id])
    }

    private mutating func restore(_ id: Identifier) -> Deed? {
        let image = images[id]!
        guard image.parent == .root || images[image.parent]?.isAlive == true,
            child(image.name, in: image.parent) == nil,
            !image.name.hasPrefix("new")
        else { return nil }
        images[id]!.isAlive = true
        notePlaced(id)
        return Deed(touched: [id])
    }
}

// MARK: What triggers of the journal note

extension DeviceJournal {
    private mutating func noteNew(_ id: Identifier) {
        notePlaced(id)
        noteAttributes(id)
    }

    private mutating func notePlaced(_ id: Identifier) {
        times[id, default: ChangeTimes()].placed = clock
        unsent.insert(id)
    }

    private mutating func noteAttributes(_ id: Identifier) {
        times[id, default: ChangeTimes()].attributes = clock
        unsent.insert(id)
    }
}

// MARK: The applier

extension DeviceJournal {
    /// A version belongs to the document that the hub says. Another document that has it gives it
    /// another id.
    private mutating func free(_ revision: Identifier, for id: Identifier) {
        guard var known = revisions[revision] else { return }
        known.id = Identifier(high: revision.high | 1 << 62, low: revision.low)
        for other in images.keys where other != id && images[other]!.revision == revision {
            images[other]!.revision = known.id
            revisions[known.id] = known
        }
    }

    /// Applies an adjustment to the tree, if the tree has not changed since.
    ///
    /// - Returns: Whether it was applied; if not, something is in its way.
    mutating func apply(_ adjustment: Adjustment, looks: Bool) -> Bool {
        let id = adjustment.item
        let there = shown(id).flatMap { $0.isAlive ? $0 : nil }
        if looks, there != adjustment.local { return false }
        let remote = Image(adjustment.remote)
        for step in adjustment.steps {
            switch step {
            case .make:
                guard child(remote.name, in: remote.parent) == nil,
                    remote.parent == .root || images[remote.parent]?.isAlive == true
                else { return false }
                images[id] = remote
                // A journal creates the item with its current version alone.
                images[id]!.conflicts = []
                if let current = adjustment.remote.current {
                    free(current.id, for: id)
                    revisions[current.id] = current
                }
                noteNew(id)
            case .move(let parent, let name):
                guard var image = images[id], !isAncestor(id, of: parent),
                    parent == .root || images[parent]?.isAlive == true
                else { return false }
                let holder = child(name, in: parent)
                guard holder == id || holder == adjustment.holder else { return false }
                if let holder, holder != id {
                    guard !isAncestor(holder, of: image.parent) else { return false }
                    images[holder]!.parent = image.parent
                    images[holder]!.name = image.name
                    notePlaced(holder)
                }
                (image.parent, image.name) = (parent, name)
                images[id] = image
                notePlaced(id)
            case .contents(let revision):
                revisions[revision.id] = revisions[revision.id] ?? revision
                images[id]?.revision = revision.id
                images[id]?.content = revision.content
            case .attributes(let changes):
                for (name, value) in changes { images[id]?.attributes[name] = value }
                noteAttributes(id)
            case .conflicts: break
            case .remove:
                guard children(of: id).isEmpty else { return false }
                images[id]?.isAlive = false
                images[id]?.conflicts = []
                notePlaced(id)
            }
        }
        unsent.insert(id)
        return true
    }

    /// What exists only in the journal changes together with the record that the adjustment is
    /// done.
    mutating func finish(_ adjustment: Adjustment) {
        for case .conflicts(let added, let settled) in adjustment.steps {
            images[adjustment.item]?.conflicts.removeAll { settled.contains($0) }
            add(conflicts: added, to: adjustment.item)
        }
    }

    mutating func add(conflicts: [Revision], to id: Identifier) {
        for revision in conflicts {
            revisions[revision.id] = revisions[revision.id] ?? revision
        }
        let all = Set((images[id]?.conflicts ?? []) + conflicts.map(\.id))
        images[id]?.conflicts = all.sorted { $0.low < $1.low }
    }
}
