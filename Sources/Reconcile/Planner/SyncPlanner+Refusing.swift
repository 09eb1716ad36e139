import Model

extension SyncPlanner {
    /// The hub has refused an operation of an item, whose id on this device is `id`. The agreement
    /// from before the operation is restored. The item stays unsent, so nothing that comes from the
    /// hub replaces the local state.
    ///
    /// The operation stays in the outbox until it is acknowledged. After a crash it is sent again,
    /// and the hub gives the same answer.
    package func refused<T: DeviceTable>(
        _ operation: Operation, of id: Identifier, in table: inout T
    ) throws(T.Failure) {
        var mirror = try table.mirror(id) ?? Mirror()
        if bugs.contains(.forgetsWhatWasAgreedOn) {
            let session = try table.session()
            mirror.base = mirror.remote.map { Agreement($0, session) }
            mirror.remote = nil
            mirror.state = .refused
            return try table.setMirror(id, mirror)
        }
        if let base = mirror.base { mirror.base = try table.without(operation, base) }
        if mirror.remote == nil { mirror.state = .refused }
        try table.setMirror(id, mirror)
        let times = ChangeTimes(of: operation)
        try table.addUnsent(
            id, changed: bugs.contains(.datesByResending) ? ChangeTimes() : times)
    }
}

extension ChangeTimes {
    /// A change that is sent again is as old as it was.
    package init(of operation: Operation) {
        let time = operation.moment.time
        switch operation.change {
        case .create: self.init(placed: time, attributes: time)
        case .move: self.init(placed: time)
        case .attribute: self.init(attributes: time)
        case .edit, .resolve, .delete, .restore: self.init()
        }
    }
}

extension DeviceTable {
    fileprivate mutating func without(
        _ operation: Operation, _ base: Agreement
    ) throws(Failure) -> Agreement? {
        var base = base
        switch operation.change {
        case .create: return nil
        case .edit(let revision): try removeRevision(revision, &base.image)
        case .resolve(let settled, let revision):
            if let revision { try removeRevision(revision, &base.image) }
            base.image.conflicts = Set(base.image.conflicts + settled)
                .subtracting([base.image.revision].compactMap(\.self))
                .sorted { ($0.high, $0.low) < ($1.high, $1.low) }
        case .move(_, let by):
            // An empty name differs from the one in the tree, so the item counts as moved.
            base.image.name = ""
            (base.placedBy, base.placedAt) = (by, nil)
        case .delete: base.image.isAlive = true
        case .restore: base.image.isAlive = false
        case .attribute(let name, _):
            (base.image.attributes[name], base.attributedAt[name]) = (nil, nil)
        }
        return base
    }

    fileprivate mutating func removeRevision(
        _ revision: Revision, _ image: inout Image
    ) throws(Failure) {
        image.conflicts.removeAll { $0 == revision.id }
        guard image.revision == revision.id else { return }
        image.revision = revision.parents.first
        image.content = try image.revision.flatMapped { (id) throws(Failure) in
            try self.revision(id)?.content
        }
    }
}
