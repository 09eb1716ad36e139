import Model

// Names that pass from one item to another on this device. The hub takes each change by itself, and
// its names are unique at any time: who leaves a name is told of before who takes it. Else the one
// that takes it would be given another name, though nobody else had ever used it.
extension Exchange {
    /// What has to be told before a change of place.
    private struct Obstacles {
        /// It has the name at the hub, and has left it here.
        var leaver: Identifier?
        /// Those between the item and the directory that is to hold it, which is in the item at the
        /// hub and not here any more.
        var between: [Identifier] = []
    }

    /// Puts what a draft tells of its item's place into an order that the hub can take.
    ///
    /// - Returns: The draft itself when nothing stands in its way. Where items wait for each other,
    ///   the draft gives its item a name of its own first, and it goes on from there later. Nil: it
    ///   has to wait.
    func inOrder<T: DeviceTable>(_ draft: Draft, _ table: inout T) throws(T.Failure) -> Draft? {
        guard let placement = draft.placement, !bugs.contains(.takesNamesTooEarly) else {
            return draft
        }
        let obstacles = try obstacles(to: placement, of: draft.item, &table)
        guard obstacles.between.isEmpty else { return nil }
        guard let leaver = obstacles.leaver else { return draft }
        guard try waits(leaver, for: draft.item, &table) else { return nil }
        return try aside(draft, &table)
    }

    /// The change of place alone, to a name that nothing else has.
    func aside<T: DeviceTable>(_ draft: Draft, _ table: inout T) throws(T.Failure) -> Draft? {
        guard let placement = draft.placement else { return nil }
        let spare = try table.placement(
            placement.name.withMark(of: draft.item), in: placement.parent)
        for change in draft.changes {
            var aside = draft
            switch change {
            case .create(var creation):
                creation.placement = spare
                aside.changes = [.create(creation)]
            case .move(_, let base): aside.changes = [.move(spare, base: base)]
            default: continue
            }
            aside.isAside = true
            return aside
        }
        return nil
    }

    private func obstacles<T: DeviceTable>(
        to placement: Placement, of id: Identifier, _ table: inout T
    ) throws(T.Failure) -> Obstacles {
        var obstacles = Obstacles()
        let session = try table.session()
        for other in try table.agreed(on: placement.name, in: placement.parent) where other != id {
            guard try table.isUnsent(other), let base = try table.mirror(other)?.base,
                base.isOf(session)
            else { continue }
            let local = try table.local(other)
            let isThere = local.map { $0.isAlive && $0.isAt(base.image) } ?? false
            if !isThere { obstacles.leaver = other }
        }
        guard try table.mirror(id)?.base?.image.kind == .directory else { return obstacles }
        var seen: Set<Identifier> = [.root]
        var next = placement.parent
        while seen.insert(next).inserted, let base = try table.mirror(next)?.base {
            if try table.isUnsent(next) { obstacles.between.append(next) }
            next = base.image.parent
            if next == id { return obstacles }
        }
        obstacles.between = []
        return obstacles
    }

    /// Whether an item cannot be told of before another one is, by one step or many.
    private func waits<T: DeviceTable>(
        _ first: Identifier, for id: Identifier, _ table: inout T
    ) throws(T.Failure) -> Bool {
        var (open, seen) = ([first], Set<Identifier>())
        while let next = open.popLast() {
            if next == id { return true }
            guard seen.insert(next).inserted, seen.count < 1024 else { continue }
            let draft = try self.draft(next, in: &table)
            if draft.isDeletion { open += try movedOut(of: next, &table) }
            if let parent = draft.waitsFor { open.append(parent) }
            guard let placement = draft.placement else { continue }
            let obstacles = try obstacles(to: placement, of: next, &table)
            open += obstacles.between + [obstacles.leaver].compactMap(\.self)
        }
        return false
    }

    /// What the hub believes in a deleted directory and is elsewhere here, which is not told yet:
    /// it would be deleted with it.
    func movedOut<T: DeviceTable>(of directory: Identifier, _ table: inout T)
        throws(T.Failure) -> [Identifier]
    {
        guard try table.mirror(directory)?.base?.image.kind == .directory else { return [] }
        var found: [Identifier] = []
        for id in try table.unsentAlive(limit: 4096) {
            var next = try table.mirror(id)?.base?.image.parent
            var seen: Set<Identifier> = [.root]
            while let parent = next, parent != directory, seen.insert(parent).inserted {
                next = try table.mirror(parent)?.base?.image.parent
            }
            if next == directory { found.append(id) }
        }
        return found
    }
}

extension Exchange.Draft {
    /// Where its item is to be.
    package var placement: Placement? {
        for change in changes {
            switch change {
            case .create(let creation): return creation.placement
            case .move(let placement, _): return placement
            default: continue
            }
        }
        return nil
    }
}
