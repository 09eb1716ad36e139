import Model

extension Decision {
    // MARK: Delete

    /// Decides a deletion: rows 4 to 9.
    func delete<T: ItemTable>(_ id: Identifier, _ current: Identifier?, in table: inout T)
        throws(T.Failure) -> Verdict
    {
        guard id != .root, let item = try table.item(id) else { return .overruled(.unknownItem) }
        guard item.life.isAlive else { return .overruled(.alreadyGone) }
        guard saw(item.placedSequence, by: item.placedBy), sawContents(of: item, current) else {
            try table.resendAll(item, sequence)
            return .overruled(.unseenChange)
        }
        var plan = DeletionPlan()
        try collectDeletions(item, in: &table, &plan)
        for var item in plan.items {
            item.life = .trashed(batch: operation.id, sequence: sequence)
            item.sequence = sequence
            try table.put(item)
        }
        if plan.items.count == plan.visited.count { return .applied }
        // The device believes that everything is deleted, so it must receive again what is left.
        try table.resendAll(item, sequence)
        return .overruled(plan.items.isEmpty ? .unseenChange : .partly)
    }

    /// Whether the device had seen the contents, conflict versions included: a device can only
    /// delete what it has seen.
    fileprivate func sawContents(of item: ItemState, _ named: Identifier?) -> Bool {
        if let current = item.current, !saw(current.sequence, by: current.recordedBy) {
            guard let named, current.isNamed(named) else { return false }
        }
        return item.conflicts.allSatisfy { saw($0.sequence, by: $0.recordedBy) }
    }

    private struct DeletionPlan {
        var items: [ItemState] = []
        var visited: Set<Identifier> = []
    }

    /// Collects the items that the deletion removes. An item that was created or moved there unseen
    /// keeps everything that is in it. A document with unseen contents keeps the directories above
    /// it.
    private func collectDeletions<T: ItemTable>(
        _ item: ItemState, in table: inout T, _ plan: inout DeletionPlan
    )
        throws(T.Failure)
    {
        // This uses its own stack instead of recursion, because a tree can be deeper than the
        // thread's stack allows.
        var open: [(item: ItemState, children: [Identifier], isKept: Bool)] = []
        var isKept = false
        var entering: ItemState? = item
        while true {
            if let item = entering.take() {
                guard plan.visited.insert(item.id).inserted else { continue }
                let isSeen =
                    saw(item.placedSequence, by: item.placedBy) && sawContents(of: item, nil)
                if !open.isEmpty, !isSeen {
                    isKept = true
                } else {
                    let children =
                        item.kind == .directory ? try table.children(of: item.id) : []
                    open.append((item, children.reversed(), false))
                    continue
                }
            }
            guard let last = open.indices.last else { return }
            if isKept { open[last].isKept = true }
            isKept = false
            if let child = open[last].children.popLast() {
                if let next = try table.item(child), next.life.isAlive { entering = next }
                continue
            }
            let done = open.removeLast()
            isKept = done.isKept
            if !isKept { plan.items.append(done.item) }
        }
    }

    // MARK: Restore

    /// Decides a restore: row 28, and row 27 against a deletion. The restore counts as a new
    /// placement, so a deletion that has not seen it is overruled.
    func restore<T: ItemTable>(_ id: Identifier, in table: inout T) throws(T.Failure) -> Verdict {
        guard let item = try table.item(id) else { return .overruled(.unknownItem) }
        guard !item.life.isAlive else { return .applied }
        try revive(item, in: &table)
        guard var restored = try table.item(id) else { return .overruled(.unknownItem) }
        var moment = operation.moment
        moment.raise(above: restored.placedAt)
        (restored.placedBy, restored.placedAt) = (operation.id, moment)
        restored.placedSequence = sequence
        try table.put(restored)
        return restored.isBounced ? .bounced : .applied
    }

    /// Takes an item out of the trash, together with everything that was deleted in the same batch.
    func revive<T: ItemTable>(_ item: ItemState, in table: inout T) throws(T.Failure) {
        guard case .trashed(let batch, _) = item.life else { return }
        try reviveChain(item.id, in: &table)
        try reviveContents(of: item.id, batch, in: &table)
    }

    /// Takes out of the trash what is in a directory and was deleted in the same batch.
    func reviveContents<T: ItemTable>(
        of id: Identifier, _ batch: OperationID, in table: inout T
    ) throws(T.Failure) {
        var open = [id]
        var seen: Set<Identifier> = [id]
        while let directory = open.popLast() {
            if try table.revivesLater(directory, batch) { continue }
            for child in try table.children(of: directory) where seen.insert(child).inserted {
                guard let item = try table.item(child) else { continue }
                if case .trashed(let other, _) = item.life {
                    guard other == batch, try table.alias(of: child) == nil else { continue }
                    try reviveOne(item, in: &table)
                }
                if item.kind == .directory { open.append(child) }
            }
        }
    }

    // MARK: Ancestors

    /// The directory that the id stands for, made alive, but without its former contents if it was
    /// in the trash. The root if there is no such directory.
    func aliveDirectory<T: ItemTable>(_ id: Identifier, in table: inout T) throws(T.Failure)
        -> Identifier
    {
        let id = try table.canonical(id)
        guard try table.item(id)?.kind == .directory else { return .root }
        // On the way, a directory may have been merged into a live one; then that one is the
        // result.
        try reviveChain(id, isSkeleton: true, in: &table)
        return try table.canonical(id)
    }

    /// Takes an item and the directories above it out of the trash, beginning at the top.
    func reviveChain<T: ItemTable>(
        _ id: Identifier, isSkeleton: Bool = false, in table: inout T
    ) throws(T.Failure) {
        var chain: [Identifier] = []
        var seen: Set<Identifier> = [.root]
        var next = id
        while seen.insert(next).inserted, let item = try table.item(next) {
            chain.append(next)
            next = item.placement.parent
        }
        for link in chain.reversed() {
            guard let item = try table.item(link), !item.life.isAlive else { continue }
            if link != id || isSkeleton, try merge(item, in: &table) { continue }
            try reviveOne(item, in: &table)
        }
    }

    func reviveOne<T: ItemTable>(_ item: ItemState, in table: inout T)
        throws(T.Failure)
    {
        var item = item
        item.life = .alive
        item.sequence = sequence
        // Its directory may have been removed or may never have existed.
        if try table.item(item.placement.parent)?.kind != .directory {
            item.placement.parent = .root
        }
        try assignName(of: &item, in: &table)
        try table.put(item)
    }

    /// A directory that comes back only because of its contents is merged into the directory that
    /// has its name now.
    ///
    /// - Returns: Whether there is such a directory.
    private func merge<T: ItemTable>(_ item: ItemState, in table: inout T) throws(T.Failure)
        -> Bool
    {
        guard item.kind == .directory,
            let holder = try table.holder(of: item.nameKey, in: item.placement.parent),
            holder != item.id, let other = try table.item(holder), other.kind == .directory
        else { return false }
        for child in try table.children(of: item.id) {
            guard var moved = try table.item(child) else { continue }
            moved.placement.parent = holder
            moved.sequence = sequence
            try table.put(moved)
        }
        try table.setAlias(of: item.id, to: holder)
        return true
    }

    // MARK: Names

    /// Gives the item its name, or its spare name if another item has the name. The item keeps the
    /// spare name until it is moved.
    func assignName<T: ItemTable>(of item: inout ItemState, in table: inout T) throws(T.Failure) {
        if try isFree(item.nameKey, item, in: &table) { return }
        item.isBounced = true
        if try isFree(item.nameKey, item, in: &table) { return }
        item.placement.spare = item.placement.spare.withMark(of: item.id)
        item.placement.spareKey = NameKey(item.id.bytes)
        // Only a device that invents keys can have used this key.
        while try !isFree(item.nameKey, item, in: &table) {
            item.placement.spareKey.bytes.append(0)
        }
    }

    private func isFree<T: ItemTable>(_ key: NameKey, _ item: ItemState, in table: inout T)
        throws(T.Failure) -> Bool
    {
        let holder = try table.holder(of: key, in: item.placement.parent)
        return holder == nil || holder == item.id
    }
}

extension Operation {
    /// Whether the device of a deletion knew where the item is and what it contains.
    ///
    /// - Parameter current: The revision that the deletion names.
    package func hasSeen(_ item: ItemState, current: Identifier?) -> Bool {
        let decision = Decision(operation: self, sequence: 0)
        return decision.saw(item.placedSequence, by: item.placedBy)
            && decision.sawContents(of: item, current)
    }
}

extension String {
    /// Changes `Report (Laptop 2026-11-21).txt` to `Report (Laptop 2026-11-21) 0a1b2c3d.txt`,
    /// within the 255 bytes that a name may have.
    func withMark(of id: Identifier) -> String {
        let ending = Name(self).fileExtension
        var stem = self
        var tail = " " + id.description.prefix(8)
        if !ending.isEmpty, ending.count < 32 {
            stem = String(decoding: utf8.dropLast(ending.count + 1), as: UTF8.self)
            tail += "." + String(decoding: ending, as: UTF8.self)
        }
        while stem.utf8.count + tail.utf8.count > 255 { stem.removeLast() }
        return stem + tail
    }
}
