import Model

@testable import Reconcile

extension SyncPlanner {
    /// Sends a move of the item to a temporary name that no other item has.
    ///
    /// - Returns: An empty list when this is not possible now.
    func stepAside<T: DeviceTable>(_ id: Identifier, in table: inout T) throws(T.Failure)
        -> [Operation]
    {
        var session = try table.session()
        let draft = try comparison.draft(id, in: &table)
        guard !session.isBehind, !session.isFresh, draft.waitsFor == nil, !draft.isWaiting,
            try table.mirror(id)?.state != .underway, let placement = draft.placement,
            try comparison.obstacles(to: placement, of: id, &table).between.isEmpty,
            let aside = try comparison.aside(draft, &table)
        else { return [] }
        return try put(aside, &session, &table)
    }
}
