import Model

extension SyncPlanner {
    /// Handles an item that was deleted together with its directory, when the directory's deletion
    /// has been sent or is about to be sent: that one operation also deletes the item.
    ///
    /// - Returns: Whether this is such an item.
    package func isCovered<T: DeviceTable>(_ draft: ItemDraft, in table: inout T) throws(T.Failure)
        -> Bool
    {
        guard draft.isDeletion, var mirror = try table.mirror(draft.item), var base = mirror.base,
            let parent = try table.mirror(base.image.parent)?.base, !parent.image.isAlive,
            // If the directory has been restored since, its deletion does not include this item.
            try table.local(base.image.parent)?.isAlive != true
        else { return false }
        var isOne = try table.firstDue() == nil
        if !isOne, !mirror.isMovedAway { isOne = try table.isKept(base) }
        guard isOne else { return false }
        base.cover()
        mirror.base = base
        try table.setMirror(draft.item, mirror)
        try table.removeUnsent(draft.item)
        return true
    }

}

extension DeviceTable {
    /// Whether the hub has moved the item's directory, or a deleted directory above it. Then the
    /// hub will overrule that deletion, and a separate deletion of this item would remove it from
    /// the directory (row 9). This does not hold for an item that this device received later: it
    /// exists because the deletion has been overruled.
    fileprivate mutating func isKept(_ item: Agreement)
        throws(Failure) -> Bool
    {
        var (next, seen) = (item.image.parent, Set<Identifier>([.root]))
        while seen.insert(next).inserted, let mirror = try mirror(next),
            let base = mirror.base, !base.image.isAlive
        {
            if mirror.isMovedAway { return item.sequence < mirror.since }
            next = base.image.parent
        }
        return false
    }
}

extension Agreement {
    /// Deleted with its directory, without an operation of its own.
    private var isCovered: Bool { !image.isAlive && placedAt == nil }

    fileprivate mutating func cover() { (image.isAlive, placedAt) = (false, nil) }

    /// - Returns: Whether the item was covered.
    fileprivate mutating func uncover(_ placedAt: Moment) -> Bool {
        guard isCovered else { return false }
        (image.isAlive, self.placedAt) = (true, placedAt)
        return true
    }
}

extension Mirror {
    /// Whether another device has moved the item, and the tree does not show that yet.
    fileprivate var isMovedAway: Bool {
        guard let remote, remote.life.isAlive, let base else { return false }
        return !base.image.isAt(Image(remote))
    }

    /// The deletion of a directory also deleted what was in it. If another device has moved a
    /// directory out of it, that directory has kept its contents, but the hub does not send them
    /// again. So this device sends the directory's own deletion, and the hub then sends what is
    /// left.
    ///
    /// - Returns: Whether this is such a directory.
    mutating func uncover(_ session: Session, _ local: Image?) -> Bool {
        guard let remote, remote.life.isAlive, remote.kind == .directory, local?.isAlive == false,
            let base, base.isOf(session), !base.image.isAt(Image(remote))
        else { return false }
        return self.base?.uncover(remote.placedAt) ?? false
    }
}
