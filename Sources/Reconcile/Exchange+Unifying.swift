import Model

// The hub made one item of two.
extension Exchange {
    /// Where both are in the tree, the one goes as if it were deleted; what is in it has moved.
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
        mirror.remote = try trashed(id, local, unifiedInto: target, session, &table)
        mirror.since = session.cursor
        mirror.state = .due
        try table.setMirror(id, mirror)
        // Until it is gone: for `twin`.
        try table.addUnsent(id)
    }

    /// What the tree has under one id is the other item, which the tree does not have any more.
    func become<T: DeviceTable>(
        _ target: Identifier, _ id: Identifier, _ table: inout T
    ) throws(T.Failure) {
        try table.reidentify(id, as: target)
        let mine = try table.mirror(id)?.base
        try table.setMirror(id, nil)
        // What was told of it under the old id is compared with what became of the other one.
        try table.addUnsent(target)
        if var mirror = try table.mirror(target) {
            // What it shows was made from what was told of it, not from what the other one had.
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

    /// What in the tree is that deleted item by now, and was not deleted: what was told of it is in
    /// the other one at the hub, and would be deleted with it as this device's own.
    func twin<T: DeviceTable>(of id: Identifier, _ table: inout T) throws(T.Failure)
        -> Identifier?
    {
        guard let mirror = try table.mirror(id), try table.firstDue() != nil else { return nil }
        // A document's contents come with what the hub says of it.
        guard mirror.base?.image.kind == .directory || mirror.remote != nil else { return nil }
        for other in try table.unsentAlive(limit: 4096) {
            if try table.mirror(other)?.remote?.unified == id { return other }
        }
        return nil
    }

    private func trashed<T: DeviceTable>(
        _ id: Identifier, _ local: Image, unifiedInto target: Identifier, _ session: Session,
        _ table: inout T
    ) throws(T.Failure) -> ItemState {
        let nobody = OperationID.unknown
        let batch = OperationID(device: target, epoch: 0, number: 0)
        return ItemState(
            id: id, kind: local.kind, target: local.target,
            placement: try table.placement(local.name, in: local.parent), placedBy: nobody,
            placedAt: Moment(time: 0, device: .root), placedSequence: 0,
            life: .trashed(batch: batch, sequence: session.cursor), sequence: session.cursor)
    }
}

extension ItemState {
    /// What the hub made it one with, where this device says so: no device has an epoch 0.
    var unified: Identifier? {
        guard case .trashed(let batch, _) = life, batch.epoch == 0 else { return nil }
        return batch.device
    }
}
