import Model

extension Exchange {
    /// How many items that are not shown are looked at one by one for a directory's deletion.
    private static let looks = 1024

    /// How far the hub's journal is shown here in all that an operation can touch: its item, and
    /// where that is a directory that goes, what the hub has in it. What cannot be shown elsewhere,
    /// perhaps for ever, says nothing about these.
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
        let open = try table.notShown(limit: Exchange.looks)
        // Too many to look at each: as if all of them were in it.
        if open.count == Exchange.looks { return min(seen, max(first, 1) - 1) }
        for id in open where id != draft.item {
            guard let other = try table.mirror(id), other.since <= seen,
                try isAtHub(id, within: draft.item, &table)
            else { continue }
            seen = max(other.since, 1) - 1
        }
        return seen
    }

    /// Whether the hub has an item in a directory, as far as is known here: by what it said last,
    /// and by what it was told.
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
