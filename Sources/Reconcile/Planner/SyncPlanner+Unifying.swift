import Model

// The hub has made one item of two, for example of two directories with the same name.
extension SyncPlanner {
    /// If the tree has both items, the unified one is handled as if the hub had deleted it. Its
    /// contents have moved to the other one.
    func unify<T: DeviceTable>(
        _ id: Identifier, _ target: Identifier, _ session: Session, _ table: inout T
    ) throws(T.Failure) {
        guard let local = try table.local(id), local.isAlive else {
            return try table.setMirror(id, nil)
        }
        guard try table.local(target)?.isAlive == true else {
            return try become(target, id, &table)
        }
        var mirror = try table.mirror(id) ?? Mirror()
        mirror.remote = try table.trashed(id, local, unifiedInto: target, session)
        mirror.since = session.cursor
        mirror.state = .due
        try table.setMirror(id, mirror)
        // The item stays unsent until it is gone, so that `twin` finds it.
        try table.addUnsent(id)
    }

    /// Gives the document that the hub's item is here under a wrong id the right one. Returns nil
    /// if there is no such document.
    func recognize<T: DeviceTable>(_ state: ItemState, _ table: inout T) throws(T.Failure)
        -> Mirror?
    {
        guard let id = try table.document(mistakenFor: state) else { return nil }
        // What the hub has under that id is another item, which the tree does not have.
        let other = try table.mirror(id)
        try become(state.id, id, &table)
        if let remote = other?.remote {
            try table.setMirror(
                id, Mirror(remote: remote, state: .due, since: other?.since ?? 0))
        }
        return try table.mirror(state.id)
    }

    /// Gives the tree's item the id of the item that it was unified into. The tree has no other
    /// item with that id.
    func become<T: DeviceTable>(
        _ target: Identifier, _ id: Identifier, _ table: inout T
    ) throws(T.Failure) {
        try table.reidentify(id, as: target)
        let mine = try table.mirror(id)?.base
        try table.setMirror(id, nil)
        // What was sent under the old id is compared with the present state of the other item.
        try table.addUnsent(target)
        if var mirror = try table.mirror(target) {
            // The tree's contents derive from what this device sent, not from what the other item
            // had.
            if let mine, try mine.isOf(table.session()) {
                mirror.base?.image.revision = mine.image.revision
                mirror.base?.image.content = mine.image.content
            }
            mirror.base = mirror.base ?? mine
            mirror.state = mirror.remote == nil ? .settled : .due
            try table.setMirror(target, mirror)
        } else {
            try table.setMirror(target, Mirror(base: mine))
        }
    }

    /// The alive item of the tree that is about to become the deleted item. At the hub it is
    /// already a part of that item, so the deletion would also delete it, as a change of this
    /// device's own.
    func twin<T: DeviceTable>(of id: Identifier, _ table: inout T) throws(T.Failure)
        -> Identifier?
    {
        guard let mirror = try table.mirror(id), try table.firstDue() != nil else { return nil }
        // For a document, the unification arrives together with its contents.
        guard mirror.base?.image.kind == .directory || mirror.remote != nil else { return nil }
        for other in try table.unsentAlive(limit: 4096) {
            if try table.mirror(other)?.remote?.unified == id { return other }
        }
        return nil
    }

}

extension DeviceTable {
    /// The state of an item that the hub has unified into another one.
    mutating func trashed(
        _ id: Identifier, _ local: Image, unifiedInto target: Identifier, _ session: Session
    ) throws(Failure) -> ItemState {
        let nobody = OperationID.unknown
        let batch = OperationID(device: target, epoch: 0, number: 0)
        return ItemState(
            id: id, kind: local.kind, target: local.target,
            placement: try self.placement(local.name, in: local.parent), placedBy: nobody,
            placedAt: Moment(time: 0, device: .root), placedSequence: 0,
            life: .trashed(batch: batch, sequence: session.cursor), sequence: session.cursor)
    }

    /// The document that the tree has under another id than the hub.
    fileprivate mutating func document(mistakenFor state: ItemState) throws(Failure)
        -> Identifier?
    {
        guard state.kind.isDocument, try mirror(state.id)?.base == nil else { return nil }
        if let named = try document(named: state) { return named }
        return try document(withVersionOf: state)
    }

    /// A hub told a wrong id before. Names are unique at the hub, and a version belongs to one
    /// item; so the document that has the name, and a version of the hub's item, is that item.
    private mutating func document(named state: ItemState) throws(Failure) -> Identifier? {
        guard let id = try localChild(state.name, in: state.placement.parent), id != state.id,
            let mirror = try mirror(id), mirror.base != nil, mirror.remote == nil,
            let local = try local(id), local.kind == state.kind, let current = local.revision,
            try !isInOutbox(id)
        else { return nil }
        for version in state.live.flatMap({ [$0.id] + $0.parents }) {
            if try descends(current, from: version, of: id) { return id }
        }
        return nil
    }

    /// This device has not agreed with the hub on the document under the id that it has here, and
    /// the hub has a version of it in another item. Either the store was copied, and the other copy
    /// has sent the document under an id that it had got from the hub meanwhile. Or the document
    /// got its present id at another hub, after this hub had been told of it under the other one.
    private mutating func document(withVersionOf state: ItemState) throws(Failure) -> Identifier? {
        for version in state.live {
            guard let id = try document(with: version.id), id != state.id,
                let local = try local(id), local.isAlive, local.kind == state.kind,
                try !isInOutbox(id)
            else { continue }
            let mirror = try mirror(id)
            if mirror?.state == .underway { continue }
            if try mirror?.base?.isOf(session()) == true { continue }
            if let remote = mirror?.remote, try isDerived(local, id, from: remote) { continue }
            return id
        }
        return nil
    }

    /// Whether the document is derived from a version that the hub's item has.
    private mutating func isDerived(
        _ local: Image, _ id: Identifier, from remote: ItemState
    ) throws(Failure) -> Bool {
        guard let current = local.revision else { return false }
        for version in remote.live
        where try descends(current, from: version.id, of: id) { return true }
        return false
    }
}

extension ItemState {
    /// The item that the hub has unified this one into. The mirror stores it as a batch with epoch
    /// 0, which no device has.
    var unified: Identifier? {
        guard case .trashed(let batch, _) = life, batch.epoch == 0 else { return nil }
        return batch.device
    }
}
