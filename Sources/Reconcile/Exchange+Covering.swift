import Model

extension Exchange {
    /// An item that is deleted together with its directory, whose deletion the hub has been told or
    /// is about to be: one operation is enough for both.
    ///
    /// - Returns: Whether it was that.
    package func isCovered<T: DeviceTable>(_ draft: Draft, in table: inout T) throws(T.Failure)
        -> Bool
    {
        guard draft.isDeletion, var mirror = try table.mirror(draft.item), var base = mirror.base,
            let parent = try table.mirror(base.image.parent)?.base, !parent.image.isAlive,
            // Taken out of the trash since, it does not take this one along.
            try table.local(base.image.parent)?.isAlive != true
        else { return false }
        var isOne = try table.firstDue() == nil
        if !isOne, !mirror.isMovedAway { isOne = try isKept(base, &table) }
        guard isOne else { return false }
        base.cover()
        mirror.base = base
        try table.setMirror(draft.item, mirror)
        try table.removeUnsent(draft.item)
        return true
    }

    /// Whether the hub has moved the item's directory, or one around it that is deleted too: its
    /// deletion is going to be overruled, and one of its own would take this item out of it (row
    /// 9). Not so what was learnt after that: it is there because the deletion has been overruled.
    private func isKept<T: DeviceTable>(_ item: Agreement, _ table: inout T)
        throws(T.Failure) -> Bool
    {
        var (next, seen) = (item.image.parent, Set<Identifier>([.root]))
        while seen.insert(next).inserted, let mirror = try table.mirror(next),
            let base = mirror.base, !base.image.isAlive
        {
            if mirror.isMovedAway { return item.sequence < mirror.since }
            next = base.image.parent
        }
        return false
    }
}

extension Agreement {
    /// Deleted with its directory, and not told for itself.
    private var isCovered: Bool { !image.isAlive && placedAt == nil }

    fileprivate mutating func cover() { (image.isAlive, placedAt) = (false, nil) }

    /// - Returns: Whether it was covered.
    fileprivate mutating func uncover(_ placedAt: Moment) -> Bool {
        guard isCovered else { return false }
        (image.isAlive, self.placedAt) = (true, placedAt)
        return true
    }
}

extension Mirror {
    /// Somebody else has moved it, and the tree has not shown that.
    fileprivate var isMovedAway: Bool {
        guard let remote, remote.life.isAlive, let base else { return false }
        return !base.image.isAt(Image(remote))
    }

    /// A directory that somebody moved out of the deleted one has kept what is in it, of which the
    /// hub says nothing: its own deletion is told, and the hub then says what is left.
    ///
    /// - Returns: Whether it is that.
    mutating func uncover(_ session: Session, _ local: Image?) -> Bool {
        guard let remote, remote.life.isAlive, remote.kind == .directory, local?.isAlive == false,
            let base, base.isOf(session), !base.image.isAt(Image(remote))
        else { return false }
        return self.base?.uncover(remote.placedAt) ?? false
    }
}
