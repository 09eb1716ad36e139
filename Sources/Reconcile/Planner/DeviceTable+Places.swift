import Model

// Which item is where, in the tree and at the hub, and which must move before which.
extension DeviceTable {
    /// Whether the directory exists and is not inside the item that will move into it; otherwise
    /// the directory must move first.
    mutating func isOpen(
        _ parent: Identifier, to id: Identifier
    ) throws(Failure) -> Bool {
        if parent == .root { return true }
        guard let directory = try local(parent), directory.isAlive else { return false }
        return try !isWithin(parent, id)
    }

    /// Whether an item cannot get its place before another one has moved.
    mutating func waits(
        _ id: Identifier, for other: Identifier
    ) throws(Failure) -> Bool {
        var next = id
        for _ in 0..<64 {
            guard let state = try mirror(next)?.remote else { return false }
            // The directory's contents may wait for the other item, or contain it.
            if !state.life.isAlive { return try hasLocalChildren(next) }
            let parent = state.placement.parent
            if try !isOpen(parent, to: next) {
                next = try obstacle(from: parent, to: next, other)
            } else if let holder = try localChild(state.name, in: parent), holder != next {
                next = holder
            } else {
                return false
            }
            if next == other { return true }
        }
        return false
    }

    /// A directory is inside the item that is to go into it. Returns what must move first: the
    /// directory, or a directory between the two; `wanted` if it is one of them.
    mutating func obstacle(
        from directory: Identifier, to id: Identifier, _ wanted: Identifier
    ) throws(Failure) -> Identifier {
        var (next, seen) = (directory, Set<Identifier>([.root, id]))
        var first: Identifier?
        while seen.insert(next).inserted {
            if next == wanted { return next }
            if first == nil, try mirror(next)?.remote != nil { first = next }
            guard let local = try local(next) else { break }
            next = local.parent
        }
        return first ?? directory
    }

    /// Whether, in the tree, the item is that other item or inside it.
    mutating func isWithin(
        _ id: Identifier, _ ancestor: Identifier
    ) throws(Failure) -> Bool {
        var (next, seen) = (id, Set<Identifier>([.root]))
        while seen.insert(next).inserted {
            if next == ancestor { return true }
            guard let local = try local(next) else { return false }
            next = local.parent
        }
        return false
    }

    /// Whether the item that has the name waits, directly or indirectly, for this item's place.
    /// Then one of them has to step aside.
    mutating func isSwap(
        _ id: Identifier, _ holder: Identifier
    ) throws(Failure) -> Bool {
        var next = holder
        for _ in 0..<64 {
            guard let state = try mirror(next)?.remote, state.life.isAlive,
                let wanted = try localChild(state.name, in: state.placement.parent)
            else { return false }
            if wanted == id { return true }
            if wanted == next { return false }
            next = wanted
        }
        return false
    }

    /// Whether the hub has an item in a directory, as far as this device knows from the hub's last
    /// states and from what it has sent.
    mutating func isAtHub(
        _ id: Identifier, within directory: Identifier
    ) throws(Failure) -> Bool {
        var (open, visited) = ([id], Set<Identifier>([.root]))
        while let next = open.popLast() {
            guard visited.insert(next).inserted, let mirror = try mirror(next) else {
                continue
            }
            var parents: [Identifier] = []
            if let remote = mirror.remote {
                parents.append(remote.placement.parent)
                if let other = remote.unified { parents.append(other) }
            }
            var isTold = mirror.remote == nil
            if !isTold { isTold = try isInOutbox(next) }
            if isTold, let base = mirror.base { parents.append(base.image.parent) }
            if parents.contains(directory) { return true }
            open += parents
        }
        return false
    }
}
