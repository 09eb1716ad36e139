import Model

extension SyncPlanner {
    /// The most items not yet shown that are examined one by one for the deletion of a directory.
    private static let looks = 1024

    /// Up to which sequence number the tree shows all changes of the hub that an operation
    /// concerns: those of its item and, if it deletes a directory, those of the items that the hub
    /// has in it. Changes of other items do not count, because they may be stuck for ever.
    func seen<T: DeviceTable>(
        by draft: Draft, _ mirror: Mirror, _ session: Session, _ table: inout T
    ) throws(T.Failure) -> UInt64 {
        var seen = session.cursor
        if bugs.contains(.seesNothingBesideWhatIsStuck) {
            return try min(seen, table.firstDue().map { max($0, 1) - 1 } ?? .max)
        }
        if mirror.remote != nil { seen = min(seen, max(mirror.since, 1) - 1) }
        guard draft.isDeletion, mirror.base?.image.kind == .directory,
            let first = try table.firstDue(), first <= seen
        else { return seen }
        let open = try table.notShown(limit: SyncPlanner.looks)
        // There are too many to examine, so all of them are treated as being in the directory.
        if open.count == SyncPlanner.looks { return min(seen, max(first, 1) - 1) }
        for id in open where id != draft.item {
            guard let other = try table.mirror(id), other.since <= seen,
                try isAtHub(id, within: draft.item, &table)
            else { continue }
            seen = max(other.since, 1) - 1
        }
        return seen
    }

    /// Whether the hub has an item in a directory, as far as this device knows from the hub's last
    /// states and from what it has sent.
    private func isAtHub<T: DeviceTable>(
        _ id: Identifier, within directory: Identifier, _ table: inout T
    ) throws(T.Failure) -> Bool {
        var (open, visited) = ([id], Set<Identifier>([.root]))
        while let next = open.popLast() {
            guard visited.insert(next).inserted, let mirror = try table.mirror(next) else {
                continue
            }
            var parents: [Identifier] = []
            if let remote = mirror.remote {
                parents.append(remote.placement.parent)
                if let other = remote.unified { parents.append(other) }
            }
            var isTold = mirror.remote == nil
            if !isTold { isTold = try table.isInOutbox(next) }
            if isTold, let base = mirror.base { parents.append(base.image.parent) }
            if parents.contains(directory) { return true }
            open += parents
        }
        return false
    }
}
