import Model

// Names that pass from one item to another on this device. The hub applies each change by itself,
// and names at the hub are unique at any time. So the change of the item that leaves a name is sent
// before that of the item that takes it. Otherwise the hub would give the second item its spare
// name, although no other device had ever used that name.
extension ItemComparison {
    /// Changes that have to be sent before a change of placement.
    struct Obstacles {
        /// The item that has the name at the hub and has left it on this device.
        var leaver: Identifier?
        /// When a directory moves into one that is still inside it at the hub: the directories
        /// between the two whose changes must be sent first.
        var between: [Identifier] = []
    }

    /// Decides whether a draft may be sent now, so that the hub receives changes of placement in an
    /// order in which it can apply them.
    ///
    /// - Returns: The draft itself when no other item has to be sent first. When that other item
    ///   waits for this one, a draft that gives this item a temporary name. Nil when the draft has
    ///   to wait.
    func inOrder<T: DeviceTable>(_ draft: ItemDraft, _ table: inout T) throws(T.Failure)
        -> ItemDraft?
    {
        guard let placement = draft.placement, !bugs.contains(.takesNamesTooEarly) else {
            return draft
        }
        let obstacles = try obstacles(to: placement, of: draft.item, &table)
        guard obstacles.between.isEmpty else { return nil }
        guard let leaver = obstacles.leaver else { return draft }
        guard try waits(leaver, for: draft.item, &table) else { return nil }
        return try aside(draft, &table)
    }

    /// A draft with only the change of placement, to a name that no other item has.
    func aside<T: DeviceTable>(_ draft: ItemDraft, _ table: inout T) throws(T.Failure) -> ItemDraft?
    {
        guard let placement = draft.placement else { return nil }
        let spare = try table.placement(
            placement.name.withMark(of: draft.item), in: placement.parent)
        for change in draft.changes {
            var aside = draft
            aside.placement = spare
            switch change {
            case .create(var creation):
                creation.placement = spare
                let attributes = draft.changes.filter(\.isAttribute)
                aside.changes = [.create(creation)] + attributes
            case .move(_, let base):
                // What an earlier agreement says of the others would be lost with this one.
                let others = draft.changes.filter { $0.isAttribute && !$0.describesContents }
                aside.changes = [.move(spare, base: base)] + others
            // A move takes the item out of the trash, too.
            case .restore:
                let base = try table.mirror(draft.item)?.base?.placedBy
                aside.changes = [.move(spare, base: base ?? .unknown)]
            default: continue
            }
            aside.isAside = true
            return aside
        }
        return nil
    }

    func obstacles<T: DeviceTable>(
        to placement: Placement, of id: Identifier, _ table: inout T
    ) throws(T.Failure) -> Obstacles {
        var obstacles = Obstacles()
        let session = try table.session()
        for other in try table.agreed(on: placement.name, in: placement.parent) where other != id {
            guard try table.isUnsent(other), let agreed = try table.mirror(other) else { continue }
            let mirror = try rebased(agreed, other, &table)
            // The hub has never known the item, or has lost it.
            if mirror.base == nil, mirror.remote == nil { continue }
            guard let known = agreed.imageAtHub(in: session) else { continue }
            let local = try table.local(other)
            let isThere = local.map { $0.isAlive && $0.isAt(known) } ?? false
            // Without an agreement, this device only moves the item. An item that was deleted here
            // comes back.
            if mirror.base == nil, local?.isAlive != true { continue }
            if !isThere { obstacles.leaver = other }
        }
        guard try table.mirror(id)?.base?.image.kind == .directory else { return obstacles }
        var seen: Set<Identifier> = [.root]
        var next = placement.parent
        while seen.insert(next).inserted,
            let image = try table.mirror(next)?.imageAtHub(in: session)
        {
            if try table.isUnsent(next) { obstacles.between.append(next) }
            next = image.parent
            if next == id { return obstacles }
        }
        obstacles.between = []
        return obstacles
    }

    /// Whether an item cannot be sent before another one, directly or indirectly.
    private func waits<T: DeviceTable>(
        _ first: Identifier, for id: Identifier, _ table: inout T
    ) throws(T.Failure) -> Bool {
        var (open, seen) = ([first], Set<Identifier>())
        while let next = open.popLast() {
            if next == id { return true }
            guard seen.insert(next).inserted, seen.count < 1024 else { continue }
            let draft = try draft(next, in: &table)
            if draft.isDeletion { open += try movedOut(of: next, &table) }
            if let parent = draft.waitsFor { open.append(parent) }
            guard let placement = draft.placement else { continue }
            let obstacles = try obstacles(to: placement, of: next, &table)
            open += obstacles.between + [obstacles.leaver].compactMap(\.self)
        }
        return false
    }

    /// Items that the hub still has in a deleted directory, although they have been moved out of it
    /// on this device. The hub must receive these moves first, or it would delete the items with
    /// the directory. An item that left with a directory around it is not among them.
    func movedOut<T: DeviceTable>(of directory: Identifier, _ table: inout T)
        throws(T.Failure) -> [Identifier]
    {
        guard try table.mirror(directory)?.base?.image.kind == .directory else { return [] }
        let session = try table.session()
        var found: [Identifier] = []
        for id in try table.unsentAlive(limit: 4096) {
            var next = try table.mirror(id)?.imageAtHub(in: session)?.parent
            // Such an item may wait for a name that becomes free only by this deletion.
            if try table.local(id)?.parent == next { continue }
            var seen: Set<Identifier> = [.root]
            while let parent = next, parent != directory, seen.insert(parent).inserted {
                next = try table.mirror(parent)?.imageAtHub(in: session)?.parent
            }
            if next == directory { found.append(id) }
        }
        return found
    }
}
