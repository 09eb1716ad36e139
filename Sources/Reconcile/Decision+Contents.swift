import Model

extension Revision {
    /// Equal contents are one revision: this one stands for the other too, and is as new as it.
    mutating func stand(for other: Revision) {
        for id in [other.id] + other.equals where !isNamed(id) { equals.append(id) }
        if moment < other.moment { moment = other.moment }
    }
}

extension Decision {
    // MARK: Edit

    /// Rows 1 to 4 and 22.
    func edit<T: ItemTable>(_ id: Identifier, _ revision: Revision, in table: inout T)
        throws(T.Failure) -> Verdict
    {
        guard let item = try table.item(id), item.kind.isDocument else {
            return .overruled(.unknownItem)
        }
        if try isKnown(revision.id, of: item, in: &table) { return .applied }
        let wasBounced = item.isBounced && item.life.isAlive
        try reviveChain(id, in: &table)
        guard var revived = try table.item(id) else { return .overruled(.unknownItem) }
        let isConflict = try insert(revision, into: &revived, in: &table)
        try table.put(revived)
        if isConflict { return .conflict }
        return revived.isBounced && !wasBounced ? .bounced : .applied
    }

    // MARK: Resolve

    /// Rows 26 and 27. With what is current now, it is no reason to take an item out of the trash.
    func resolve<T: ItemTable>(
        _ id: Identifier, _ settled: [Identifier], _ revision: Revision?, in table: inout T
    ) throws(T.Failure) -> Verdict {
        guard var item = try table.item(id), item.kind.isDocument else {
            return .overruled(.unknownItem)
        }
        if let revision, try isKnown(revision.id, of: item, in: &table) { return .applied }
        if revision != nil {
            try reviveChain(id, in: &table)
            item = try table.item(id) ?? item
        }
        var isConflict = false
        if let revision {
            isConflict = try insert(revision, settling: settled, into: &item, in: &table)
        } else {
            // Something stays in any case: settling is no deletion.
            var left: [Revision] = []
            for one in item.live {
                var stays = !settled.contains(where: one.isNamed)
                if !stays { stays = try standsForMore(one, than: settled, in: &table) }
                if stays { left.append(one) }
            }
            item.live = left.isEmpty ? item.live.prefix(1) + [] : left
            item.sequence = sequence
        }
        try table.put(item)
        return isConflict ? .conflict : .applied
    }

    /// Whether it came to stand for another one as well, unseen: that one was not settled.
    private func standsForMore<T: ItemTable>(
        _ one: Revision, than settled: [Identifier], in table: inout T
    ) throws(T.Failure) -> Bool {
        for id in one.equals where !settled.contains(id) {
            if let twin = try table.revision(id), twin.sequence > operation.base { return true }
        }
        return false
    }

    // MARK: Revisions

    /// Whether it has come before: of a device that has forgotten sending it.
    func isKnown<T: ItemTable>(
        _ id: Identifier, of item: ItemState, in table: inout T
    ) throws(T.Failure) -> Bool {
        if item.live.contains(where: { $0.isNamed(id) }) { return true }
        return try table.revision(id) != nil
    }

    /// As it goes into the journal: not later than it came, and newer than what it is based on.
    func received<T: ItemTable>(
        _ revision: Revision, _ live: [Revision] = [], in table: inout T
    ) throws(T.Failure) -> Revision {
        var revision = revision
        revision.sequence = sequence
        revision.recordedBy = operation.id
        revision.equals = []
        revision.moment.device = operation.id.device
        revision.moment.time = min(revision.moment.time, operation.moment.time)
        for parent in revision.parents {
            if let known = live.first(where: { $0.isNamed(parent) }) {
                revision.moment.raise(above: known.moment)
            } else if let known = try table.revision(parent) {
                revision.moment.raise(above: known.moment)
            }
        }
        return revision
    }

    /// - Returns: Whether there are two now where there was one.
    private func insert<T: ItemTable>(
        _ revision: Revision, settling settled: [Identifier] = [], into item: inout ItemState,
        in table: inout T
    ) throws(T.Failure) -> Bool {
        let new = try received(revision, item.live, in: &table)
        try table.record(new, of: item.id)
        let count = item.live.count
        let ended = settled + revision.parents
        var live = item.live.filter { one in !ended.contains(where: one.isNamed) }
        if let same = live.firstIndex(where: { $0.content == new.content }) {
            live[same].stand(for: new)
        } else {
            live.append(new)
        }
        item.live = live
        item.sequence = sequence
        return live.count > max(count, 1)
    }
}

extension ItemState {
    /// Whether that is one of them.
    func isLive(_ revision: Identifier) -> Bool { live.contains { $0.isNamed(revision) } }

    /// All that nobody has superseded: the newest is the current one.
    var live: [Revision] {
        get { (current.map { [$0] } ?? []) + conflicts }
        set {
            var others = newValue.sorted { $0.sequence < $1.sequence }
            guard let newest = others.indices.max(by: { others[$0].moment < others[$1].moment })
            else {
                (current, conflicts) = (nil, [])
                return
            }
            current = others.remove(at: newest)
            conflicts = others
        }
    }
}
