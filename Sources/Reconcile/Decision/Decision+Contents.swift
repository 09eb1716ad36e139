import Model

extension Revision {
    /// Makes this revision stand for another one with equal contents, and at least as new as that
    /// one.
    mutating func stand(for other: Revision) {
        for id in [other.id] + other.equals where !isNamed(id) { equals.append(id) }
        if moment < other.moment { moment = other.moment }
    }
}

extension Decision {
    // MARK: Edit

    /// Decides an edit: rows 1 to 4 and 22.
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

    /// Decides a resolution: rows 26, 27 and 32. A resolution without new contents does not take an
    /// item out of the trash.
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
            // At least one version always stays, because resolving a conflict never deletes a
            // document. What is fenced off does not replace the current version by another one.
            var left: [Revision] = []
            for one in item.live {
                var stays = !settled.contains(where: one.isNamed)
                stays = stays || isFenced && one.id == item.current?.id
                if !stays { stays = try standsForMore(one, than: settled, in: &table) }
                if stays { left.append(one) }
            }
            item.live = left.isEmpty ? item.live.prefix(1) + [] : left
            item.sequence = sequence
        }
        try table.put(item)
        return isConflict ? .conflict : .applied
    }

    /// Whether the revision also stands for an equal one that the device had not seen. That one was
    /// not settled, so this one must stay.
    private func standsForMore<T: ItemTable>(
        _ one: Revision, than settled: [Identifier], in table: inout T
    ) throws(T.Failure) -> Bool {
        for id in one.equals where !settled.contains(id) {
            if let twin = try table.revision(id), twin.sequence > operation.base { return true }
        }
        return false
    }

    // MARK: Revisions

    /// Whether the revision was received before, from a device that has forgotten that it sent it.
    func isKnown<T: ItemTable>(
        _ id: Identifier, of item: ItemState, in table: inout T
    ) throws(T.Failure) -> Bool {
        if item.live.contains(where: { $0.isNamed(id) }) { return true }
        return try table.revision(id) != nil
    }

    /// The revision as it goes into the journal: not newer than the operation, and newer than its
    /// parents.
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

    /// - Returns: Whether there is one more live version now, and more than one altogether.
    private func insert<T: ItemTable>(
        _ revision: Revision, settling settled: [Identifier] = [], into item: inout ItemState,
        in table: inout T
    ) throws(T.Failure) -> Bool {
        var new = try received(revision, item.live, in: &table)
        // What was fenced off replaces nothing, not even what it was made from, and is older than
        // the current version, so that it does not become the current one later either.
        let isFenced = isFenced && item.current != nil
        if isFenced, let current = item.current { new.moment.lower(below: current.moment) }
        try table.record(new, of: item.id)
        let count = item.live.count
        let ended = isFenced ? [] : settled + revision.parents
        var live = item.live.filter { one in !ended.contains(where: one.isNamed) }
        if let same = live.firstIndex(where: { $0.content == new.content }) {
            live[same].stand(for: new)
        } else if try !isSuperseded(new.id, by: live, in: &table) {
            live.append(new)
        }
        item.live = live
        item.sequence = sequence
        return live.count > max(count, 1)
    }

    /// Whether a live revision is derived from this one, which arrives late: after the hub came
    /// back from a backup, devices send again what it has lost, the newest versions perhaps first.
    private func isSuperseded<T: ItemTable>(
        _ revision: Identifier, by live: [Revision], in table: inout T
    ) throws(T.Failure) -> Bool {
        var (open, seen) = (live.flatMap(\.parents), Set<Identifier>())
        while let next = open.popLast(), seen.count < 64 {
            if next == revision { return true }
            if seen.insert(next).inserted { open += try table.revision(next)?.parents ?? [] }
        }
        return false
    }
}

extension ItemState {
    /// Whether this is one of the live revisions.
    func isLive(_ revision: Identifier) -> Bool { live.contains { $0.isNamed(revision) } }

    /// All revisions that no other one has superseded. The newest of them is the current one.
    package internal(set) var live: [Revision] {
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
