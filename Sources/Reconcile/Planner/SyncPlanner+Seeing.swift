import Model

extension SyncPlanner {
    /// The most items not yet shown that are examined one by one for the deletion of a directory.
    private static let looks = 1024

    /// Up to which sequence number the tree shows all changes of the hub that an operation
    /// concerns: those of its item and, if it deletes a directory, those of the items that the hub
    /// has in it. Changes of other items do not count, because they may be stuck for ever.
    func seen<T: DeviceTable>(
        by draft: ItemDraft, _ mirror: Mirror, _ session: Session, _ table: inout T
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
                try table.isAtHub(id, within: draft.item)
            else { continue }
            seen = max(other.since, 1) - 1
        }
        return seen
    }

}
